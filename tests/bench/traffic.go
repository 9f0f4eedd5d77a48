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
	name, what string
	cluster    cluster
	write      func(c cluster, dir, address string) error
	proxy      *proxy // once it is started
}

// traffic compares contenders.
type traffic struct {
	bench      *bench
	wrk        string
	log        string // where access logs go
	contenders []contender
}

// start starts an HAProxy for each contender.
func (t *traffic) start(list ...contender) error {
	for _, c := range list {
		progress("starting HAProxy: %s", c.what)
		address, err := freeAddress()
		if err != nil {
			return err
		}
		dir := filepath.Join(t.bench.dir, c.name)
		if err := c.write(c.cluster, dir, address); err != nil {
			return err
		}
		if c.proxy, err = startProxy(t.bench.binaries["3.4"], dir, address); err != nil {
			return fmt.Errorf("%s: %w", c.what, err)
		}
		t.contenders = append(t.contenders, c)
	}
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
func (t *traffic) load(ctx context.Context, c contender, length time.Duration) (round, error) {
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
	command.Env = append(os.Environ(), fmt.Sprintf("HOSTS=%d", c.cluster.ingresses))
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
// the more so the simpler the configuration is. The requests are as many and as different for
// few hosts as for many, so that the generator costs the same: what differs is the proxy's.
const hostsScript = `
local requests, hosts, count, at = {}, tonumber(os.getenv("HOSTS")), 10000, 0
function init(args)
  for i = 0, count - 1 do
    requests[i + 1] = wrk.format("GET", "/", {
      ["Host"] = string.format("app-%05d.example.com", i % hosts), ["X-Client"] = string.format("%05d", i) })
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

// play loads the contenders by turns and puts what they reached into the table.
func (t *traffic) play(ctx context.Context) (map[string][]round, error) {
	order := slices.Clone(t.contenders)
	rounds := map[string][]round{}
	for i := range 2*t.bench.rounds + 2 {
		progress("round %d", i)
		length := roundTime
		if i == 0 {
			length = warmUpTime
		}
		for _, c := range order {
			r, err := t.load(ctx, c, length)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.what, err)
			}
			if i > 0 {
				rounds[c.name] = append(rounds[c.name], r)
			}
		}
		slices.Reverse(order) // so that what one leaves behind hits all alike
	}
	for _, c := range t.contenders {
		t.bench.table.inform(c.what+": requests/s, CPU of HAProxy for each", each(rounds[c.name]))
	}
	return rounds, nil
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
