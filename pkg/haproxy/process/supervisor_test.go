package process

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/pkg/haproxy/socket"
)

// TestMain lets the test binary play the controller that is killed: with the variable
// set it starts HAProxy as its arguments say, prints the pid and waits to be killed.
func TestMain(m *testing.M) {
	if os.Getenv("PROCESS_TEST_CONTROLLER") == "" {
		os.Exit(m.Run())
	}
	s := New(configFor(os.Args[1], os.Args[2]))
	if err := s.Start(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("pid", s.PID())
	select {}
}

func configFor(dir, binary string) Config {
	return Config{
		Binary:       binary,
		ConfDir:      filepath.Join(dir, "current/conf.d"),
		MasterSocket: filepath.Join(dir, "master.sock"),
		StatsSocket:  filepath.Join(dir, "stats.sock"),
		PIDFile:      filepath.Join(dir, "pid"),
		RunDir:       dir,
	}
}

// buffer is a writer that may be read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// supervisor is one for the tree in dir, whose HAProxy writes its log to dir/log.
func supervisor(t *testing.T, dir, binary string) (*Supervisor, *buffer) {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	stderr := &buffer{}
	c := configFor(dir, binary)
	c.Stdout, c.Stderr = log, stderr
	s := New(c)
	t.Cleanup(func() {
		if m := s.current(); m != nil {
			m.kill()
		}
	})
	return s, stderr
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	ctx := within(t, 10*time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-ctx.Done():
			t.Fatalf("it never happened that %s", what)
		case <-tick.C:
		}
	}
}

// status asks the HAProxy in dir for /.
func status(t *testing.T, dir string) int {
	t.Helper()
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", filepath.Join(dir, "http.sock"))
		},
	}}
	r, err := client.Get("http://h/")
	if err != nil {
		return 0
	}
	defer r.Body.Close()
	return r.StatusCode
}

