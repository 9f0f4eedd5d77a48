package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-proxy/sluice/tests/harness"
)

// steady are clients that ask without a pause worth mentioning and note each failure.
type steady struct {
	stop     chan struct{}
	wg       sync.WaitGroup
	kept     *keptAlive
	mu       sync.Mutex
	failures []string
	answers  map[string]int
}

// clients starts a client that keeps its connection, one with a new connection for each
// request, and one of the latter kind with TLS where secure, a host, is given.
func clients(c *harness.Controller, host, secure string) *steady {
	s := &steady{stop: make(chan struct{}), answers: map[string]int{}, kept: &keptAlive{address: c.HTTP, host: host}}
	s.start("new connection", func() error {
		return status(harness.Ask{Address: c.HTTP, Host: host, Path: "/"}, 200, nil)()
	})
	s.start("kept connection", s.kept.ask)
	if secure != "" {
		s.start("new TLS connection", func() error {
			return status(harness.Ask{Address: c.HTTPS, ServerName: secure, Host: secure, Path: "/"}, 200, nil)()
		})
	}
	return s
}

func (s *steady) start(name string, ask func() error) {
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		tick := time.NewTicker(3 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-s.stop:
				return
			case <-tick.C:
			}
			err := ask()
			s.mu.Lock()
			if s.answers[name]++; err != nil {
				s.failures = append(s.failures, fmt.Sprintf("%s, request %d: %v", name, s.answers[name], err))
			}
			s.mu.Unlock()
		}
	}()
}

// end stops the clients and fails the test if one of their requests failed.
func (s *steady) end(t *testing.T) {
	t.Helper()
	close(s.stop)
	s.wg.Wait()
	s.kept.close() // a graceful stop of HAProxy would wait for it
	t.Logf("answers: %v", s.answers)
	for name, n := range s.answers {
		if n < 50 {
			t.Errorf("%s: only %d requests", name, n)
		}
	}
	for _, failure := range s.failures[:min(len(s.failures), 5)] {
		t.Error(failure)
	}
	if n := len(s.failures); n > 5 {
		t.Errorf("%d failures in all", n)
	}
}

// keptAlive asks over one connection until the other side announces its end. Other than
// net/http it never asks a second time.
type keptAlive struct {
	address, host string
	conn          net.Conn
	reader        *bufio.Reader
}

func (k *keptAlive) ask() error {
	if k.conn == nil {
		conn, err := net.DialTimeout("tcp", k.address, 5*time.Second)
		if err != nil {
			return err
		}
		k.conn, k.reader = conn, bufio.NewReader(conn)
	}
	err := k.exchange()
	if err != nil {
		k.close()
	}
	if errors.Is(err, errLast) {
		return nil
	}
	return err
}

func (k *keptAlive) close() {
	if k.conn != nil {
		k.conn.Close()
		k.conn = nil
	}
}

var errLast = errors.New("the last answer of the connection")

func (k *keptAlive) exchange() error {
	_ = k.conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := fmt.Fprintf(k.conn, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", k.host); err != nil {
		return err
	}
	answer, err := http.ReadResponse(k.reader, nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return err
	}
	if answer.StatusCode != 200 {
		return fmt.Errorf("status %d", answer.StatusCode)
	}
	if answer.Close {
		return errLast
	}
	return nil
}

// words are the n-th words of the lines of an answer of the runtime socket.
func words(text string, n int) []string {
	var list []string
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > n && fields[0] != "#" {
			list = append(list, fields[n])
		}
	}
	slices.Sort(list)
	return list
}

// quiet is like global, without a log of requests.
func quiet(timeout string) string {
	return strings.Replace(global(timeout), "\ndata: {", "\ndata: {syslog-endpoint: none, ", 1)
}

// window is a stream of changes that need no reload: a server, a map entry, a certificate.
type window struct {
	c     *harness.Controller
	pods  [2]*harness.Pod
	pairs []*harness.Pair
	hosts []string
	turn  int
	last  *harness.Pair
	both  bool
}

func (w *window) change() {
	w.turn++
	switch w.turn % 3 {
	case 0:
		w.both = !w.both
		w.c.Write("slice.yaml", w.slice())
	case 1:
		host := fmt.Sprintf("h%d.example", w.turn)
		w.hosts = append(w.hosts, host)
		w.c.Write(host+".yaml", harness.Ingress(fmt.Sprintf("h%d", w.turn), host, "web"))
		if len(w.hosts) > 50 {
			w.c.Remove(w.hosts[0] + ".yaml")
			w.hosts = w.hosts[1:]
		}
	case 2:
		w.last = w.pairs[w.turn%len(w.pairs)]
		w.c.Write("secret.yaml", w.last.TLSSecret("tls"))
	}
}

