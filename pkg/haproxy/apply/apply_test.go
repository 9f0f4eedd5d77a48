package apply

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-proxy/sluice/pkg/haproxy/files"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/shard"
	"github.com/sluice-proxy/sluice/pkg/haproxy/socket"
	"github.com/sluice-proxy/sluice/pkg/haproxy/tree"
)

// bench is a folder with a fake HAProxy and an Apply on them.
type bench struct {
	dir     string
	render  renderer
	haproxy *haproxy
	folder  *files.Folder
	apply   *Apply
	written map[tree.Kind]int
}

func newBench(dir string) (*bench, error) {
	b := &bench{dir: dir, render: renderer{runDir: "/run", shards: 4}, written: map[tree.Kind]int{}}
	b.haproxy = &haproxy{
		path: filepath.Join(dir, "haproxy.json"), current: filepath.Join(dir, "config", "current"),
		fault: func(string) {}, answer: map[string]error{},
	}
	return b, b.open(func(string) {})
}

// open begins a new life of the controller.
func (b *bench) open(fault func(string)) (err error) {
	if b.folder, err = files.Open(filepath.Join(b.dir, "config"), filepath.Join(b.dir, "state")); err != nil {
		return err
	}
	b.haproxy.fault = fault
	b.apply = New(Config{
		Folder: b.folder, Worker: runtimeOf{b.haproxy}, Master: b.haproxy, Supervisor: b.haproxy,
		Check: b.haproxy.Check, Fault: fault, Grace: -1,
		Metrics: Metrics{FileWritten: func(kind tree.Kind) { b.written[kind]++ }},
	})
	b.haproxy.worker = b.apply.WorkerPID
	_, err = b.apply.Open(context.Background())
	return err
}

func start(t *testing.T) *bench {
	t.Helper()
	b, err := newBench(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.folder.Close() })
	return b
}

// again ends the controller and opens it anew.
func (b *bench) again(t *testing.T) {
	t.Helper()
	if err := errors.Join(b.folder.Close(), b.open(func(string) {})); err != nil {
		t.Fatal(err)
	}
}

// step carries out one plan towards m.
func (b *bench) step(m *model.Model) Outcome {
	p := b.render.plan(b.apply.Expected(), m)
	if p.Reload != nil {
		return <-b.apply.Reload(context.Background(), p)
	}
	return b.apply.Do(context.Background(), p)
}

// converge carries out plans until there is nothing to do, and returns the outcomes.
func (b *bench) converge(m *model.Model) ([]Outcome, error) {
	var list []Outcome
	for range 5 {
		if p := b.render.plan(b.apply.Expected(), m); p.Empty() {
			return list, nil
		}
		out := b.step(m)
		list = append(list, out)
		if out.Err != nil {
			return list, out.Err
		}
		if out.Refusal != nil {
			return list, errors.New(out.Refusal.Message)
		}
	}
	return list, errors.New("no end of plans")
}

func (b *bench) mustConverge(t *testing.T, m *model.Model) []Outcome {
	t.Helper()
	list, err := b.converge(m)
	if err != nil {
		t.Fatal(err)
	}
	b.check(t, m)
	return list
}

// check compares the worker and the folder with what is wanted.
func (b *bench) check(t *testing.T, m *model.Model) {
	t.Helper()
	b.apply.RetryRemovals(t.Context())
	want := b.render.stateOf(m)
	running := b.haproxy.read()
	if diff := cmp.Diff(want, running.State); diff != "" {
		t.Errorf("the worker serves (-want +got):\n%s", diff)
	}
	loaded, err := load(b.haproxy.current)
	if err != nil {
		t.Fatalf("the folder does not load: %v", err)
	}
	if diff := cmp.Diff(want, loaded.State); diff != "" {
		t.Errorf("the folder holds (-want +got):\n%s", diff)
	}
	if loaded.Key != running.Key {
		t.Errorf("the files have number %s, the worker %s", loaded.Key, running.Key)
	}
}

// checkAdopted asserts that a new life has nothing to do.
func (b *bench) checkAdopted(t *testing.T, m *model.Model) {
	t.Helper()
	before := len(b.haproxy.started)
	b.again(t)
	if out := b.mustConverge(t, m); len(out) != 0 || len(b.haproxy.started) != before {
		t.Errorf("a start on what is served already did %d things, %v", len(out), b.haproxy.started[before:])
	}
}

