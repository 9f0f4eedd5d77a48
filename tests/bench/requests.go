package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/tree"
)

// The shape of the measurement of requests.
const (
	manyHosts    = 10_000
	fewHosts     = 10
	fewBackends  = 10
	podAddresses = 8 // that the one responder listens on
	podsOf       = 2 // servers of a backend
	roundTime    = 2 * time.Second
	warmUpTime   = 4 * time.Second
	connections  = 32
)

// requests measures what the number of hosts and backends, and sluice's rules, cost a
// request. HAProxy has one thread, so that it is what limits the rate; wrk has one, too, and
// so has the responder, another HAProxy that answers by itself.
func (b *bench) requests(ctx context.Context) error {
	wrk, err := b.findWrk()
	if err != nil {
		return err
	}
	sink, err := net.ListenPacket("udp", "127.0.0.1:0") // the access log; nobody reads it
	if err != nil {
		return err
	}
	defer sink.Close()
	pods, port, err := b.responder()
	if err != nil {
		return err
	}
	defer pods.stop()
	shared := cluster{services: fewBackends, endpoints: podsOf, pods: podList(), port: port, share: func(i int) int { return i % fewBackends }}
	few, many, all := shared, shared, shared
	few.ingresses, many.ingresses = fewHosts, manyHosts
	all.services, all.ingresses, all.share = manyHosts, manyHosts, nil
	log := sink.LocalAddr().String()
	b.table.begin("Requests")
	if err := b.byHosts(ctx, wrk, log, few, many); err != nil {
		return err
	}
	return b.byBackends(ctx, wrk, log, all)
}

// byHosts compares few and many hosts on few backends.
func (b *bench) byHosts(ctx context.Context, wrk, log string, few, many cluster) error {
	t := &traffic{bench: b, wrk: wrk, log: log}
	defer t.stop()
	err := t.start(
		contender{"few", "10 hosts on 10 backends", few, t.rendered, nil},
		contender{"many", "10 000 hosts on 10 backends", many, t.rendered, nil},
		contender{"fewByHand", "10 hosts on 10 backends, written by hand", few, t.handWritten, nil},
		contender{"manyByHand", "10 000 hosts on 10 backends, written by hand", many, t.handWritten, nil},
	)
	if err != nil {
		return err
	}
	rounds, err := t.play(ctx)
	if err != nil {
		return err
	}
	b.table.atLeast("10 000 hosts on 10 backends / 10 hosts on 10 backends: requests/s", ratio(rounds["many"], rounds["few"], round.perSecond), 0.9)
	b.table.inform("the same by CPU of HAProxy for each request", fmt.Sprintf("%.2f", ratio(rounds["few"], rounds["many"], round.cost)))
	b.table.inform("the same, written by hand, by requests/s and CPU", fmt.Sprintf("%.2f, %.2f",
		ratio(rounds["manyByHand"], rounds["fewByHand"], round.perSecond), ratio(rounds["fewByHand"], rounds["manyByHand"], round.cost)))
	b.table.inform("10 hosts on 10 backends / written by hand, by requests/s and CPU", fmt.Sprintf("%.2f, %.2f",
		ratio(rounds["few"], rounds["fewByHand"], round.perSecond), ratio(rounds["fewByHand"], rounds["few"], round.cost)))
	return nil
}

// byBackends compares a rendered configuration of many backends with one that is written by
// hand. Both leave thousands of idle connections behind each round, so nothing else is
// measured beside them.
func (b *bench) byBackends(ctx context.Context, wrk, log string, all cluster) error {
	t := &traffic{bench: b, wrk: wrk, log: log}
	defer t.stop()
	err := t.start(
		contender{"all", "10 000 hosts on 10 000 backends", all, t.rendered, nil},
		contender{"allByHand", "10 000 hosts on 10 000 backends, written by hand", all, t.handWritten, nil},
	)
	if err != nil {
		return err
	}
	rounds, err := t.play(ctx)
	if err != nil {
		return err
	}
	b.table.atLeast("10 000 hosts on 10 000 backends / written by hand: requests/s", ratio(rounds["all"], rounds["allByHand"], round.perSecond), 0.9)
	b.table.inform("the same by CPU of HAProxy for each request", fmt.Sprintf("%.2f", ratio(rounds["allByHand"], rounds["all"], round.cost)))
	return nil
}