func (w *window) slice() string {
	if w.both {
		return harness.Slice("web", w.pods[0], w.pods[1])
	}
	return harness.Slice("web", w.pods[0])
}

// check compares worker and files with the last manifests.
func (w *window) check(t *testing.T) {
	t.Helper()
	servers := []string{"127.0.0.1:" + w.pods[0].Port()}
	if w.both {
		servers = append(servers, "127.0.0.1:"+w.pods[1].Port())
	}
	slices.Sort(servers)
	_, states, _ := strings.Cut(w.c.Runtime("show servers state test_web_80"), "\n")
	if diff := cmp.Diff(servers, words(states, 3)); diff != "" {
		t.Errorf("servers (-want +got):\n%s", diff)
	}
	hosts := append([]string{"web.example", "tls.example"}, w.hosts...)
	var routes []string
	for _, host := range hosts {
		routes = append(routes, host+"#/")
	}
	slices.Sort(hosts)
	slices.Sort(routes)
	for name, want := range map[string][]string{"hosts": hosts, "routes-prefix": routes} {
		if diff := cmp.Diff(want, words(w.c.Runtime("show map maps/"+name+".map"), 1)); diff != "" {
			t.Errorf("%s in the worker (-want +got):\n%s", name, diff)
		}
		text, err := os.ReadFile(filepath.Join(w.c.ConfigDir, "current", "maps", name+".map"))
		if diff := cmp.Diff(want, words(string(text), 0)); err != nil || diff != "" {
			t.Errorf("%s in the file (-want +got): %v\n%s", name, err, diff)
		}
	}
	must(t, serves(w.c, "tls.example", w.last.Serial))
	if names, err := filepath.Glob(filepath.Join(w.c.ConfigDir, "current", "certs", "*.pem")); err != nil || len(names) != 2 {
		t.Errorf("certificates %v, want that of the host and the default one (%v)", names, err)
	}
	if names := words(w.c.Runtime("show ssl cert"), 0); len(names) != 2 {
		t.Errorf("certificates in the worker: %v, want two", names)
	}
	agree(t, w.c, "test_web_80")
}

// A server, a map entry and a certificate change every few milliseconds while HAProxy is
// reloaded 20 times: nothing is missing afterwards, and nobody sees a failure meanwhile.
func TestChangesDuringReloads(t *testing.T) {
	const reloads = 20
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		w := &window{pods: [2]*harness.Pod{harness.NewPod(t, "web-1"), harness.NewPod(t, "web-2")}}
		authority := harness.NewAuthority(t, "window")
		for range 100 {
			w.pairs = append(w.pairs, authority.Issue(t, "tls.example"))
		}
		w.last = w.pairs[0]
		w.c = start(t, binary, map[string]string{
			"base.yaml":   harness.Class + harness.Service("web") + harness.Ingress("web", "web.example", "web") + secured("tls", "tls.example"),
			"global.yaml": quiet("50s"), "slice.yaml": w.slice(), "secret.yaml": w.last.TLSSecret("tls"),
		})
		before := w.c.Metric("sluice_reloads_total", "")
		steady := clients(w.c, "web.example", "tls.example")
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		deadline := time.Now().Add(4 * harness.Patience)
		for written, done := 0, 0; done < reloads; {
			if time.Now().After(deadline) {
				t.Fatalf("%d reloads, want %d", done, reloads)
			}
			if done == written {
				written++
				w.c.Write("global.yaml", quiet(fmt.Sprintf("%ds", 50+written)))
			}
			for range 5 {
				w.change()
				<-tick.C
			}
			done = int(w.c.Metric("sluice_reloads_total", "") - before)
		}
		w.c.Eventually("all is served", func() error {
			if s := w.c.State(); s.Applied != s.Wanted || s.Error != "" {
				return fmt.Errorf("wanted %d, applied %d, error %q", s.Wanted, s.Applied, s.Error)
			}
			answer, err := w.c.Get(w.hosts[len(w.hosts)-1], "/")
			if err == nil && answer.Status != 200 {
				err = fmt.Errorf("the last host answers %d", answer.Status)
			}
			return errors.Join(err, serves(w.c, "tls.example", w.last.Serial)())
		})
		steady.end(t)
		t.Logf("%d changes during %d reloads", w.turn, reloads)
		if got := w.c.Metric("sluice_reloads_total", "") - before; got != reloads {
			t.Errorf("%v reloads, want one for each change of the settings", got)
		}
		w.check(t)
		// The files are those that a start from scratch would write.
		w.c.Kill()
		w.c.Start()
		if writes, reloads := w.c.Metric("sluice_file_writes_total", ""), w.c.Metric("sluice_reloads_total", ""); writes+reloads != 0 {
			t.Errorf("a restart writes %v files and reloads %v times", writes, reloads)
		}
		w.check(t)
	})
}