func base() *model.Model {
	m := emptyModel()
	m = servers(m, "a_x_80", 1001, 1002)
	m = servers(m, "a_y_80", 1003)
	m = servers(m, "b_z_80", 1004)
	m = route(m, "x.example", "a_x_80")
	return entry(m, model.TableHosts, "x.example", "-")
}

func TestFirstStartThenAdoption(t *testing.T) {
	t.Parallel()
	b := start(t)
	m := base()
	b.mustConverge(t, m)
	if diff := cmp.Diff([]string{"start"}, b.haproxy.started); diff != "" {
		t.Error(diff)
	}
	b.checkAdopted(t, m)
}

func TestEndpointChangeWritesOneShardOneRecordOneNumber(t *testing.T) {
	t.Parallel()
	b := start(t)
	m := base()
	b.mustConverge(t, m)
	clear(b.written)
	var points []string
	b.again(t)
	b.apply.cfg.Folder.OnStep(func(point string) { points = append(points, point) })
	m = servers(m, "a_x_80", 1001, 1002, 1005)
	if out := b.mustConverge(t, m); len(out) != 1 || out[0].Reloaded {
		t.Fatalf("outcomes %+v", out)
	}
	if diff := cmp.Diff(map[tree.Kind]int{tree.Shard: 1, tree.Generation: 1}, b.written); diff != "" {
		t.Error(diff)
	}
	want := []string{
		"file written", "file renamed", // the number
		"file written", "file renamed", "folder synced", // the shard
		"file written", "file renamed", "registry written", // its record
	}
	if diff := cmp.Diff(want, points); diff != "" {
		t.Error(diff)
	}
	b.checkAdopted(t, m)
}

func TestRuntimeChangesReloadNothing(t *testing.T) {
	t.Parallel()
	steps := map[string]func(*model.Model) *model.Model{
		"a server comes":          func(m *model.Model) *model.Model { return servers(m, "a_x_80", 1001, 1002, 1009) },
		"the last server goes":    func(m *model.Model) *model.Model { return servers(m, "a_y_80", []int{}...) },
		"all servers change":      func(m *model.Model) *model.Model { return servers(m, "a_x_80", 1021) },
		"a route moves":           func(m *model.Model) *model.Model { return route(m, "x.example", "b_z_80") },
		"a host comes":            func(m *model.Model) *model.Model { return entry(m, model.TableHosts, "y.example", "t") },
		"a route goes":            func(m *model.Model) *model.Model { return route(m, "x.example", "") },
		"servers and routes move": func(m *model.Model) *model.Model { return route(servers(m, "a_x_80", 1030), "z.example", "a_x_80") },
	}
	for sentence, change := range steps {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			b := start(t)
			m := base()
			b.mustConverge(t, m)
			for _, next := range []*model.Model{change(m), m} {
				for _, out := range b.mustConverge(t, next) {
					if out.Reloaded || out.Drift {
						t.Errorf("outcome %+v", out)
					}
				}
			}
			b.checkAdopted(t, m)
		})
	}
}

func TestUnexpectedAnswerIsPutRightByOneReload(t *testing.T) {
	t.Parallel()
	for sentence, answer := range map[string]error{
		"an answer nobody knows":    &socket.UnexpectedAnswer{Command: "add server", Answer: "huh"},
		"a command that is too big": &socket.TooLarge{What: "certs/x.pem"},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			b := start(t)
			m := base()
			b.mustConverge(t, m)
			b.haproxy.answer["add server"] = answer
			m = servers(m, "a_x_80", 1001, 1002, 1003)
			out := b.mustConverge(t, m)
			if len(out) != 2 || !out[0].Drift || !out[1].Reloaded || out[1].Drift {
				t.Errorf("outcomes %+v", out)
			}
			b.checkAdopted(t, m)
		})
	}
}

