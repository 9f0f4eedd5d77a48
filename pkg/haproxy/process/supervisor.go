package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-proxy/sluice/pkg/haproxy/socket"
)

// Config says which HAProxy a Supervisor cares for.
type Config struct {
	Binary       string    // path of haproxy
	ConfDir      string    // conf.d of the current generation: <config>/current/conf.d
	MasterSocket string    // path of the master's socket; unix sockets allow some 100 bytes
	StatsSocket  string    // path of the worker's stats socket, as the configuration names it
	PIDFile      string    // written by the master
	RunDir       string    // holds the file that is HAProxy's stderr
	Args         []string  // further arguments
	Memory       int64     // limit of each process, in bytes; 0: none
	Stdout       *os.File  // HAProxy's stdout; nil: that of this process
	Stderr       io.Writer // what HAProxy's stderr is copied to; nil: that of this process
	Log          *slog.Logger
}

// Supervisor starts or adopts one HAProxy master and watches it.
type Supervisor struct {
	config Config

	mu     sync.Mutex
	master *master // nil: none was started or adopted yet
}

// master is one running master process.
type master struct {
	pid     int
	process *os.Process   // signals go through it: it can't hit another process of the same pid
	gone    chan struct{} // closed at its end
	exited  chan error    // yields the reason once
	why     error         // the reason; read after gone
}

// New is a Supervisor that watches nothing yet.
func New(c Config) *Supervisor {
	// HAProxy runs in "/", whatever folder the controller was started in.
	for _, path := range []*string{&c.ConfDir, &c.MasterSocket, &c.StatsSocket, &c.PIDFile, &c.RunDir} {
		if abs, err := filepath.Abs(*path); err == nil { // else the path stays and Start tells
			*path = abs
		}
	}
	c.Binary = located(c.Binary)
	if c.Stdout == nil {
		c.Stdout = os.Stdout
	}
	if c.Stderr == nil {
		c.Stderr = os.Stderr
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Supervisor{config: c}
}

// memoryFlag limits the memory of each process, in megabytes; without a maxconn HAProxy
// derives that from it (management guide, "Starting HAProxy").
const memoryFlag = "-m"

// poll is the interval at which a start is looked at.
const poll = 10 * time.Millisecond

// Start starts a master in a session of its own and waits until its worker answers. The
// error is *BindError where an address is taken, *Refusal for any other alert. Where ctx
// ends first the master is killed.
func (s *Supervisor) Start(ctx context.Context) error {
	stderr, err := s.openStderr()
	if err != nil {
		return err
	}
	defer stderr.Close()
	cmd := exec.Command(s.config.Binary, append(s.arguments(), s.limits()...)...)
	cmd.Dir = "/"
	cmd.Env = environment()
	cmd.Stdout, cmd.Stderr = s.config.Stdout, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting haproxy: %w (set --haproxy or SLUICE_HAPROXY to the path of the binary)", err)
	}
	m := &master{pid: cmd.Process.Pid, process: cmd.Process, gone: make(chan struct{}), exited: make(chan error, 1)}
	go m.end(func() error {
		m.reapGroup()
		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("haproxy ended: %w", err)
		}
		return fmt.Errorf("haproxy ended with status 0")
	})
	if err := s.ready(ctx, m); err != nil {
		return err
	}
	s.watch(m, 0)
	s.config.Log.Info("haproxy started", "pid", m.pid, "binary", s.config.Binary)
	return nil
}

// arguments is the command line without the binary. Adopt recognises it.
func (s *Supervisor) arguments() []string {
	c := s.config
	args := []string{"-W", "-S", c.MasterSocket + ",mode,600", "-p", c.PIDFile, "-f", c.ConfDir}
	return append(args, c.Args...)
}

// limits are the arguments behind those: an HAProxy that was started with others is ours
// all the same.
func (s *Supervisor) limits() []string {
	if s.config.Memory == 0 {
		return nil
	}
	return []string{memoryFlag, strconv.FormatInt(s.config.Memory>>20, 10)}
}