func unready(slice string) string {
	return strings.Replace(slice, "addresses: [127.0.0.1]", "addresses: [127.0.0.1], conditions: {ready: false}", 1)
}

// otherShards are the shard files without a backend, with inode and time of change.
func otherShards(t *testing.T, c *harness.Controller, backend string) string {
	t.Helper()
	folder, err := filepath.EvalSymlinks(filepath.Join(c.ConfigDir, "current", "conf.d"))
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for line := range strings.Lines(inodes(t, folder)) {
		text, err := os.ReadFile(strings.Fields(line)[0])
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "backend "+backend+" ") {
			list = append(list, line)
		}
	}
	return strings.Join(list, "")
}

// Of 72 backends one pod flips its readiness: no reload, and nothing else is touched.
func TestReadinessFlipsNeedNoReload(t *testing.T) {
	const backends, flips = 72, 72
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		manifests := map[string]string{"class.yaml": harness.Class, "global.yaml": quiet("50s")}
		var names []string
		for i := range backends - 1 {
			name := fmt.Sprintf("app%d", i)
			manifests[name+".yaml"] = app(name, "1")
			names = append(names, name)
		}
		one, two := harness.NewPod(t, "flip-1"), harness.NewPod(t, "flip-2")
		manifests["flip.yaml"] = harness.Service("flip") + harness.Ingress("flip", "flip.example", "flip")
		slice := harness.Slice("flip", one, two)
		manifests["slice.yaml"] = slice
		c := start(t, binary, manifests, "--backend-shards", "256")
		before := otherShards(t, c, "test_flip_80")
		reloads, maps, shards := c.Metric("sluice_reloads_total", ""), c.Metric("sluice_file_writes_total", `kind="map"`), c.Metric("sluice_file_writes_total", `kind="shard"`)
		steady := clients(c, "flip.example", "")
		for i := range flips {
			text := slice
			if i%2 == 0 {
				text = unready(slice)
			}
			change(t, c, map[string]string{"slice.yaml": text})
		}
		steady.end(t)
		if got := c.Metric("sluice_reloads_total", "") - reloads; got != 0 {
			t.Errorf("%v reloads", got)
		}
		if got := c.Metric("sluice_file_writes_total", `kind="shard"`) - shards; got != flips {
			t.Errorf("%v shard files written, want %d", got, flips)
		}
		if got := c.Metric("sluice_file_writes_total", `kind="map"`) - maps; got != 0 {
			t.Errorf("%v map files written, want none", got)
		}
		if after := otherShards(t, c, "test_flip_80"); after != before {
			t.Errorf("other shards were touched:\n%s\n%s", before, after)
		}
		agree(t, c, backendsOf(append(names, "flip")...)...)
	})
}

// A pod that was toggled often and quickly, and is ready in the end, is used within a second.
func TestToggledPodIsUsedInTheEnd(t *testing.T) {
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		pod := harness.NewPod(t, "web-1")
		slice := harness.Slice("web", pod)
		c := start(t, binary, map[string]string{"base.yaml": harness.Class + harness.Service("web") + harness.Ingress("web", "web.example", "web"), "slice.yaml": slice})
		reloads := c.Metric("sluice_reloads_total", "")
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for range 15 {
			c.Write("slice.yaml", unready(slice))
			<-tick.C
			c.Write("slice.yaml", slice)
			<-tick.C
		}
		c.Write("slice.yaml", unready(slice))
		answers(t, c, "web.example/", 503, "")
		c.Write("slice.yaml", slice)
		within(t, time.Second, "the pod is used", status(harness.Ask{Address: c.HTTP, Host: "web.example", Path: "/"}, 200, nil))
		if state := c.Runtime("show servers state test_web_80"); len(strings.Split(strings.TrimSpace(state), "\n")) != 3 {
			t.Errorf("servers:\n%s", state)
		}
		if got := c.Metric("sluice_reloads_total", "") - reloads; got != 0 {
			t.Errorf("%v reloads", got)
		}
	})
}
