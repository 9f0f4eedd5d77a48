package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// proxy is a running HAProxy without a master.
type proxy struct {
	command *exec.Cmd
	address string
	output  bytes.Buffer
	gone    chan struct{}
}

// startProxy starts HAProxy on dir/conf.d and waits until it listens on an address.
func startProxy(binary, dir, address string) (*proxy, error) {
	p := &proxy{command: exec.Command(binary, "-db", "-f", filepath.Join(dir, "conf.d")), address: address, gone: make(chan struct{})}
	p.command.Stdout, p.command.Stderr = &p.output, &p.output
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.command.Wait()
		close(p.gone)
	}()
	deadline := time.After(patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if conn, err := net.Dial("tcp", address); err == nil {
			return p, conn.Close()
		}
		select {
		case <-p.gone:
			return nil, fmt.Errorf("HAProxy ended: %s", p.output.String())
		case <-deadline:
			p.stop()
			return nil, errors.New("HAProxy does not listen")
		case <-tick.C:
		}
	}
}

func (p *proxy) stop() {
	_ = p.command.Process.Signal(syscall.SIGTERM)
	<-p.gone
}

// cpu is the CPU time that the process has used. Its fields are counted in ticks of 10 ms,
// on Linux always.
func (p *proxy) cpu() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.command.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), ") ") // behind the name: field 3 on
	fields := strings.Fields(rest)
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond, nil
}

// contender is one configuration under load.
type contender struct {
	name  string
	hosts int
	proxy *proxy
}

// traffic compares contenders.
type traffic struct {
	bench      *bench
	wrk        string
	log        string // where access logs go
	contenders map[string]*contender
}

func (t *traffic) start(name string, hosts int, write func(dir, address string) error) error {
	progress("starting HAProxy for requests: %s", name)
	address, err := freeAddress()
	if err != nil {
		return err
	}
	dir := filepath.Join(t.bench.dir, "requests-"+name)
	if err := write(dir, address); err != nil {
		return err
	}
	p, err := startProxy(t.bench.binaries["3.4"], dir, address)
	if err != nil {
		return err
	}
	if t.contenders == nil {
		t.contenders = map[string]*contender{}
	}
	t.contenders[name] = &contender{name, hosts, p}
	return nil
}

func (t *traffic) stop() {
	for _, c := range t.contenders {
		c.proxy.stop()
	}
}

// round is what one round of load came to.
type round struct {
	rate float64       // requests/s
	cpu  time.Duration // of HAProxy, for each request
}

// load sends requests to a contender, to one host after the other.
func (t *traffic) load(ctx context.Context, name string, length time.Duration) (round, error) {
	c := t.contenders[name]
	script := filepath.Join(t.bench.dir, "hosts.lua")
	if err := os.WriteFile(script, []byte(hostsScript), 0o600); err != nil {
		return round{}, err
	}
	before, err := c.proxy.cpu()
	if err != nil {
		return round{}, err
	}
	command := exec.CommandContext(ctx, t.wrk, "-t1", fmt.Sprintf("-c%d", connections), fmt.Sprintf("-d%ds", int(length.Seconds())),
		"-s", script, "http://"+c.proxy.address)
	command.Env = append(os.Environ(), fmt.Sprintf("HOSTS=%d", c.hosts))
	out, err := command.CombinedOutput()
	if err != nil {
		return round{}, fmt.Errorf("wrk: %w\n%s", err, out)
	}
	after, err := c.proxy.cpu()
	if err != nil {
		return round{}, err
	}
	var n, micros, wrong int
	at := bytes.Index(out, []byte("RESULT "))
	if _, err := fmt.Sscanf(string(out[max(at, 0):]), "RESULT %d %d %d", &n, &micros, &wrong); err != nil || at < 0 || n == 0 || wrong > 0 {
		return round{}, fmt.Errorf("wrk: %d of %d answers are wrong\n%s", wrong, n, out)
	}
	return round{rate: float64(n) / (float64(micros) / 1e6), cpu: (after - before) / time.Duration(n)}, nil
}