// podList are the addresses of the responder.
func podList() []string {
	list := make([]string, podAddresses)
	for i := range list {
		list[i] = fmt.Sprintf("127.0.0.%d", 2+i)
	}
	return list
}

// responder starts the server that plays all pods.
func (b *bench) responder() (*proxy, int32, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, 0, err
	}
	_, port, _ := strings.Cut(address, ":")
	var text strings.Builder
	text.WriteString("global\n    nbthread 1\n    maxconn 9000\ndefaults\n    mode http\n    timeout client 5m\n    timeout http-request 5m\nfrontend pods\n")
	for _, pod := range podList() {
		fmt.Fprintf(&text, "    bind %s:%s\n", pod, port)
	}
	text.WriteString("    http-request return status 200 content-type text/plain string \"ok\"\n")
	dir := filepath.Join(b.dir, "pods")
	if err := writeFiles(dir, map[string]string{"conf.d/pods.cfg": text.String()}); err != nil {
		return nil, 0, err
	}
	p, err := startProxy(b.binaries["3.4"], dir, podList()[0]+":"+port)
	var number int32
	_, _ = fmt.Sscan(port, &number)
	return p, number, err
}

// rendered writes the tree that sluice makes of a cluster.
func (t *traffic) rendered(c cluster, dir, address string) error {
	s, err := newSetup(address, dir)
	if err != nil {
		return err
	}
	s.memo.AllowLocalEndpoints = true // the pods are
	l := newLine(s)
	l.take(append(c.changes(), settings(map[string]string{"nbthread": "1", "max-connections": "5000", "syslog-endpoint": t.log})))
	files := map[string]string{}
	for path, file := range l.plan(nil).Tree.All {
		files[path] = string(file.Bytes())
	}
	number := tree.GenerationFile(1, model.Digest{}) // nobody adopts this HAProxy
	files[number.Path] = string(number.Bytes())
	return writeFiles(dir, files)
}

// handWritten writes what an expert would write by hand for the same hosts and pods: one
// frontend, one map, the same timeouts, retries and headers, the access log to the same
// place.
func (t *traffic) handWritten(c cluster, dir, address string) error {
	var hosts, backends strings.Builder
	for i := range c.ingresses {
		service := i
		if c.share != nil {
			service = c.share(i)
		}
		fmt.Fprintf(&hosts, "%s %s\n", hostOf(i), nameOf(service))
	}
	for i := range c.services {
		fmt.Fprintf(&backends, "backend %s\n    balance roundrobin\n", nameOf(i))
		for j := range c.endpoints {
			// Like sluice's: what is compared is the way to the server, not what becomes of its connection.
			fmt.Fprintf(&backends, "    server pod%d %s:%d pool-max-conn 0\n", j+1, c.address(i, j, 0), c.port)
		}
	}
	return writeFiles(dir, map[string]string{
		"conf.d/haproxy.cfg":  fmt.Sprintf(handWritten, t.log, address),
		"conf.d/services.cfg": backends.String(),
		"maps/hosts.map":      hosts.String(),
	})
}

const handWritten = `global
    default-path parent
    nbthread 1
    maxconn 5000
    hard-stop-after 10m
    log %s len 1024 format raw local0

defaults
    mode http
    log global
    option httplog
    option dontlognull
    option idle-close-on-response
    timeout client 50s
    timeout client-fin 50s
    timeout connect 1s
    timeout server 50s
    timeout server-fin 50s
    timeout queue 5s
    timeout tunnel 1h
    timeout http-request 5s
    timeout http-keep-alive 1m
    retries 3
    option redispatch 1
    retry-on conn-failure empty-response

frontend http
    bind %s
    http-request set-header X-Forwarded-For %%[src]
    http-request set-header X-Forwarded-Proto http
    use_backend %%[req.hdr(host),lower,map(maps/hosts.map)]
    default_backend none

backend none
    http-request return status 404 content-type text/plain string "no such host"

`

// writeFiles writes files below a folder.
func writeFiles(dir string, files map[string]string) error {
	for path, text := range files {
		name := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}
