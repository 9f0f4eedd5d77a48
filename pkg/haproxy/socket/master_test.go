package socket

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/plan"
)

func TestReload(t *testing.T) {
	versions(t, func(t *testing.T, h *haproxy, version string) {
		ctx := deadline(t, 30*time.Second)
		old, err := h.run.PID(ctx)
		if err != nil {
			t.Fatal(err)
		}
		bound := NewRuntime(h.run.path, Options{Worker: func() int { return old }})
		if _, err := bound.Backends(ctx); err != nil {
			t.Fatal(err)
		}
		logs, err := h.master.Reload(ctx)
		if err != nil || !strings.Contains(logs, "Loading success.") {
			t.Fatalf("%v, logs %q", err, logs)
		}
		now, err := h.run.PID(ctx)
		if err != nil || now == old {
			t.Errorf("worker %d before, %d after, %v", old, now, err)
		}
		var wrong *WrongWorker
		if _, err := bound.Backends(ctx); !errors.As(err, &wrong) || wrong.Have != now {
			t.Errorf("error %v", err)
		}

		h.write(t, "conf.d/90-bad.cfg", "backend bad from web\n    frobnicate\n")
		for range 2 { // the second one without a current worker
			_, err = h.master.Reload(ctx)
			var refused *Refused
			if !errors.As(err, &refused) || !strings.Contains(refused.Logs, "unknown keyword 'frobnicate'") {
				t.Errorf("error %v", err)
			}
		}
		if again, err := h.run.PID(ctx); err != nil || again != now {
			t.Errorf("worker %d after a refused reload, %d before, %v", again, now, err)
		}
		processes, err := h.master.Processes(ctx)
		if err != nil || len(processes) != 2 || processes[0].Type != "master" || processes[1].PID != now || !processes[1].Old {
			t.Errorf("processes %+v, %v", processes, err)
		}
		before := processes

		h.write(t, "conf.d/90-bad.cfg", "# empty\n")
		if _, err := h.master.reload(ctx); err != nil { // the way without client-native
			t.Errorf("error %v", err)
		}
		processes, err = h.master.Processes(ctx)
		if err != nil {
			t.Fatal(err)
		}
		logs, err = h.master.startupLogs(ctx)
		if err != nil || ended(before, processes, logs) != reloaded {
			t.Errorf("it is not seen as reloaded: %+v, %q, %v", processes, logs, err)
		}
		if _, err := h.master.settle(ctx, before); err != nil {
			t.Error(err)
		}
		value := "b"
		h.must(t, plan.EditMap{Map: "routes", Edits: []model.Edit{{Key: "h", Value: &value}}})
	})
}

func TestReloadEndsAtTheDeadline(t *testing.T) {
	f := newFake(t, func(c command) (string, error) {
		if c.line == "show proc" {
			return "1 master 0 0d00h00m01s 3.4\n# workers\n2 worker 0 0d00h00m01s 3.4", errClose
		}
		return "", errHang
	})
	start := time.Now()
	if _, err := NewMaster(f.path).Reload(deadline(t, 300*time.Millisecond)); err == nil || time.Since(start) > 3*time.Second {
		t.Errorf("error %v after %v", err, time.Since(start))
	}
}

// While the first worker loads, the master answers what is meant for a worker and never
// closes the connection.
func TestReloadWhileTheFirstWorkerLoads(t *testing.T) {
	f := newFake(t, func(c command) (string, error) {
		switch {
		case c.line == "show proc":
			return "1 master 0 0d00h00m01s 3.4\n# workers\n2 worker 0 0d00h00m01s 3.4", errClose
		case strings.HasPrefix(c.line, "reload"):
			return "Success=1\n--\nLoading success.", errClose
		}
		return "", errHang
	})
	if logs, err := NewMaster(f.path).Reload(deadline(t, 10*time.Second)); err != nil || logs != "Loading success." {
		t.Errorf("logs %q, error %v", logs, err)
	}
}

func TestParseProcesses(t *testing.T) {
	text := `#<PID>          <type>          <reloads>       <uptime>        <version>
19140           master          2 [failed: 1]   0d00h00m08s     3.2.26-1
# workers
# old workers
19333           worker          1               1d02h00m01s     3.2.26-1
# programs
`
	want := []Process{
		{PID: 19140, Type: "master", Reloads: 2},
		{PID: 19333, Type: "worker", Old: true, Reloads: 1},
	}
	if diff := cmp.Diff(want, parseProcesses(text)); diff != "" {
		t.Error(diff)
	}
}

func TestEnded(t *testing.T) {
	before := []Process{{PID: 1, Type: "master", Reloads: 3}, {PID: 2, Type: "worker"}}
	master := Process{PID: 1, Type: "master", Reloads: 4}
	old, fresh := Process{PID: 2, Type: "worker", Old: true}, Process{PID: 3, Type: "worker"}
	cases := map[string]struct {
		now  []Process
		logs string
		want ending
	}{
		"nothing happened yet":                     {before, "Initializing new worker (2)\nLoading success.", running},
		"the new worker loads":                     {[]Process{master, fresh, old}, "Initializing new worker (3)\n", running},
		"the logs are those of the former load":    {[]Process{master, fresh, old}, "Initializing new worker (2)\nLoading success.", running},
		"the new worker is ready":                  {[]Process{master, fresh, old}, "Initializing new worker (3)\nLoading success.", reloaded},
		"the new worker failed, the old one stays": {[]Process{master, old}, "Failed to load worker (3)", refused},
	}
	for sentence, c := range cases {
		if got := ended(before, c.now, c.logs); got != c.want {
			t.Errorf("%s: %d", sentence, got)
		}
	}
}
