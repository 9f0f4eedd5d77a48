//go:build bench

package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/sluice-proxy/sluice/tests/kube"
)

type row struct {
	what, target, value string
	missed              bool
}

type table struct{ rows []row }

func newTable(small, large results) *table {
	t := &table{}
	for _, r := range []results{small, large} {
		name := fmt.Sprintf("%d Services: ", r.services)
		t.inform(name+"start of the controller until it is ready", r.start.Round(time.Millisecond).String())
		t.atMost(name+"endpoint change until traffic shows it, p99", millis(quantile(r.endpoint, 0.99)), 20, "ms")
		t.inform(name+"the same, p50 and maximum", fmt.Sprintf("%.1f ms, %.1f ms", millis(quantile(r.endpoint, 0.5)), millis(slices.Max(r.endpoint))))
		t.atMost(name+"new Ingress and Service until traffic shows them, p99", millis(quantile(r.route, 0.99)), 50, "ms")
		t.inform(name+"the same, p50 and maximum; reloads for all", fmt.Sprintf("%.1f ms, %.1f ms; %.0f", millis(quantile(r.route, 0.5)), millis(slices.Max(r.route)), r.reloads))
		t.inform(name+"CPU of the controller for each endpoint change", fmt.Sprintf("%.1f ms", millis(r.cpuPerEndpoint)))
		t.atMost(name+"idle controller", r.idleCores, 0.01, "cores")
		t.atMost(name+"heap in use after a collection", r.heap, 150, "MiB")
	}
	pair := fmt.Sprintf("%d / %d Services: ", large.services, small.services)
	t.atMost(pair+"endpoint change, p50", ratio(large.endpoint, small.endpoint, 0.5), 1.5, "")
	t.atMost(pair+"endpoint change, p99", ratio(large.endpoint, small.endpoint, 0.99), 1.5, "")
	t.atMost(pair+"new Ingress and Service, p50", ratio(large.route, small.route, 0.5), 1.5, "")
	t.atMost(pair+"new Ingress and Service, p99", ratio(large.route, small.route, 0.99), 1.5, "")
	return t
}

func (t *table) inform(what, value string) { t.rows = append(t.rows, row{what: what, value: value}) }

func (t *table) atMost(what string, value, limit float64, unit string) {
	target := strings.TrimSpace(fmt.Sprintf("<= %g %s", limit, unit))
	shown := strings.TrimSpace(fmt.Sprintf("%.*f %s", digits(limit), value, unit))
	t.rows = append(t.rows, row{what, target, shown, value > limit})
}

func digits(limit float64) int {
	if limit < 1 {
		return 4
	}
	return 1
}

// String is the table as the page has it.
func (t *table) String() string {
	var b strings.Builder
	b.WriteString("| what | target | measured | |\n| --- | --- | --- | --- |\n")
	for _, r := range t.rows {
		verdict := ""
		if r.target != "" {
			verdict = map[bool]string{true: "MISSED", false: "ok"}[r.missed]
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.what, r.target, r.value, verdict)
	}
	return b.String()
}

// mark begins the part of the page that is written here; `make bench` leaves it as it is.
const mark = "<!-- Written by: make bench-cluster -->\n"

const head = `
## In a cluster

From the API server's answer to a write until HAProxy's traffic shows it, seen from outside, less what a bare watcher of the
same objects needed in the same run: %d endpoint changes, %d new routes. %d cores run the control plane, HAProxy 3.4, the controller
and the driver together. What exactly is measured, and how, stands in [tests/kube/bench](../tests/kube/bench/doc.go).

`

// write puts the table into the page.
func (t *table) write(page string) error {
	name := filepath.Join(kube.Root(), page)
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	kept, old, _ := strings.Cut(string(text), "\n"+mark)
	kept += "\n" + mark + fmt.Sprintf(head, endpointChanges / *factor, newRoutes / *factor, runtime.NumCPU()) + t.String()
	const next = "\n<!-- " // the part behind this one
	if _, behind, found := strings.Cut(old, next); found {
		kept += next + behind
	}
	return os.WriteFile(name, []byte(kept), 0o644)
}

func quantile(list []time.Duration, q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

func ratio(a, b []time.Duration, q float64) float64 {
	return float64(quantile(a, q)) / float64(max(quantile(b, q), time.Microsecond))
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
