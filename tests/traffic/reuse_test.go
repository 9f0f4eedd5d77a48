package traffic

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// What docs/operations.md says of connection-reuse: with a kernel that gives up early no
// request is lost on kept connections either.
func TestKeptConnections(t *testing.T) {
	const setting = "/proc/sys/net/ipv4/tcp_retries2" // of this network namespace
	if err := os.WriteFile(setting, []byte("2"), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.WriteFile(setting, []byte("15"), 0) })
	w := newWorld(t, "3.4", nil)
	pods := NewPods(t, w.book, 4)
	w.put("web.yaml", route("web", "connection-reuse", "true"))
	w.serve("web", pods...)
	var running []*Running
	for _, kind := range Kinds {
		running = append(running, w.load(kind, "web.test", 100).Start(t))
	}
	time.Sleep(time.Second)
	pods[0].Vanish()
	time.Sleep(5 * time.Second)
	for _, r := range running {
		none(t, string(r.Load.Kind), r.Stop())
	}
}

// What a connection for each request costs HAProxy, by turns with one that is kept.
func TestCostOfConnections(t *testing.T) {
	w := newWorld(t, "3.4", nil)
	pods := NewPods(t, w.book, 4)
	w.put("fresh.yaml", route("fresh")+Slice{Service: "fresh", Ready: pods}.String())
	w.put("kept.yaml", route("kept", "connection-reuse", "true")+Slice{Service: "kept", Ready: pods}.String())
	cost := map[string]time.Duration{}
	rounds := size(2, 10)
	for range rounds {
		for _, host := range []string{"kept", "fresh"} {
			before := processorTime(t, w.WorkerPID())
			report := w.load(KeepAlive, host+".test", 300).During(t, func() { time.Sleep(2 * time.Second) })
			none(t, host, report)
			cost[host] += (processorTime(t, w.WorkerPID()) - before) / time.Duration(report.All())
		}
	}
	ratio := float64(cost["fresh"]) / float64(cost["kept"])
	t.Logf("CPU of HAProxy for each request: %s with a kept connection, %s with a new one: %.2f times", cost["kept"]/time.Duration(rounds), cost["fresh"]/time.Duration(rounds), ratio)
	if ratio > 4 {
		t.Errorf("a connection for each request costs %.2f times the CPU of a kept one; docs/operations.md promises less than 4", ratio)
	}
}

// processorTime is the user and system time of a process, in ticks of 10 ms.
func processorTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	var user, system int
	fields := strings.Fields(string(text[strings.LastIndex(string(text), ")")+2:]))
	_, _ = fmt.Sscan(fields[11], &user)
	_, _ = fmt.Sscan(fields[12], &system)
	return time.Duration(user+system) * 10 * time.Millisecond
}
