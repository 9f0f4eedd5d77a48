package traffic

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

const connectTimeout = time.Second // sluice's default

// Point 1: a pod vanishes without a word, and its endpoint is withdrawn 5 s later.
func TestVanishedPod(t *testing.T) {
	for _, known := range []bool{true, false} {
		name := "added at run time"
		if known {
			name = "known at load"
		}
		t.Run(name, func(t *testing.T) { vanish(t, known) })
	}
}

func vanish(t *testing.T, known bool) {
	w := newWorld(t, "3.4", nil)
	pods := NewPods(t, w.book, 4)
	healthy := NewPods(t, w.book, 2)
	w.put("ok.yaml", route("ok")+Slice{Service: "ok", Ready: healthy}.String())
	if known {
		w.Write("web.yaml", route("web"))
		w.put("web-slice.yaml", Slice{Service: "web", Ready: pods}.String())
		w.put("global.yaml", global("49s")) // a reload
	} else {
		w.put("web.yaml", route("web"))
		w.serve("web", pods...)
	}
	control := w.load(Fresh, "ok.test", 50).Start(t)
	var running []*Running
	for _, kind := range Kinds {
		running = append(running, w.load(kind, "web.test", size(100, 200)).Start(t))
	}
	time.Sleep(time.Second)
	pods[0].Vanish()
	time.Sleep(5 * time.Second)
	w.serve("web", pods[1:]...)
	time.Sleep(time.Second)
	// What the machine does to everybody is no fault of HAProxy.
	noise := control.Stop().Quantile(0.99)
	for _, r := range running {
		report := r.Stop()
		none(t, string(r.Load.Kind), report)
		margin := 100 * time.Millisecond
		if r.Load.Kind == Fresh {
			margin = 50 * time.Millisecond
		}
		if p99 := report.Quantile(0.99); p99 > connectTimeout+margin+noise {
			t.Errorf("%s: p99 is %s, more than %s + %s; on a healthy backend p99 was %s", r.Load.Kind, p99, connectTimeout, margin, noise)
		}
	}
}

// Point 1: what notices a vanished pod does not take one that reads nothing for one.
func TestPausedUpload(t *testing.T) {
	w := newWorld(t, "3.4", nil)
	pod := NewPod(t, w.book)
	pod.Before = func(*http.Request) { time.Sleep(4 * time.Second) }
	w.put("web.yaml", route("web"))
	w.serve("web", pod)
	c := newClient(KeepAlive, w.HTTP)
	defer c.close()
	got, err := c.do(request{"POST", "web.test", "/1", w.book.number(), 20 << 20, time.Now().Add(30 * time.Second)})
	if err != nil || got.status != http.StatusOK || got.pod == "" {
		t.Errorf("a POST of 20 MB to a pod that reads nothing for 4 s: status %d, %v", got.status, err)
	}
}

// Point 2: a pod closes the connections that it accepts.
func TestClosedWithoutAnswer(t *testing.T) {
	w := newWorld(t, "3.4", nil)
	pods := NewPods(t, w.book, 3)
	w.put("web.yaml", route("web"))
	w.serve("web", pods...)
	pods[0].slams.Store(true)
	var running []*Running
	for _, kind := range Kinds {
		running = append(running, w.load(kind, "web.test", 100).Start(t))
	}
	post := w.load(KeepAlive, "web.test", 50)
	post.Method, post.Body = "POST", 64<<10
	posts := post.Start(t)
	time.Sleep(lasting(3*time.Second, time.Minute))
	for _, r := range running {
		none(t, string(r.Load.Kind), r.Stop())
	}
	none(t, "POST", posts.Stop())
	if n := w.book.Twice(); n > 0 {
		t.Errorf("%d POST requests arrived twice", n)
	}
	if len(posts.Report.Excused()) == 0 {
		t.Error("no POST met the pod that closes its connections: this test tests nothing")
	}
}

// A pod that refuses connections although it is listed costs no request, and its Service
// is told.
func TestRefusalIsTold(t *testing.T) {
	w := newWorld(t, "3.4", nil)
	pods := NewPods(t, w.book, 3)
	w.put("web.yaml", route("web"))
	w.serve("web", pods...)
	pods[0].StopListening()
	load := w.load(Fresh, "web.test", 50).Start(t)
	w.Eventually("a finding", func() error {
		found := 0
		for _, f := range w.State().Findings {
			if f.Code == "EndpointRefuses" && strings.HasPrefix(f.Message, pods[0].IP) {
				found++
			}
		}
		if found != 1 {
			return errNot("there is none")
		}
		return nil
	})
	none(t, "beside a pod that refuses", load.Stop())
	if w.Metric("sluice_backend_retries_total", `backend="test_web_80"`)+w.Metric("sluice_backend_redispatches_total", `backend="test_web_80"`) == 0 {
		t.Error("no retry in the metrics")
	}
	w.serve("web", pods[1:]...)
	w.Eventually("the finding goes with the endpoint", func() error {
		for _, f := range w.State().Findings {
			if f.Code == "EndpointRefuses" {
				return errNot(f.Message)
			}
		}
		return nil
	})
}

// Point 6: the last pod goes.
func TestLastPod(t *testing.T) {
	w := newWorld(t, "3.4", nil)
	pod := NewPod(t, w.book)
	w.put("web.yaml", route("web"))
	w.serve("web", pod)
	none(t, "while it terminates", w.load(KeepAlive, "web.test", 100).During(t, func() {
		time.Sleep(200 * time.Millisecond)
		w.slice(Slice{Service: "web", Leaving: []*Pod{pod}})
		time.Sleep(time.Second)
	}))
	pod.Finish()
	w.serve("web")
	answer, err := w.Get("web.test", "/1")
	if err != nil {
		t.Fatal(err)
	}
	if answer.Status != http.StatusServiceUnavailable || answer.Headers.Get("Retry-After") == "" || strings.Contains(answer.Body, "<html>") {
		t.Errorf("without a pod: status %d, Retry-After %q: %s", answer.Status, answer.Headers.Get("Retry-After"), answer.Body)
	}
}