func TestUnreachableWorkerIsPutRightByOneReload(t *testing.T) {
	t.Parallel()
	b := start(t)
	m := base()
	b.mustConverge(t, m)
	b.haproxy.noSock = true
	m = servers(m, "a_x_80", 1001)
	out := b.step(m)
	if out.Err == nil || !out.Drift || out.Registry.Served != nil {
		t.Fatalf("outcome %+v", out)
	}
	b.haproxy.noSock = false
	if out := b.mustConverge(t, m); len(out) != 1 || !out[0].Reloaded {
		t.Errorf("outcomes %+v", out)
	}
}

func TestReloadBySomebodyElseIsNoticed(t *testing.T) {
	t.Parallel()
	b := start(t)
	m := base()
	b.mustConverge(t, m)
	if _, err := b.haproxy.Reload(context.Background()); err != nil {
		t.Fatal(err)
	}
	m = servers(m, "a_x_80", 1001)
	if out := b.step(m); !out.Drift || out.Err == nil {
		t.Fatalf("outcome %+v", out)
	}
	b.mustConverge(t, m)
	b.checkAdopted(t, m)
}

func TestServerWithConnectionsIsRemovedLater(t *testing.T) {
	t.Parallel()
	b := start(t)
	m := base()
	b.mustConverge(t, m)
	gone := servers(m, "a_x_80", 1001)
	b.haproxy.answer["del server"] = &socket.Pending{Backend: "a_x_80", Servers: []string{"127.0.0.1:1002"}}
	if out := b.step(gone); out.Err != nil || out.Drift || b.apply.PendingRemovals() != 1 {
		t.Fatalf("outcome %+v, %d pending", out, b.apply.PendingRemovals())
	}
	b.haproxy.answer["del server"] = &socket.Pending{Backend: "a_x_80", Servers: []string{"127.0.0.1:1002"}}
	if n, _ := b.apply.RetryRemovals(context.Background()); n != 1 {
		t.Errorf("%d wait after a try in vain", n)
	}
	if n, _ := b.apply.RetryRemovals(context.Background()); n != 0 {
		t.Errorf("%d wait after it went", n)
	}
	b.check(t, gone)
	b.haproxy.answer["del server"] = &socket.Pending{Backend: "a_x_80", Servers: []string{"127.0.0.1:1001"}}
	if _, err := b.converge(servers(gone, "a_x_80", 1005)); err != nil {
		t.Fatal(err)
	}
	m = servers(gone, "a_x_80", 1005, 1001) // it comes back
	b.mustConverge(t, m)
	if n, _ := b.apply.RetryRemovals(context.Background()); n != 0 {
		t.Errorf("%d wait although the server came back", n)
	}
	b.check(t, m)
}

func TestDeadHAProxyIsStartedAtOnce(t *testing.T) {
	t.Parallel()
	b := start(t)
	m := base()
	b.mustConverge(t, m)
	b.haproxy.kill()
	out := b.apply.Restart(context.Background())
	if out.Err != nil || out.Drift || !out.Reloaded {
		t.Fatalf("outcome %+v", out)
	}
	if more := b.mustConverge(t, m); len(more) != 0 {
		t.Errorf("then %+v", more)
	}
	b.haproxy.kill()
	b.again(t) // and now nobody was there to see it
	if out := b.mustConverge(t, m); len(out) != 1 || !out[0].Reloaded {
		t.Errorf("outcomes %+v", out)
	}
	b.checkAdopted(t, m)
}

// A batch that came before the loop's turn to start HAProxy again has started it: a second
// one beside it would share its ports and keep an old configuration.
func TestRunningHAProxyIsNotStartedAgain(t *testing.T) {
	t.Parallel()
	b := start(t)
	m := base()
	b.mustConverge(t, m)
	b.haproxy.kill()
	m = servers(m, "a_x_80", 1005)
	if out := b.step(m); out.Err == nil {
		t.Fatalf("outcome %+v of a batch without HAProxy", out)
	}
	b.mustConverge(t, m)
	pid, starts := b.haproxy.PID(), len(b.haproxy.started)
	if out := b.apply.Restart(t.Context()); out.Err != nil || out.Drift || out.Reloaded {
		t.Fatalf("outcome %+v", out)
	}
	if b.haproxy.PID() != pid || len(b.haproxy.started) != starts {
		t.Errorf("process %d became %d; started %v", pid, b.haproxy.PID(), b.haproxy.started)
	}
	if more := b.mustConverge(t, m); len(more) != 0 {
		t.Errorf("then %+v", more)
	}
}

