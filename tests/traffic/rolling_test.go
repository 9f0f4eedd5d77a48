package traffic

import (
	"testing"
	"time"
)

// Point 3: all replicas are replaced one after the other, and nobody waits for HAProxy
// before a pod stops.
func TestRollingRestart(t *testing.T) {
	t.Run("pods that finish what runs", func(t *testing.T) {
		rolling(t, []string{"GET", "POST"}, func(p *Pod) { p.StopListening() }, (*Pod).Finish)
	})
	t.Run("pods that exit at once", func(t *testing.T) {
		rolling(t, []string{"GET"}, (*Pod).Exit, func(*Pod) {})
	})
}

// rolling replaces pods: stop is called before sluice hears of it, and end when HAProxy
// knows.
func rolling(t *testing.T, methods []string, stop, end func(*Pod)) {
	w := newWorld(t, "3.4", nil)
	pods := NewPods(t, w.book, 20)
	w.put("web.yaml", route("web"))
	w.serve("web", pods...)
	before := w.reloads()
	var running []*Running
	for _, method := range methods {
		for _, kind := range Kinds {
			l := w.load(kind, "web.test", size(200, 500)/len(Kinds)/len(methods))
			l.Method = method
			if method == "POST" {
				l.Body = 1000
			}
			running = append(running, l.Start(t))
		}
	}
	deadline := time.Now().Add(lasting(8*time.Second, time.Minute))
	for i := 0; i < len(pods) || time.Now().Before(deadline); i++ {
		old := pods[0]
		fresh := NewPod(t, w.book)
		pods = append(pods[1:], fresh)
		stop(old)
		w.slice(Slice{Service: "web", Ready: pods, Leaving: []*Pod{old}})
		end(old)
		w.serve("web", pods...)
	}
	for _, r := range running {
		none(t, r.Load.Method+" over "+string(r.Load.Kind), r.Stop())
	}
	if n := w.book.Twice(); n > 0 {
		t.Errorf("%d POST requests arrived twice", n)
	}
	if after := w.reloads(); after != before {
		t.Errorf("%d reloads", after-before)
	}
}
