package traffic

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/tests/harness"
)

// Point 8: the controller is killed at random moments while pods come and go.
func TestControllerKilled(t *testing.T) {
	w := newWorld(t, "3.4", nil)
	pods := NewPods(t, w.book, 3)
	w.put("web.yaml", route("web"))
	w.serve("web", pods...)
	pid := w.WorkerPID()
	var running []*Running
	for _, kind := range Kinds {
		running = append(running, w.load(kind, "web.test", 60).Start(t))
	}
	random := rand.New(rand.NewPCG(4, 2026))
	for range size(5, 100) {
		for range 3 {
			fresh := NewPod(t, w.book)
			old := pods[0]
			pods = append(pods[1:], fresh)
			w.Write("web-slice.yaml", Slice{Service: "web", Ready: pods}.String())
			time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
			defer old.Exit() // it is served as long as the controller is away
		}
		w.Kill()
		w.Start()
		want := pods[2].Name
		w.Eventually("the newest pod is served", func() error {
			for range len(pods) * 2 {
				if answer, err := w.Get("web.test", "/1"); err == nil && answer.Headers.Get(podHeader) == want {
					return nil
				}
			}
			return errors.New("it is not")
		})
	}
	for _, r := range running {
		none(t, string(r.Load.Kind), r.Stop())
	}
	t.Logf("the worker was %d and is %d", pid, w.WorkerPID())
}

// Point 9: HAProxy's worker is killed.
func TestWorkerKilled(t *testing.T) {
	w := newWorld(t, "3.4", nil)
	pods := NewPods(t, w.book, 3)
	w.put("web.yaml", route("web"))
	w.serve("web", pods...)
	begin := time.Now()
	check := exec.Command(harness.Binary(t, "3.4"), "-c", "-f", filepath.Join(w.ConfigDir, "current", "conf.d"))
	if out, err := check.CombinedOutput(); err != nil {
		t.Fatalf("haproxy -c: %v: %s", err, out)
	}
	load := time.Since(begin)
	if err := syscall.Kill(w.WorkerPID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	begin = time.Now()
	w.Eventually("HAProxy listens again", func() error {
		answer, err := w.Get("web.test", "/1")
		if err == nil && answer.Status != http.StatusOK {
			t.Fatalf("status %d", answer.Status) // another state than before
		}
		return err
	})
	took := time.Since(begin)
	t.Logf("listening %s after the worker was killed; the load takes %s", took.Round(time.Millisecond), load.Round(time.Millisecond))
	if took > 500*time.Millisecond+load {
		t.Errorf("listening again after %s, more than 0.5s and the %s that the load takes", took, load)
	}
}
