//go:build bench

package bench

import (
	"context"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/tests/kube"
)

// The shape of the measurement.
const (
	few, many       = 1000, 5000 // Services
	endpoints       = 4          // of each
	endpointChanges = 1000
	newRoutes       = 500
	idleTime        = 20 * time.Second
)

var (
	out    = flag.String("bench-out", "", "page to write the table to; relative to the repository")
	factor = flag.Int("bench-divide", 1, "divide the numbers of Services and changes, for a quick look")
)

func TestMain(m *testing.M) { kube.Main(m, "sluice") }

// TestCluster measures both sizes and compares them.
func TestCluster(t *testing.T) {
	var small, large results
	t.Run("few", func(t *testing.T) { small = measure(t, few / *factor) })
	t.Run("many", func(t *testing.T) { large = measure(t, many / *factor) })
	if t.Failed() {
		return
	}
	table := newTable(small, large)
	t.Logf("\n%s", table)
	if *out != "" {
		if err := table.write(*out); err != nil {
			t.Fatal(err)
		}
	}
	for _, row := range table.rows {
		if row.missed {
			t.Errorf("missed: %s: %s, target %s", row.what, row.value, row.target)
		}
	}
}

// results are those of one size.
type results struct {
	services       int
	start          time.Duration // of the controller, until it is ready
	endpoint       []time.Duration
	route          []time.Duration
	cpuPerEndpoint time.Duration
	idleCores      float64
	heap           float64 // MiB in use after a collection
	reloads        float64 // for the new routes
}

// measure runs one cluster with n Services.
func measure(t *testing.T, n int) results {
	ctx := context.Background()
	c := kube.Start(t, kube.Options{})
	d := newDriver(t, c, n)
	d.populate(ctx)
	r := results{services: n}
	began := time.Now()
	d.startController(ctx)
	r.start = time.Since(began)
	progress("%d Services: ready after %s", n, r.start.Round(time.Millisecond))
	d.settle(ctx)
	d.watch(ctx)
	r.idleCores = d.idle()
	before := d.cpu()
	r.endpoint = d.times(endpointChanges / *factor, func(i int) time.Duration { return d.changeEndpoint(ctx, i) })
	r.cpuPerEndpoint = (d.cpu() - before) / time.Duration(len(r.endpoint))
	reloads := d.metric("sluice_reloads_total")
	r.route = d.times(newRoutes / *factor, func(i int) time.Duration { return d.addRoute(ctx, i) })
	r.reloads = d.metric("sluice_reloads_total") - reloads
	r.heap = d.heap()
	return r
}

func progress(format string, args ...any) { fmt.Printf("... "+format+"\n", args...) }
