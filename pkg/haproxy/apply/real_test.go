package apply

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-proxy/sluice/pkg/haproxy/files"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/process"
	"github.com/sluice-proxy/sluice/pkg/haproxy/socket"
)

// real is a folder with a real HAProxy and an Apply on them.
type real struct {
	dir, binary string
	render      renderer
	folder      *files.Folder
	supervisor  *process.Supervisor
	runtime     *socket.Runtime
	apply       *Apply
	reloads     int
	loading     func() // called before a reload is sent
}

// master calls loading before each reload.
type master struct {
	*socket.Master
	loading func()
}

func (m master) Reload(ctx context.Context) (string, error) {
	m.loading()
	return m.Master.Reload(ctx)
}

// binaries are the HAProxy versions that the tests run on.
func binaries() map[string]string {
	_, file, _, _ := runtime.Caller(0)
	root := filepath.Join(filepath.Dir(file), "..", "..", "..")
	list := map[string]string{}
	for _, v := range []string{"3.2", "3.4"} {
		list[v] = os.Getenv("SLUICE_HAPROXY_" + strings.ReplaceAll(v, ".", ""))
		if list[v] == "" {
			list[v] = filepath.Join(root, ".tools", "bin", "haproxy-"+v)
		}
	}
	return list
}

func newReal(dir, binary string) *real {
	return &real{dir: dir, binary: binary, render: renderer{runDir: dir, shards: 4}, loading: func() {}}
}

// open begins a new life of the controller.
func (r *real) open(fault func(string)) (err error) {
	if r.folder, err = files.Open(filepath.Join(r.dir, "config"), filepath.Join(r.dir, "state")); err != nil {
		return err
	}
	r.supervisor = process.New(process.Config{
		Binary: r.binary, ConfDir: filepath.Join(r.folder.Current(), "conf.d"), RunDir: r.dir,
		MasterSocket: filepath.Join(r.dir, "master.sock"), StatsSocket: filepath.Join(r.dir, "haproxy.sock"),
		PIDFile: filepath.Join(r.dir, "pid"), Stdout: nullFile(), Stderr: io.Discard,
	})
	r.runtime = socket.NewRuntime(filepath.Join(r.dir, "haproxy.sock"), socket.Options{Worker: func() int { return r.apply.WorkerPID() }})
	r.apply = New(Config{
		Folder: r.folder, Worker: r.runtime, Master: master{socket.NewMaster(filepath.Join(r.dir, "master.sock")), r.loading}, Supervisor: r.supervisor,
		Check:   func(ctx context.Context, dir string) error { return process.Check(ctx, r.binary, dir) },
		Fault:   fault,
		Grace:   -1,
		Metrics: Metrics{Reloaded: func([]string) { r.reloads++ }},
	})
	_, err = r.apply.Open(context.Background())
	return err
}

func nullFile() *os.File {
	file, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		panic(err)
	}
	return file
}

func (r *real) converge(m *model.Model) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for range 5 {
		p := r.render.plan(r.apply.Expected(), m)
		var out Outcome
		switch {
		case p.Empty():
			return nil
		case p.Reload != nil:
			out = <-r.apply.Reload(ctx, p)
		default:
			out = r.apply.Do(ctx, p)
		}
		if out.Err != nil {
			return out.Err
		}
		if out.Refusal != nil {
			return out.Refusal
		}
	}
	return errors.New("no end of plans")
}

// stop ends HAProxy, which outlives controllers.
func (r *real) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if _, found := r.supervisor.Adopt(context.Background()); found {
		_ = r.supervisor.Stop(ctx)
	}
}

