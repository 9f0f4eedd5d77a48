package traffic

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// Point 4: endpoints change and routes come and go on many backends.
func TestChurn(t *testing.T) {
	w := newWorld(t, "3.4", nil)
	pods := NewPods(t, w.book, 6)
	backends, changed := size(300, 5000), 50
	var b strings.Builder
	hosts := make([]string, changed)
	for i := range backends {
		service := fmt.Sprintf("web%d", i)
		b.WriteString(route(service))
		if i >= changed {
			b.WriteString(Slice{Service: service, Ready: pods[:2]}.String())
			continue
		}
		hosts[i] = service + ".test"
		w.Write(service+"-slice.yaml", Slice{Service: service, Ready: pods[:2]}.String())
	}
	w.put("web.yaml", b.String())
	before := w.reloads()
	var running []*Running
	for _, kind := range Kinds {
		l := w.load(kind, "", 60)
		l.Hosts = hosts
		running = append(running, l.Start(t))
	}
	// 1 000 endpoint changes, 200 new and 200 deleted routes in a minute.
	var routes sync.WaitGroup
	routes.Go(func() { w.comeAndGo(pods[0], int(lasting(9*time.Second, 10*time.Minute)/(300*time.Millisecond))) })
	tick := time.NewTicker(60 * time.Millisecond)
	defer tick.Stop()
	for n := range int(lasting(9*time.Second, 10*time.Minute) / (60 * time.Millisecond)) {
		service := fmt.Sprintf("web%d", n%changed)
		from := (n/changed + n) % (len(pods) - 2)
		w.Write(service+"-slice.yaml", Slice{Service: service, Ready: pods[from : from+2]}.String())
		<-tick.C
	}
	routes.Wait()
	for _, r := range running {
		none(t, string(r.Load.Kind), r.Stop())
	}
	if after := w.reloads(); after != before {
		t.Errorf("%d reloads, although all backends have the same profile", after-before)
	}
}

// comeAndGo adds routes and deletes those that are ten rounds old. A new host answers 404
// until it is served, and then 200: anything else is an error.
func (w *world) comeAndGo(pod *Pod, n int) {
	name := func(i int) string { return fmt.Sprintf("new%d", i) }
	worst := time.Duration(0)
	for i := range n {
		next := time.Now().Add(300 * time.Millisecond)
		w.Write(name(i)+".yaml", route(name(i))+Slice{Service: name(i), Ready: []*Pod{pod}}.String())
		begin := time.Now()
		for status := 0; status != http.StatusOK; {
			answer, err := w.Get(name(i)+".test", "/1")
			status = answer.Status
			if err != nil || status != http.StatusOK && status != http.StatusNotFound || time.Since(begin) > 20*time.Second {
				w.t.Errorf("new route %d: status %d, %v, %s after it was written", i, status, err, time.Since(begin))
				return
			}
		}
		worst = max(worst, time.Since(begin))
		if i >= 10 {
			w.Remove(name(i-10) + ".yaml")
		}
		time.Sleep(time.Until(next))
	}
	w.t.Logf("%d new routes, served at most %s after they were written", n, worst.Round(100*time.Microsecond))
}

// Point 10: from an endpoint's event to the runtime command.
func TestEventToCommand(t *testing.T) {
	w := newWorld(t, "3.4", nil)
	pods := NewPods(t, w.book, 3)
	backends, batch := size(1000, 10000), 1000
	var services, inBatch, rest strings.Builder
	slices := func(first int) string {
		inBatch.Reset()
		for i := range batch {
			inBatch.WriteString(Slice{Service: fmt.Sprintf("web%d", i), Ready: pods[first : first+2]}.String())
		}
		return inBatch.String()
	}
	for i := range backends {
		service := fmt.Sprintf("web%d", i)
		services.WriteString(route(service))
		if i >= batch {
			rest.WriteString(Slice{Service: service, Ready: pods[:2]}.String())
		}
	}
	w.put("one.yaml", route("one"))
	w.Write("rest.yaml", rest.String())
	w.Write("batch.yaml", slices(0))
	w.put("web.yaml", services.String())
	count, sum := "sluice_event_to_applied_seconds_count", "sluice_event_to_applied_seconds_sum"
	within := func() (float64, float64) {
		return w.Metric(count, ""), w.Metric("sluice_event_to_applied_seconds_bucket", `le="0.016"`)
	}
	all, quick := within()
	n := size(100, 1000)
	for i := range n {
		w.serve("one", pods[i%2], pods[2])
	}
	all2, quick2 := within()
	share := (quick2 - quick) / (all2 - all)
	t.Logf("%d backends, one endpoint at a time: %.1f%% of %.0f applied within 16 ms of their event", backends, 100*share, all2-all)
	if share < 0.5 || soak && share < 0.99 {
		t.Errorf("only %.1f%% within 16 ms", 100*share)
	}
	before, events := w.Metric(sum, ""), w.Metric(count, "")
	w.put("batch.yaml", slices(1))
	took := (w.Metric(sum, "") - before) / (w.Metric(count, "") - events)
	t.Logf("%d endpoint changes in one go: %.0f ms from the event until HAProxy, files and registry have them", batch, 1000*took)
}
