package traffic

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/tests/harness"
)

// Point 5: WebSockets keep old workers alive. Of those there are two at most: the third reload
// waits until one has ended, nobody is cut off, and changes go on at run time.
func TestReloadsWaitForOldWorkers(t *testing.T) {
	for _, version := range []string{"3.4", "3.2"} {
		t.Run(version, func(t *testing.T) { reloadsWait(t, version) })
	}
}

func reloadsWait(t *testing.T, version string) {
	w := newWorld(t, version, nil)
	pods := NewPods(t, w.book, 3)
	w.put("web.yaml", route("web"))
	w.serve("web", pods[:2]...)
	load := w.load(KeepAlive, "web.test", 60).Start(t)
	var tunnels []*tunnel
	reload := func() {
		before := w.reloads()
		w.Write("global.yaml", global(fmt.Sprintf("%ds", 20+len(tunnels))))
		w.reloaded(before)
	}
	for n := range 2 {
		tunnels = append(tunnels, openTunnel(t, w.HTTP, "web.test"))
		reload()
		if got := w.Metric("sluice_old_workers", ""); int(got) != n+1 {
			t.Fatalf("%v old workers after %d reloads with a WebSocket each", got, n+1)
		}
	}
	tunnels = append(tunnels, openTunnel(t, w.HTTP, "web.test"))
	reloads := w.reloads()
	w.Write("global.yaml", global("40s"))
	w.Eventually("the state tells what the reload waits for", func() error {
		if why := w.State().Waiting; !strings.Contains(why, "2 old workers") {
			return errNot(fmt.Sprintf("it says %q", why))
		}
		return nil
	})
	// What needs no reload goes on: all endpoints are others, and a route leads elsewhere.
	w.Write("web-slice.yaml", Slice{Service: "web", Ready: pods[2:]}.String())
	w.Write("more.yaml", harness.Ingress("more", "more.test", "web"))
	w.Eventually("a new route is served by the new endpoint", func() error {
		answer, err := w.Get("more.test", "/1")
		if err != nil || answer.Status != http.StatusOK || answer.Headers.Get(podHeader) != pods[2].Name {
			return errNot(fmt.Sprintf("%v, %d by %s", err, answer.Status, answer.Headers.Get(podHeader)))
		}
		return nil
	})
	if n := w.reloads(); n != reloads {
		t.Errorf("%d reloads while two old workers have connections", n-reloads)
	}
	for _, tunnel := range tunnels {
		tunnel.ask(t)
	}
	began := time.Now()
	tunnels[0].Close()
	w.reloaded(reloads)
	t.Logf("the reload took %s from the end of the first WebSocket on", time.Since(began).Round(time.Millisecond))
	for _, tunnel := range tunnels[1:] {
		tunnel.ask(t)
	}
	w.Eventually("the state tells of no wait any more", func() error {
		if s := w.State(); s.Waiting != "" || s.Applied != s.Wanted {
			return errNot(fmt.Sprintf("%q, wanted %d, applied %d", s.Waiting, s.Wanted, s.Applied))
		}
		return nil
	})
	none(t, string(load.Load.Kind), load.Stop())
}