func gone(t *testing.T, s *Supervisor) {
	t.Helper()
	select {
	case err, ok := <-s.Exited():
		if !ok || err == nil {
			t.Errorf("the end was told without a reason")
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the end was not told")
	}
	if _, open := <-s.Exited(); open || s.PID() != 0 {
		t.Errorf("channel open %v, pid %d", open, s.PID())
	}
}

func TestStartAndStop(t *testing.T) {
	versions(t, func(t *testing.T, binary string) {
		dir := folder(t)
		generation(t, dir)
		s, stderr := supervisor(t, dir, binary)
		if s.PID() != 0 || s.Exited() != nil {
			t.Error("something is watched before the start")
		}
		if err := s.Start(within(t, 10*time.Second)); err != nil {
			t.Fatal(err)
		}
		if got := status(t, dir); got != 200 {
			t.Errorf("status %d", got)
		}
		session, err := syscall.Getpgid(s.PID())
		if err != nil || session != s.PID() {
			t.Errorf("process group %d of %d, %v", session, s.PID(), err)
		}
		eventually(t, "HAProxy's messages are copied", func() bool { return strings.Contains(stderr.String(), "Loading success.") })
		// A connection that is idle is closed, the stop does not wait for its timeout.
		if err := s.Stop(within(t, 10*time.Second)); err != nil {
			t.Error(err)
		}
		gone(t, s)
		if err := s.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		// The same supervisor starts it again.
		if err := s.Start(within(t, 10*time.Second)); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(s.PID(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		gone(t, s)
	})
}

func TestStopCutsConnectionsAtTheDeadline(t *testing.T) {
	versions(t, func(t *testing.T, binary string) {
		dir := folder(t)
		generation(t, dir)
		s, _ := supervisor(t, dir, binary)
		if err := s.Start(within(t, 10*time.Second)); err != nil {
			t.Fatal(err)
		}
		conn, err := net.Dial("unix", filepath.Join(dir, "http.sock"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\n"); err != nil { // never finished
			t.Fatal(err)
		}
		eventually(t, "the connection is accepted", func() bool {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", s.PID()))
			return err == nil && len(text) > 0 && status(t, dir) == 200
		})
		if err := s.Stop(within(t, 300*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		if s.PID() != 0 {
			t.Error("it still runs")
		}
	})
}

func TestStartFails(t *testing.T) {
	versions(t, func(t *testing.T, binary string) {
		taken, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer taken.Close()
		cases := map[string]struct {
			change func(dir string, c *Config)
			check  func(err error) bool
		}{
			"an address is in use": {
				func(dir string, _ *Config) {
					write(t, filepath.Join(dir, "gen-1/conf.d/20-frontends.cfg"), "frontend taken from base\n    bind "+taken.Addr().String()+"\n")
				},
				func(err error) bool {
					var bind *BindError
					return errors.As(err, &bind) && bind.Address == taken.Addr().String() && bind.Line == 2 &&
						bind.File == "conf.d/20-frontends.cfg" && strings.Contains(err.Error(), taken.Addr().String())
				},
			},
			"the configuration is bad": {
				func(dir string, _ *Config) {
					write(t, filepath.Join(dir, "gen-1/conf.d/20-frontends.cfg"), "frontend f from base\n    frobnicate\n")
				},
				func(err error) bool {
					var refusal *Refusal
					return errors.As(err, &refusal) && refusal.File == "conf.d/20-frontends.cfg" && refusal.Line == 2
				},
			},
			"the master's socket can't be made": {
				func(dir string, c *Config) { c.MasterSocket = filepath.Join(dir, "none/master.sock") },
				func(err error) bool { return strings.Contains(err.Error(), "master") },
			},
			"the stats socket is elsewhere": {
				func(dir string, c *Config) { c.StatsSocket = filepath.Join(dir, "other.sock") },
				func(err error) bool { return errors.Is(err, context.DeadlineExceeded) },
			},
			"the binary is missing": {
				func(dir string, c *Config) { c.Binary = filepath.Join(dir, "none") },
				func(err error) bool { return errors.Is(err, os.ErrNotExist) },
			},
			"the run directory is missing": {
				func(dir string, c *Config) { c.RunDir = filepath.Join(dir, "none") },
				func(err error) bool { return errors.Is(err, os.ErrNotExist) },
			},
		}
		for sentence, c := range cases {
			t.Run(sentence, func(t *testing.T) {
				dir := folder(t)
				generation(t, dir)
				s, _ := supervisor(t, dir, binary)
				c.change(dir, &s.config)
				err := s.Start(within(t, 1500*time.Millisecond))
				if err == nil || !c.check(err) {
					t.Errorf("error %v", err)
				}
				if s.PID() != 0 {
					t.Errorf("process %d", s.PID())
				}
				eventually(t, "no process is left", func() bool { return len(leftovers(t, dir)) == 0 })
			})
		}
	})
}

// leftovers are the processes that have the folder on their command line.
func leftovers(t *testing.T, dir string) []string {
	t.Helper()
	var left []string
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if text, err := os.ReadFile(path); err == nil && strings.Contains(string(text), dir+"/current/conf.d") {
			left = append(left, strings.ReplaceAll(string(text), "\x00", " "))
		}
	}
	return left
}

func TestHAProxySurvivesTheController(t *testing.T) {
	versions(t, func(t *testing.T, binary string) {
		dir := folder(t)
		generation(t, dir)
		controller := exec.Command(os.Args[0], dir, binary)
		controller.Env = append(os.Environ(), "PROCESS_TEST_CONTROLLER=1")
		stdout, err := controller.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		controller.Stderr = os.Stderr
		if err := controller.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(stdout)
		pid := 0
		for pid == 0 && lines.Scan() {
			if text, ok := strings.CutPrefix(lines.Text(), "pid "); ok {
				if pid, err = strconv.Atoi(text); err != nil {
					t.Fatal(err)
				}
			}
		}
		if pid == 0 {
			t.Fatal("the controller did not start HAProxy")
		}
		if err := controller.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_, _ = controller.Process.Wait()

		// Nobody reads the controller's stdout any more than the test does.
		if got := status(t, dir); got != 200 {
			t.Errorf("status %d", got)
		}
		if !lines.Scan() || !strings.Contains(lines.Text(), "GET / HTTP") {
			t.Errorf("the access log says %q, %v", lines.Text(), lines.Err())
		}
		stdout.Close()
		for range 3 { // the log goes nowhere now; HAProxy must not mind
			if got := status(t, dir); got != 200 {
				t.Errorf("status %d", got)
			}
		}
		s, stderr := supervisor(t, dir, binary)
		if got, ok := s.Adopt(within(t, 5*time.Second)); !ok || got != pid {
			t.Fatalf("adopted %d, %v; want %d", got, ok, pid)
		}
		if _, err := socket.NewMaster(s.config.MasterSocket).Reload(within(t, 10*time.Second)); err != nil {
			t.Fatal(err)
		}
		eventually(t, "messages of the adopted HAProxy are copied", func() bool { return strings.Contains(stderr.String(), "Loading success.") })
		// The reloaded master has a longer command line and is adopted, too.
		second, _ := supervisor(t, dir, binary)
		if got, ok := second.Adopt(within(t, 5*time.Second)); !ok || got != pid {
			t.Errorf("adopted %d, %v; want %d", got, ok, pid)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		gone(t, s)
		gone(t, second)
	})
}

func TestAdoptOnlyOurs(t *testing.T) {
	versions(t, func(t *testing.T, binary string) {
		dir := folder(t)
		generation(t, dir)
		s, _ := supervisor(t, dir, binary)
		if _, ok := s.Adopt(within(t, 5*time.Second)); ok {
			t.Error("adopted without anything running")
		}
		write(t, s.config.PIDFile, strconv.Itoa(os.Getpid())+"\n")
		if _, ok := s.Adopt(within(t, 5*time.Second)); ok {
			t.Error("adopted a process that is not HAProxy")
		}
		if err := s.Start(within(t, 10*time.Second)); err != nil {
			t.Fatal(err)
		}
		other, _ := supervisor(t, dir, binary)
		other.config.ConfDir = filepath.Join(dir, "gen-1/conf.d")
		if _, ok := other.Adopt(within(t, 5*time.Second)); ok {
			t.Error("adopted a HAProxy with another configuration")
		}
		// Without its socket it is found by the PID file.
		third, _ := supervisor(t, dir, binary)
		if err := os.Remove(third.config.MasterSocket); err != nil {
			t.Fatal(err)
		}
		if pid, ok := third.Adopt(within(t, 5*time.Second)); !ok || pid != s.PID() {
			t.Errorf("adopted %d, %v; want %d", pid, ok, s.PID())
		}
	})
}

func TestWaitWithoutPidfd(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = waitForeign(cmd.Process.Pid, -1)
		close(ended)
	}()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended: // a zombie counts as gone
	case <-time.After(10 * time.Second):
		t.Error("the end was not seen")
	}
	_ = cmd.Wait()
}