// hostsScript makes wrk ask for one host after the other, in an order that is shuffled, but
// the same each time: clients don't ask for neighbours one after the other, and in
// alphabetical order what the next request needs would be in the processor's cache already,
// the more so the simpler the configuration is.
const hostsScript = `
local requests, count, at = {}, tonumber(os.getenv("HOSTS")), 0
function init(args)
  for i = 0, count - 1 do
    requests[i + 1] = wrk.format("GET", "/", { ["Host"] = string.format("app-%05d.example.com", i) })
  end
  local seed = 1
  for i = count, 2, -1 do
    seed = (seed * 16807) % 2147483647
    local j = seed % i + 1
    requests[i], requests[j] = requests[j], requests[i]
  end
end
function request()
  at = at % count + 1
  return requests[at]
end
function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format("RESULT %d %d %d\n", summary.requests, summary.duration, e.connect + e.read + e.write + e.status + e.timeout))
end
`

// compare loads the contenders by turns and fills the table.
func (t *traffic) compare(ctx context.Context) error {
	names := []string{"few", "handFew", "many", "all", "hand"}
	for _, name := range names {
		if _, err := t.load(ctx, name, warmUpTime); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	rounds := map[string][]round{}
	for i := range 2*t.bench.rounds + 1 {
		progress("round %d", i+1)
		slices.Reverse(names) // so that what changes slowly hits all alike
		for _, name := range names {
			r, err := t.load(ctx, name, roundTime)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			rounds[name] = append(rounds[name], r)
		}
	}
	table := &t.bench.table
	table.begin("Requests")
	for _, c := range []struct{ name, what string }{
		{"few", "10 hosts on 10 backends"}, {"handFew", "10 hosts on 10 backends, written by hand"}, {"many", "10 000 hosts on 10 backends"},
		{"all", "10 000 hosts on 10 000 backends"}, {"hand", "10 000 hosts on 10 000 backends, written by hand"},
	} {
		table.inform(c.what+": requests/s, CPU of HAProxy for each", each(rounds[c.name]))
	}
	table.atLeast("10 000 hosts on 10 backends / 10 hosts on 10 backends: requests/s", ratio(rounds["many"], rounds["few"], round.perSecond), 0.9)
	table.atLeast("10 000 hosts on 10 000 backends / the same written by hand: requests/s", ratio(rounds["all"], rounds["hand"], round.perSecond), 0.9)
	table.inform("10 hosts on 10 backends / the same written by hand: requests/s", fmt.Sprintf("%.2f", ratio(rounds["few"], rounds["handFew"], round.perSecond)))
	table.inform("the same three by CPU of HAProxy for each request", fmt.Sprintf("%.2f, %.2f, %.2f",
		ratio(rounds["few"], rounds["many"], round.cost), ratio(rounds["hand"], rounds["all"], round.cost), ratio(rounds["handFew"], rounds["few"], round.cost)))
	return nil
}

func (r round) perSecond() float64 { return r.rate }

func (r round) cost() float64 { return r.cpu.Seconds() }

func each(rounds []round) string {
	var rates []float64
	var costs []time.Duration
	for _, r := range rounds {
		rates, costs = append(rates, r.rate), append(costs, r.cpu)
	}
	return fmt.Sprintf("%.0f, %.1f µs", median(rates), median(costs).Seconds()*1e6)
}

// ratio is the median of the ratios in rounds that followed one another.
func ratio(a, b []round, of func(round) float64) float64 {
	var list []float64
	for i := range a {
		list = append(list, of(a[i])/of(b[i]))
	}
	return median(list)
}

// findWrk is the path of wrk.
func (b *bench) findWrk() (string, error) {
	out, err := exec.Command("tests/tools/wrk.sh", "path").Output()
	if err != nil {
		return "", fmt.Errorf("wrk is needed: run this from the repository's folder, or set SLUICE_WRK: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