// check asks the worker for all that it serves and compares it with what is wanted.
func (r *real) check(t *testing.T, m *model.Model) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if n, _ := r.apply.RetryRemovals(ctx); n > 0 {
		t.Errorf("%d removals wait", n)
	}
	want := r.render.stateOf(m)
	got := state{Global: want.Global, Backends: map[string]map[string]string{}, Maps: map[string]map[string]string{}}
	for name := range strings.FieldsSeq(r.ask(t, "show backend")) {
		if !strings.Contains(name, "_") {
			continue // the frontends and HAProxy's own
		}
		got.Backends[name] = map[string]string{}
		for line := range strings.Lines(r.ask(t, "show servers state "+name)) {
			// be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state ...
			if words := strings.Fields(line); len(words) > 6 && words[1] == name {
				got.Backends[name][words[3]] = map[bool]string{true: "ready", false: "maint"}[words[6] == "0"]
			}
		}
	}
	for table := range want.Maps {
		got.Maps[table] = map[string]string{}
		for line := range strings.Lines(r.ask(t, "show map maps/"+table+".map")) {
			if words := strings.Fields(line); len(words) == 3 { // reference, key, value
				if _, twice := got.Maps[table][words[1]]; twice {
					t.Errorf("%s holds %s twice", table, words[1])
				}
				got.Maps[table][words[1]] = words[2]
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the worker serves (-want +got):\n%s", diff)
	}
	if err := process.Check(ctx, r.binary, filepath.Join(r.folder.Current(), "conf.d")); err != nil {
		t.Errorf("the folder does not load: %v", err)
	}
	if loaded, err := load(r.folder.Current()); err != nil {
		t.Error(err)
	} else if diff := cmp.Diff(want, loaded.State); diff != "" {
		t.Errorf("the folder holds (-want +got):\n%s", diff)
	}
}

// ask sends a command to the worker and returns its answer.
func (r *real) ask(t *testing.T, command string) string {
	t.Helper()
	conn, err := net.DialTimeout("unix", filepath.Join(r.dir, "haproxy.sock"), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, command+"\n"); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(conn)
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	return string(text)
}

// checkAdopted asserts that a new life has nothing to do.
func (r *real) checkAdopted(t *testing.T, m *model.Model) {
	t.Helper()
	before := r.reloads
	if err := errors.Join(r.folder.Close(), r.open(func(string) {})); err != nil {
		t.Fatal(err)
	}
	if p := r.render.plan(r.apply.Expected(), m); !p.Empty() {
		t.Errorf("a start on what is served has things to do: %+v %+v", p.Commands, p.Reload)
	}
	if r.reloads != before {
		t.Error("a start on what is served reloads")
	}
}

func onEachHAProxy(t *testing.T, test func(t *testing.T, r *real)) {
	for version, binary := range binaries() {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			r := newReal(memory(t), binary)
			if err := r.open(func(string) {}); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { r.stop(); _ = r.folder.Close() })
			test(t, r)
		})
	}
}