func TestEditsBySomebodyElseArePutRight(t *testing.T) {
	t.Parallel()
	edits := map[string]func(dir string) error{
		"a shard file is truncated": func(dir string) error {
			return os.Truncate(filepath.Join(dir, shardFileOf("a_x_80")), 0)
		},
		"a map is changed": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "maps/hosts.map"), []byte("evil.example t\n"), 0o644)
		},
		"the global section is changed": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "conf.d/00-global.cfg"), []byte("global\n"), 0o644)
		},
		"a file is removed": func(dir string) error { return os.Remove(filepath.Join(dir, "maps/values.map")) },
		"a file is added": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "conf.d/99.cfg"), []byte("listen x\n"), 0o644)
		},
		"the number is changed": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "maps/sluice.map"), []byte("generation 99\n"), 0o644)
		},
	}
	for sentence, edit := range edits {
		for _, live := range []bool{true, false} {
			t.Run(sentence+map[bool]string{true: " while sluice runs", false: " while it does not"}[live], func(t *testing.T) {
				t.Parallel()
				b := start(t)
				m := base()
				b.mustConverge(t, m)
				if err := edit(b.haproxy.current); err != nil {
					t.Fatal(err)
				}
				if live {
					if _, _, err := b.apply.Rescan(); err != nil {
						t.Fatal(err)
					}
				} else {
					b.again(t)
				}
				b.mustConverge(t, m)
				if _, err := os.Stat(filepath.Join(b.haproxy.current, "conf.d/99.cfg")); err == nil {
					t.Error("the added file is still there")
				}
				b.checkAdopted(t, m)
			})
		}
	}
}

func shardFileOf(backend string) string {
	return shard.Path(model.BucketOf(backend) * 4 / model.Buckets)
}

func TestFailedWriteIsTriedAgain(t *testing.T) {
	t.Parallel()
	before := withProfile(base())
	after := entry(servers(base(), "a_x_80", 1001), model.TableHosts, "w.example", "-")
	after.Profiles = before.Profiles[:1] // profiles go without a command
	for _, path := range []string{"maps/hosts.map", shardFileOf("a_x_80")} {
		for sentence, wanted := range map[string]*model.Model{"then the same again": after, "then back": before} {
			t.Run(path+" can't be written, "+sentence, func(t *testing.T) {
				t.Parallel()
				b := start(t)
				b.mustConverge(t, before)
				// A folder in the place of the temporary file makes the write fail.
				dir, name := filepath.Split(path)
				blocker := filepath.Join(b.haproxy.current, dir, "."+name+".tmp")
				if err := os.MkdirAll(filepath.Join(blocker, "x"), 0o755); err != nil {
					t.Fatal(err)
				}
				for range 2 {
					if out := b.step(after); out.Err == nil || out.Drift {
						t.Fatalf("outcome %+v", out)
					}
				}
				if err := os.RemoveAll(blocker); err != nil {
					t.Fatal(err)
				}
				list := b.mustConverge(t, wanted)
				if slices.ContainsFunc(list, func(out Outcome) bool { return out.Reloaded }) {
					t.Error("a reload for a disk that was full")
				}
				text, err := os.ReadFile(filepath.Join(b.haproxy.current, "conf.d/10-profiles.cfg"))
				if err != nil || string(text) != string(profiles(wanted)) {
					t.Errorf("the profiles are %q, %v", text, err)
				}
				b.checkAdopted(t, wanted)
			})
		}
	}
}

func TestLostRegistryIsWrittenAnew(t *testing.T) {
	t.Parallel()
	b := start(t)
	m := base()
	b.mustConverge(t, m)
	if err := os.RemoveAll(filepath.Join(b.dir, "state")); err != nil {
		t.Fatal(err)
	}
	b.again(t)
	b.mustConverge(t, m)
	list, err := os.ReadDir(filepath.Join(b.dir, "state", "registry"))
	if err != nil || !slices.ContainsFunc(list, func(e os.DirEntry) bool { return e.Name() == shard.HeaderName }) {
		t.Errorf("the registry was not written anew: %v %v", list, err)
	}
	b.checkAdopted(t, m)
}
