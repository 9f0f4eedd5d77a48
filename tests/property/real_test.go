package property

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluice-proxy/sluice/pkg/converters/resolve"
	"github.com/sluice-proxy/sluice/pkg/haproxy/apply"
	"github.com/sluice-proxy/sluice/pkg/haproxy/process"
	"github.com/sluice-proxy/sluice/pkg/haproxy/socket"
	"github.com/sluice-proxy/sluice/tests/harness"
)

// installed is a real HAProxy.
type installed struct {
	binary, dir string
	null        *os.File
	supervisor  *process.Supervisor
	runtime     *socket.Runtime
}

// master tells the hook of each reload.
type master struct {
	*socket.Master
	hook func(point string)
}

func (m master) Reload(ctx context.Context) (string, error) {
	m.hook("haproxy reads")
	return m.Master.Reload(ctx)
}

func (r *installed) config(c *apply.Config, pid func() int, hook func(point string)) {
	socketPath, masterPath := filepath.Join(r.dir, "haproxy.sock"), filepath.Join(r.dir, "master.sock")
	r.supervisor = process.New(process.Config{
		Binary: r.binary, ConfDir: filepath.Join(r.dir, "conf", "current", "conf.d"), RunDir: r.dir, MasterSocket: masterPath, StatsSocket: socketPath,
		PIDFile: filepath.Join(r.dir, "pid"), Stdout: r.null, Stderr: io.Discard,
	})
	r.runtime = socket.NewRuntime(socketPath, socket.Options{Worker: pid})
	c.Supervisor, c.Worker, c.Master = r.supervisor, r.runtime, master{socket.NewMaster(masterPath), hook}
	c.Check = func(ctx context.Context, confDir string) error {
		hook("haproxy checks")
		return process.Check(ctx, r.binary, confDir)
	}
}

func (r *installed) die() {
	pid, exited := r.supervisor.PID(), r.supervisor.Exited()
	if pid != 0 && syscall.Kill(pid, syscall.SIGKILL) == nil {
		for range exited { // the reason is known
		}
	}
}

func (r *installed) trouble(string) {} // only the model of HAProxy makes any

func (r *installed) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if _, found := r.supervisor.Adopt(context.Background()); found {
		_ = r.supervisor.Stop(ctx)
	}
}

// ask is the answer of the runtime socket to one command.
func (r *installed) ask(command string) (string, error) {
	conn, err := net.Dial("unix", filepath.Join(r.dir, "haproxy.sock"))
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(harness.Patience))
	if _, err := io.WriteString(conn, command+"\n"); err != nil {
		return "", err
	}
	text, err := io.ReadAll(conn)
	return string(text), err
}

// rows are the lines of a table that HAProxy prints, in words.
func rows(text string) [][]string {
	var list [][]string
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > 0 && words[0] != "#" {
			list = append(list, words)
		}
	}
	return list
}

// seen is what a real worker tells of itself.
type seen struct {
	Servers map[string]map[string]string // backend -> server -> address, weight and state
	Maps    map[string]map[string]string
	CrtList []string
}

func (r *installed) differs(w *world, want *served) string {
	for n, _ := w.apply.RetryRemovals(context.Background()); n > 0; n, _ = w.apply.RetryRemovals(context.Background()) {
		w.t.Logf("  a server is still busy")
	}
	expected := seen{Servers: map[string]map[string]string{}, Maps: want.Maps, CrtList: sorted(want.CrtList)}
	for name, servers := range ours(want.Backends) {
		expected.Servers[name] = map[string]string{}
		for server, v := range servers {
			address, _, _ := strings.Cut(v.Parameters, " ")
			expected.Servers[name][server] = fmt.Sprint(address, " weight ", v.Weight, " maint ", v.Maint)
		}
	}
	got, err := r.look(want)
	if err != nil {
		return err.Error()
	}
	if diff := cmp.Diff(expected, got); diff != "" {
		return diff
	}
	if err := process.Check(context.Background(), r.binary, filepath.Join(r.dir, "conf", "current", "conf.d")); err != nil {
		return err.Error()
	}
	return ""
}

// look asks the worker for its backends, the maps that are wanted and the crt-list.
func (r *installed) look(want *served) (seen, error) {
	got := seen{Servers: map[string]map[string]string{}, Maps: map[string]map[string]string{}}
	names, err := r.ask("show backend")
	if err != nil {
		return got, err
	}
	for _, row := range rows(names) {
		if strings.HasPrefix(row[0], "_") || row[0] == "MASTER" {
			continue
		}
		servers, err := r.ask("show servers state " + row[0])
		if err != nil {
			return got, err
		}
		got.Servers[row[0]] = map[string]string{}
		for _, s := range rows(servers) {
			// be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight ... srv_port (18)
			if len(s) > 18 && s[1] == row[0] {
				admin, _ := strconv.Atoi(s[6])
				address := net.JoinHostPort(strings.TrimPrefix(s[4], "-"), s[18])
				got.Servers[row[0]][s[3]] = fmt.Sprint(address, " weight ", s[7], " maint ", admin&7 != 0)
			}
		}
	}
	for name := range want.Maps {
		text, err := r.ask("show map maps/" + name + ".map")
		if err != nil {
			return got, err
		}
		got.Maps[name] = map[string]string{}
		for line := range strings.Lines(text) {
			// 0x7f key value; a map that no rule names is not known
			if words := strings.SplitN(strings.TrimSpace(line), " ", 3); len(words) == 3 && strings.HasPrefix(words[0], "0x") {
				if _, twice := got.Maps[name][words[1]]; twice {
					words[2] += " and another one"
				}
				got.Maps[name][words[1]] = words[2]
			}
		}
	}
	text, err := r.ask("show ssl crt-list crt-lists/https.list")
	for _, row := range rows(text) {
		hosts := row[1:]
		slices.Sort(hosts)
		got.CrtList = append(got.CrtList, strings.Join(append(row[:1:1], hosts...), " "))
	}
	slices.Sort(got.CrtList)
	return got, err
}

// TestAfterAnyEventsRealHAProxyServesTheModel is a sample of the same lives on each branch
// of HAProxy.
func TestAfterAnyEventsRealHAProxyServesTheModel(t *testing.T) {
	const sequences, length = 3, 20
	secrets := newSecrets(t)
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		for i := range sequences {
			dir, err := memory()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = os.RemoveAll(dir) }()
			null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer null.Close()
			r := &installed{binary: binary, dir: dir, null: null}
			w := newWorld(t, secrets, dir, r, resolve.Bind{HTTP: []string{harness.FreeAddress(t)}, HTTPS: []string{harness.FreeAddress(t)}})
			w.open()
			defer func() { r.stop(); w.close() }()
			w.live(step{events: population()})
			for n, s := range rapid.SliceOfN(steps(false), length, length).Example(i) {
				t.Logf("sequence %d, step %d: %s", i, n+1, s)
				w.live(s)
			}
		}
	})
}