func TestRealLife(t *testing.T) {
	t.Parallel()
	onEachHAProxy(t, func(t *testing.T, r *real) {
		m := base()
		reloads := 0
		for _, step := range []struct {
			sentence string
			reloads  int
			dynamic  int // reloads where backends can be added at run time
			to       *model.Model
		}{
			{"a cold start", 1, 1, m},
			{"a server more", 0, 0, servers(m, "a_x_80", 1001, 1002, 1005)},
			{"other servers and a route", 0, 0, route(servers(m, "a_x_80", 1006), "n.example", "a_x_80")},
			{"a new backend", 1, 0, route(servers(m, "n_n_80", 1007, 1008), "n.example", "n_n_80")},
			{"another one in its place", 1, 0, route(servers(m, "n_o_80", 1008), "n.example", "n_o_80")},
			{"one of another profile", 1, 1, other(m, "n_p_80", 1008)},
			{"none of it", 1, 0, m},
			{"it comes back in another life", 1, 1, other(m, "n_p_80", 1008)},
			{"another global section", 1, 1, withMaxConn(m, 90)},
		} {
			if err := r.converge(step.to); err != nil {
				t.Fatalf("%s: %v", step.sentence, err)
			}
			r.check(t, step.to)
			if r.apply.Expected().Worker.Dynamic {
				step.reloads = step.dynamic
			}
			if reloads += step.reloads; r.reloads != reloads {
				t.Errorf("%s: %d reloads, want %d", step.sentence, r.reloads, reloads)
			}
			r.checkAdopted(t, step.to)
		}
		var refusal *process.Refusal
		if err := r.converge(withMaxConn(m, -1)); !errors.As(err, &refusal) || refusal.File != "conf.d/00-global.cfg" || refusal.Line != 6 {
			t.Errorf("a bad tree gave %v", err)
		}
		if err := syscall.Kill(r.supervisor.PID(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if err := <-r.supervisor.Exited(); err == nil {
			t.Error("HAProxy ended for no reason")
		}
		m = withMaxConn(m, 90)
		if out := r.apply.Restart(t.Context()); out.Err != nil || out.Drift {
			t.Errorf("outcome of the restart %+v", out)
		}
		r.check(t, m)
		r.checkAdopted(t, m)
	})
}

// TestRealChangesDuringReloads changes a server and a route every few milliseconds while
// reloads come one after the other.
func TestRealChangesDuringReloads(t *testing.T) {
	t.Parallel()
	onEachHAProxy(t, func(t *testing.T, r *real) {
		m := base()
		if err := r.converge(m); err != nil {
			t.Fatal(err)
		}
		changes := 0
		for i := range 8 {
			m = withMaxConn(m, 200+i)
			done := r.apply.Reload(t.Context(), r.render.plan(r.apply.Expected(), m))
			tick := time.NewTicker(3 * time.Millisecond)
			for flying := true; flying; {
				select {
				case out := <-done:
					if flying = false; out.Err != nil || out.Refusal != nil || out.Drift {
						t.Fatalf("outcome %+v", out)
					}
				case <-tick.C:
					changes++
					m = servers(m, "a_x_80", 1001, 3000+changes%1000)
					m = route(m, fmt.Sprintf("h%d.example", changes), "a_y_80")
					p := r.render.plan(r.apply.Expected(), m)
					if p.Reload != nil {
						t.Fatalf("reload for %v", p.Reload.Reasons)
					}
					if out := r.apply.Do(t.Context(), p); out.Err != nil || out.Drift {
						t.Fatalf("outcome %+v", out)
					}
				}
			}
			tick.Stop()
		}
		t.Logf("%d changes during 8 reloads", changes)
		if p := r.render.plan(r.apply.Expected(), m); !p.Empty() {
			t.Errorf("something is left to do: %+v", p)
		}
		r.check(t, m)
		r.checkAdopted(t, m)
	})
}

// realChild is child on a real HAProxy. It dies when it passes a step for the first time,
// and prints the steps that it passed if it does not.
func realChild(args []string) error {
	r := newReal(args[0], args[3])
	s := scenarios()[args[1]]
	wanted := s.to()
	told, killAt := 0, strings.ReplaceAll(args[2], "-", " ")
	fault := func(point string) {
		fmt.Println("passed", point)
		if told < len(s.meantime) && point == s.meantime[told] {
			told++
			wanted = servers(wanted, "a_x_80", 1001, 1020+told)
			r.apply.Do(context.Background(), r.render.plan(r.apply.Expected(), wanted))
		}
		if point == killAt {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
	}
	r.loading = func() { fault("haproxy reads") }
	if err := r.open(fault); err != nil {
		return err
	}
	r.render.shards = s.shards
	err := r.converge(wanted)
	r.apply.RetryRemovals(context.Background())
	return err
}

// TestRealKilledAtEachPoint is TestKilledAtEachStep on a real HAProxy, with one kill for
// each name of a step; the versions share them.
func TestRealKilledAtEachPoint(t *testing.T) {
	t.Parallel()
	onEachHAProxy(t, func(t *testing.T, r *real) {
		for _, name := range []string{"batch", "backends", "reload"} {
			s := scenarios()[name]
			passed := r.killedAt(t, name, "nowhere")
			var killed []string
			for i, point := range FaultPoints() {
				if !passed[point] || strings.HasSuffix(r.binary, "4") != (i%2 == 0) {
					continue
				}
				r.killedAt(t, name, point)
				killed = append(killed, point)
				if err := process.Check(t.Context(), r.binary, filepath.Join(r.dir, "config/current/conf.d")); err != nil {
					t.Fatalf("killed at %s: the folder does not load: %v", point, err)
				}
				if err := r.open(func(string) {}); err != nil {
					t.Fatal(err)
				}
				if err := r.converge(s.to()); err != nil {
					t.Fatalf("after %s, %s: %v", name, point, err)
				}
				r.check(t, s.to())
				r.checkAdopted(t, s.to())
				if t.Failed() {
					t.Fatalf("after %s, %s", name, point)
				}
			}
			t.Logf("%s: killed at %s", name, strings.Join(killed, ", "))
			if len(killed) < 4 {
				t.Error("hardly any step was seen")
			}
		}
	})
}

// killedAt runs a child from the scenario's beginning up to a step, and returns the steps
// that it passed. Where it was killed the folder is left closed.
func (r *real) killedAt(t *testing.T, name, point string) map[string]bool {
	t.Helper()
	if err := r.converge(scenarios()[name].from()); err != nil {
		t.Fatal(err)
	}
	if err := r.folder.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+strings.Join([]string{r.dir, name, strings.ReplaceAll(point, " ", "-"), r.binary}, " "))
	text, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch killed := errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL; {
	case !killed && (err != nil || point != "nowhere"):
		t.Fatalf("%s, %s: the child ended with %v: %s", name, point, err, text)
	case !killed:
		if err := r.open(func(string) {}); err != nil {
			t.Fatal(err)
		}
	}
	passed := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if point, found := strings.CutPrefix(strings.TrimSpace(line), "passed "); found {
			passed[point] = true
		}
	}
	return passed
}
