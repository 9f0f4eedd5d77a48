package memo

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// bigSnapshot holds n Ingresses, each with a host, a Service and ten endpoints of its own.
func bigSnapshot(n int) *snapshot.Snapshot {
	s := snapshot.New()
	changes := []snapshot.Change{{Key: snapshot.Key{Kind: snapshot.IngressClass, Name: "sluice"}, Object: class("sluice", controller)}}
	for i := range n {
		name := fmt.Sprintf("app-%05d", i)
		var addresses []string
		for j := range 10 {
			addresses = append(addresses, fmt.Sprintf("10.%d.%d.%d", i/250, i%250, j+1))
		}
		for _, object := range []any{ing(name, name+".example.com/>"+name), service(name), endpoints(name+"-x", name, addresses...)} {
			changes = append(changes, snapshot.Change{Key: keyOf(object), Object: object})
		}
	}
	s.Apply(changes)
	return s
}

// cpuTime is what the process used so far, garbage collection included: time on the wall
// says little on a machine that is shared.
func cpuTime(b *testing.B) time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func BenchmarkScratch10k(b *testing.B) {
	s := bigSnapshot(10_000)
	keys := everything(s)
	b.ReportAllocs()
	before := cpuTime(b)
	defer func() { b.ReportMetric(float64((cpuTime(b)-before).Milliseconds())/float64(b.N), "cpu-ms/op") }()
	for b.Loop() {
		if m := New(options()).Update(s, keys, start); m.Backends.Len() != 10_000 {
			b.Fatalf("%d backends", m.Backends.Len())
		}
	}
}

func BenchmarkEndpointChange(b *testing.B) {
	s := bigSnapshot(10_000)
	m := New(options())
	m.Update(s, everything(s), start)
	m.Planned()
	m.Applied()
	var changes [2][]snapshot.Change
	for i := range changes {
		slice := endpoints("app-00042-x", "app-00042", fmt.Sprintf("10.77.0.%d", i+1), "10.0.42.1", "10.0.42.2", "10.0.42.3", "10.0.42.4",
			"10.0.42.5", "10.0.42.6", "10.0.42.7", "10.0.42.8", "10.0.42.9")
		changes[i] = []snapshot.Change{{Key: keyOf(slice), Object: slice}}
	}
	var last *model.Model
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		next := m.Update(s, s.Apply(changes[i%2]), start)
		if next == last {
			b.Fatal("nothing changed")
		}
		last, i = next, i+1
	}
}
