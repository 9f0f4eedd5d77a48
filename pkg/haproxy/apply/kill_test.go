package apply

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/socket"
)

// The environment of a child: folder, scenario, and the number of the step it dies at;
// or folder, scenario, name of the step, and HAProxy's binary.
const childVariable = "SLUICE_APPLY_TEST_CHILD"

func TestMain(m *testing.M) {
	if text := os.Getenv(childVariable); text != "" {
		args := strings.Split(text, " ")
		run := child
		if len(args) == 4 {
			run = realChild
		}
		if err := run(args); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// scenario is a way from one model to another that a controller is killed on.
type scenario struct {
	from, to func() *model.Model // from nil: an empty folder and no HAProxy
	shards   int                 // of to
	meantime []string            // the points of the reload at which changes come
	fails    bool                // the reload, in the life that is killed
}

func scenarios() map[string]scenario {
	batch := func() *model.Model {
		m := servers(base(), "a_x_80", 1001, 1011)
		m = servers(m, "a_y_80", 1003, 1012)
		m = entry(m, model.TableHosts, "x.example", "t")
		return route(m, "y.example", "a_y_80")
	}
	both := []string{"generation filled", "haproxy reads"}
	backends := func() *model.Model {
		m := servers(base(), "b_new_80", 1021, 1022)
		m = servers(m, "d_new_80", 1023)
		m = route(route(m, "x.example", "b_new_80"), "d.example", "d_new_80")
		return servers(m, "a_x_80")
	}
	reload := func() *model.Model { return withMaxConn(servers(batch(), "e_new_80", 1013), 250) }
	return map[string]scenario{
		"first-start":     {to: base, shards: 4},
		"batch":           {from: base, to: batch, shards: 4},
		"backends":        {from: base, to: backends, shards: 4},
		"last-of-profile": {from: func() *model.Model { return other(base(), "p_n_80", 1031) }, to: backends, shards: 4},
		"shard-move":      {from: base, to: batch, shards: 16},
		"reload":          {from: base, to: reload, shards: 4, meantime: both},
		"reload-back":     {from: reload, to: base, shards: 4},
		"reload-fail":     {from: base, to: reload, shards: 4, meantime: both, fails: true},
		"reload-fail-late": {
			from: base, to: func() *model.Model { return withMaxConn(base(), 250) }, shards: 4,
			meantime: []string{"haproxy reads"}, fails: true,
		},
		"refusal": {from: base, to: reload, shards: 4, meantime: both, fails: true},
	}
}

// child lives until its n-th step and is killed there.
func child(args []string) error {
	n, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	b, err := newBench(args[0])
	if err != nil {
		return err
	}
	if err := b.folder.Close(); err != nil {
		return err
	}
	s := scenarios()[args[1]]
	wanted := s.to()
	passed, told := 0, 0
	fault := func(point string) {
		passed++
		now := passed
		if told < len(s.meantime) && point == s.meantime[told] {
			told++
			wanted = servers(wanted, "a_x_80", 1001, 1020+told)
			b.apply.Do(context.Background(), b.render.plan(b.apply.Expected(), wanted))
			if wanted.Backends.Lookup("e_new_80") != nil {
				wanted = route(servers(wanted, "e_new_80", 1030+told), "new.example", "e_new_80")
				name := fmt.Sprintf("m_%d_80", told)
				wanted = route(servers(wanted, name, 1040+told), "meanwhile.example", name)
			}
			b.apply.Do(context.Background(), b.render.plan(b.apply.Expected(), wanted))
		}
		if now == n {
			fmt.Println("killed at", point)
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
	}
	b.haproxy.loading = func() { fault("haproxy reads") }
	if err := b.open(fault); err != nil {
		return err
	}
	b.render.shards = s.shards
	if s.fails {
		b.haproxy.reload = func() error { return &socket.Refused{} }
		if args[1] == "refusal" {
			wanted = withMaxConn(wanted, -1)
		}
		b.step(wanted)
		return nil
	}
	_, err = b.converge(wanted)
	b.apply.RetryRemovals(context.Background())
	return err
}

// TestKilledAtEachStep kills a controller at each of its steps, one after the other. What
// it leaves must load, must not pass for something that it is not, and must be brought to
// the wanted state by the next one, whether that goes on or back.
func TestKilledAtEachStep(t *testing.T) {
	for name, s := range scenarios() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			killed := 0
			points := map[string]bool{}
			for n := 1; ; n++ {
				point := killedAt(t, name, s, n)
				if point == "" {
					break
				}
				killed++
				points[point] = true
			}
			t.Logf("killed %d times, at %s", killed, strings.Join(slices.Sorted(maps.Keys(points)), ", "))
			for point := range points {
				if !slices.Contains(FaultPoints(), point) && !strings.HasPrefix(point, "haproxy ") {
					t.Errorf("FaultPoints lacks %q", point)
				}
			}
			if killed < 10 {
				t.Errorf("only %d steps were seen", killed)
			}
		})
	}
}

// killedAt runs a child up to its n-th step and returns the name of the step; empty: it
// came to its end before.
func killedAt(t *testing.T, name string, s scenario, n int) string {
	t.Helper()
	b, err := newBench(memory(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.folder.Close() }()
	if s.from != nil {
		b.mustConverge(t, s.from())
	}
	if err := b.folder.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+strings.Join([]string{b.dir, name, strconv.Itoa(n)}, " "))
	text, err := cmd.CombinedOutput()
	if err == nil {
		return ""
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the child ended with %v: %s", err, text)
	}
	_, point, _ := strings.Cut(strings.TrimSpace(string(text)), "killed at ")
	b.checkLeftBehind(t, point)

	b.render.shards = s.shards
	targets := []*model.Model{s.to()}
	if s.from != nil && n%2 == 0 {
		targets = []*model.Model{s.from(), s.to()}
	}
	for i, m := range targets {
		if i == 0 {
			err = b.open(func(string) {})
		} else {
			err = errors.Join(b.folder.Close(), b.open(func(string) {}))
		}
		if err != nil {
			t.Fatalf("after %d, %s: %v", n, point, err)
		}
		b.mustConverge(t, m)
		b.checkAdopted(t, m)
		if t.Failed() {
			t.Fatalf("after %d, %s", n, point)
		}
	}
	return point
}

// checkLeftBehind checks what a killed controller leaves.
func (b *bench) checkLeftBehind(t *testing.T, point string) {
	t.Helper()
	if _, err := os.Lstat(b.haproxy.current); err != nil {
		return // killed before its first generation was complete
	}
	loaded, err := load(b.haproxy.current)
	if err != nil {
		t.Fatalf("killed at %s: the folder does not load: %v", point, err)
	}
	running := b.haproxy.read()
	maps.DeleteFunc(running.State.Backends, func(name string, _ map[string]string) bool {
		return loaded.State.Backends[name] == nil && !slices.Contains(slices.Collect(maps.Values(running.State.Maps["routes-exact"])), name)
	})
	if running.Master != 0 && running.Key == loaded.Key {
		if diff := cmp.Diff(loaded.State, running.State); diff != "" {
			t.Errorf("killed at %s: the numbers are equal, but the worker serves (-files +worker):\n%s", point, diff)
		}
	}
}

// memory is a folder on a file system where fsync costs nothing, if there is one: a
// killed process loses nothing that was not synced.
func memory(t *testing.T) string {
	t.Helper()
	if info, err := os.Stat("/dev/shm"); err != nil || !info.IsDir() {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp("/dev/shm", "sluice-apply-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Clean(dir)
}