// environment is that of this process without the variables by which HAProxy masters
// speak to themselves over a reload.
func environment() []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "HAPROXY_") {
			env = append(env, v)
		}
	}
	return env
}

// ready waits until a worker of the master answers. Otherwise the master is gone when it
// returns.
func (s *Supervisor) ready(ctx context.Context, m *master) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	runtime := socket.NewRuntime(s.config.StatsSocket, socket.Options{})
	for {
		// An old process may still answer on the socket: only a child of the master counts.
		if pid, err := runtime.PID(ctx); err == nil && parent(pid) == m.pid {
			return nil
		}
		select {
		case <-m.gone:
			return s.failure(s.printed(), m.why)
		case <-ctx.Done():
			output := s.printed() // before it tells how it is killed
			m.kill()
			return s.failure(output, fmt.Errorf("haproxy did not answer on %s in time: %w", s.config.StatsSocket, ctx.Err()))
		case <-tick.C:
		}
	}
}

// failure is the error of a master that did not get ready: its first alert says more than
// how it ended.
func (s *Supervisor) failure(output string, why error) error {
	root := filepath.Dir(s.config.ConfDir)
	if err := bindErrorOf(output, root); err != nil {
		return err
	}
	if r := refusalOf(output, root); r.Message != tail(output) && !strings.Contains(r.Message, "exited with code") {
		return r
	}
	return fmt.Errorf("starting haproxy: %w; it printed: %s", why, tail(output))
}

// end waits for the end of the process and tells it.
func (m *master) end(wait func() error) {
	m.why = wait()
	close(m.gone)
	m.exited <- m.why
	close(m.exited)
}

// reapGroup waits for the end of a child without taking its status, which keeps its pid
// from being used again, and kills what is left of its session. A master that dies leaves
// workers behind for a moment; since HAProxy shares ports, they would take a part of the
// next one's connections.
func (m *master) reapGroup() {
	for {
		err := unix.Waitid(unix.P_PID, m.pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	_ = syscall.Kill(-m.pid, syscall.SIGKILL) // ESRCH: nothing is left
}

// kill ends the master and, through it, its workers: SIGTERM first, since a master that
// is killed leaves it to the workers to notice.
func (m *master) kill() {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if err := m.process.Signal(signal); err != nil {
			break // it is gone
		}
		select {
		case <-m.gone:
			return
		case <-time.After(2 * time.Second):
		}
	}
	<-m.gone
}

// watch makes m the master that the methods speak of and copies its stderr from the given
// byte on.
func (s *Supervisor) watch(m *master, from int64) {
	s.mu.Lock()
	s.master = m
	s.mu.Unlock()
	go s.relay(m.gone, from)
}

func (s *Supervisor) current() *master {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.master
}

// PID is the master's process id; 0: none is known to run.
func (s *Supervisor) PID() int {
	m := s.current()
	if m == nil {
		return 0
	}
	select {
	case <-m.gone:
		return 0
	default:
		return m.pid
	}
}

// Exited yields one error when the master that Start or Adopt last found is gone, and
// is then closed. It is nil, which never yields, before the first Start or Adopt.
func (s *Supervisor) Exited() <-chan error {
	m := s.current()
	if m == nil {
		return nil
	}
	return m.exited
}

// Stop ends the master: SIGUSR1 lets it finish its connections; SIGTERM when ctx ends,
// and SIGKILL 2 s later. It returns when the process is gone, with the error of ctx if
// connections were cut.
func (s *Supervisor) Stop(ctx context.Context) error {
	m := s.current()
	if m == nil || s.PID() == 0 {
		return nil
	}
	if err := m.process.Signal(syscall.SIGUSR1); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping haproxy: %w", err)
	}
	select {
	case <-m.gone:
		return nil
	case <-ctx.Done():
		m.kill()
		return fmt.Errorf("haproxy had connections left when it was stopped: %w", ctx.Err())
	}
}
