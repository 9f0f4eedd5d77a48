package harness

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Patience bounds every wait for something that must come true.
const Patience = 20 * time.Second

// Controller is a running `sluice run` with folders and ports of its own.
type Controller struct {
	Source, ConfigDir, StateDir, RunDir string
	HTTP, HTTPS, Admin, Health          string // addresses
	UnderInit                           bool   // sluice-init starts sluice

	t       testing.TB
	binary  string // of HAProxy
	args    []string
	env     []string
	command *exec.Cmd
	log     *buffer
	exited  chan struct{}
}

// buffer collects a log that is written and read at the same time.
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

// NewController prepares folders, ports and manifests (file name to content); it does not
// start anything yet.
func NewController(t testing.TB, binary string, manifests map[string]string) *Controller {
	t.Helper()
	// Sockets have short paths only, so not t.TempDir.
	folder, err := os.MkdirTemp("", "sl")
	if err != nil {
		t.Fatal(err)
	}
	c := &Controller{
		t: t, binary: binary, log: &buffer{},
		Source: filepath.Join(folder, "src"), ConfigDir: filepath.Join(folder, "conf"), StateDir: filepath.Join(folder, "state"), RunDir: filepath.Join(folder, "run"),
		HTTP: FreeAddress(t), HTTPS: FreeAddress(t), Admin: FreeAddress(t), Health: FreeAddress(t),
	}
	if err := os.MkdirAll(c.Source, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range manifests {
		c.Write(name, content)
	}
	t.Cleanup(func() {
		c.Stop()
		c.killHAProxy()
		if t.Failed() {
			t.Logf("log of sluice:\n%s", c.log)
		}
		_ = os.RemoveAll(folder)
	})
	return c
}

// Start starts sluice and waits until it is ready.
func (c *Controller) Start(args ...string) {
	c.t.Helper()
	c.StartUnready(args...)
	c.Eventually("sluice is ready", c.IsReady)
}

// IsReady asks /readyz of the admin address.
func (c *Controller) IsReady() error {
	status, body, err := c.fetch("http://" + c.Admin + "/readyz")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("status %d: %s", status, body)
	}
	return err
}

// PID is the pid of sluice, or of sluice-init.
func (c *Controller) PID() int { return c.command.Process.Pid }

// StartUnready starts sluice and does not wait.
func (c *Controller) StartUnready(args ...string) {
	c.t.Helper()
	c.args = args
	call := append([]string{Program(c.t, "sluice"), "run", "--source", c.Source, "--allow-local-endpoints", "--config-dir", c.ConfigDir,
		"--state-dir", c.StateDir, "--run-dir", c.RunDir, "--http-address", c.HTTP, "--https-address", c.HTTPS,
		"--health-address", c.Health, "--admin-address", c.Admin, "--haproxy", c.binary}, args...)
	if c.UnderInit {
		call = append([]string{Program(c.t, "sluice-init")}, call...)
	}
	command := exec.Command(call[0], call[1:]...)
	command.Stdout, command.Stderr = c.log, c.log
	command.Env = append(os.Environ(), c.env...)
	// HAProxy inherits the pipe of the log and may outlive sluice: don't wait for its end.
	command.WaitDelay = time.Millisecond
	if err := command.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.command, c.exited = command, make(chan struct{})
	go func() {
		_ = command.Wait()
		close(c.exited)
	}()
}

// Setenv adds a variable to the environment of the next start.
func (c *Controller) Setenv(name, value string) { c.env = append(c.env, name+"="+value) }

// Log is what sluice and HAProxy have printed so far.
func (c *Controller) Log() string { return c.log.String() }

// Kill ends sluice at once, as kill -9 does. HAProxy goes on.
func (c *Controller) Kill() { c.end(syscall.SIGKILL) }

// Stop ends sluice gracefully, and HAProxy with it.
func (c *Controller) Stop() { c.end(syscall.SIGTERM) }

func (c *Controller) end(signal syscall.Signal) {
	if c.command == nil {
		return
	}
	c.Signal(signal)
	c.Wait()
}

// Signal sends a signal to sluice and does not wait for what comes of it.
func (c *Controller) Signal(signal syscall.Signal) { _ = c.command.Process.Signal(signal) }

// WorkerPID is the pid of HAProxy's worker.
func (c *Controller) WorkerPID() int {
	c.t.Helper()
	pid := 0
	for line := range strings.Lines(c.Runtime("show info")) {
		if text, found := strings.CutPrefix(line, "Pid: "); found {
			_, _ = fmt.Sscan(text, &pid)
		}
	}
	return pid
}

// Wait waits for the end of sluice and returns its exit code.
func (c *Controller) Wait() int {
	select {
	case <-c.exited:
	case <-time.After(2 * Patience):
		_ = c.command.Process.Kill()
		<-c.exited
		c.t.Errorf("sluice did not end")
	}
	code := c.command.ProcessState.ExitCode()
	c.command = nil
	return code
}

func (c *Controller) killHAProxy() {
	if pid := c.HAProxyPID(); pid > 1 {
		_ = syscall.Kill(pid, syscall.SIGTERM)
	}
}

// HAProxyPID is the pid of HAProxy's master as its pid file says; 0: none.
func (c *Controller) HAProxyPID() int {
	text, err := os.ReadFile(filepath.Join(c.RunDir, "haproxy.pid"))
	if err != nil {
		return 0
	}
	pid := 0
	_, _ = fmt.Sscan(string(text), &pid)
	return pid
}

// Write puts a manifest in place by a rename, as editors do.
func (c *Controller) Write(name, content string) {
	c.t.Helper()
	hidden := filepath.Join(c.Source, "."+name+".new")
	if err := os.WriteFile(hidden, []byte(content), 0o600); err != nil {
		c.t.Fatal(err)
	}
	if err := os.Rename(hidden, filepath.Join(c.Source, name)); err != nil {
		c.t.Fatal(err)
	}
}

// Remove removes a manifest.
func (c *Controller) Remove(name string) {
	c.t.Helper()
	if err := os.Remove(filepath.Join(c.Source, name)); err != nil {
		c.t.Fatal(err)
	}
}

// Eventually polls until the condition holds, and fails the test when it never does.
func (c *Controller) Eventually(what string, condition func() error) {
	c.t.Helper()
	Eventually(c.t, what, condition)
}

// Eventually polls until the condition holds, and fails the test when it never does.
func Eventually(t testing.TB, what string, condition func() error) {
	t.Helper()
	deadline := time.Now().Add(Patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := condition()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s: %v", Patience, what, err)
		}
		<-tick.C
	}
}

// Answer is the answer to a request.
type Answer struct {
	Status  int
	Headers http.Header
	Body    string
}

// Get asks the HTTP listener for a path of a host; the path is sent as it is written.
// Further headers come in pairs of name and value.
func (c *Controller) Get(host, path string, headers ...string) (Answer, error) {
	return Request(c.HTTP, "GET", host, path, headers...)
}

// Request sends one HTTP/1.1 request over a connection of its own. The path goes out
// byte for byte, which net/http would not do.
func Request(address, method, host, path string, headers ...string) (Answer, error) {
	conn, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return Answer{}, err
	}
	defer conn.Close()
	return exchange(conn, method, host, path, headers)
}

// GetTLS is like Get for the HTTPS listener, with the host as server name. It returns
// the certificate that was served, too.
func (c *Controller) GetTLS(host, path string, headers ...string) (Answer, *tls.ConnectionState, error) {
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: 5 * time.Second}, "tcp", c.HTTPS, &tls.Config{ServerName: host, InsecureSkipVerify: true})
	if err != nil {
		return Answer{}, nil, err
	}
	defer conn.Close()
	state := conn.ConnectionState()
	answer, err := exchange(conn, "GET", host, path, headers)
	return answer, &state, err
}

// State is /api/v1/state.
func (c *Controller) State() State {
	c.t.Helper()
	var s State
	_, body, err := c.fetch("http://" + c.Admin + "/api/v1/state")
	if err == nil {
		err = json.Unmarshal([]byte(body), &s)
	}
	if err != nil {
		c.t.Fatalf("state: %v\n%s", err, body)
	}
	return s
}

// State is what tests read of /api/v1/state.
type State struct {
	Waiting         string // why the next reload does not begin yet
	Ready           bool
	Wanted, Applied uint64
	Generation      int
	Shards          int
	Error           string
	Quarantined     []string
	Reloads         []struct {
		Reasons []string
		Error   string
	}
	Findings []struct{ Code, Message string }
}

// Metric is the sum of a metric over all label sets that contain the given text.
func (c *Controller) Metric(name, labels string) float64 {
	c.t.Helper()
	_, body, err := c.fetch("http://" + c.Admin + "/metrics")
	if err != nil {
		c.t.Fatalf("metrics: %v", err)
	}
	sum := 0.0
	for line := range strings.Lines(body) {
		if !strings.HasPrefix(line, name+"{") && !strings.HasPrefix(line, name+" ") || !strings.Contains(line, labels) {
			continue
		}
		var value float64
		_, _ = fmt.Sscan(line[strings.LastIndex(line, " ")+1:], &value)
		sum += value
	}
	return sum
}

// Runtime sends one command to the worker's runtime socket.
func (c *Controller) Runtime(command string) string {
	c.t.Helper()
	conn, err := net.Dial("unix", filepath.Join(c.RunDir, "haproxy.sock"))
	if err != nil {
		c.t.Fatalf("runtime socket: %v", err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(Patience))
	if _, err := io.WriteString(conn, command+"\n"); err != nil {
		c.t.Fatalf("runtime socket: %v", err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		c.t.Fatalf("runtime socket: %v", err)
	}
	return string(answer)
}

// Backends are the names of all backends of the worker but sluice's own.
func (c *Controller) Backends() []string {
	c.t.Helper()
	var names []string
	for line := range strings.Lines(c.Runtime("show backend")) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "_") && line != "MASTER" {
			names = append(names, line)
		}
	}
	return names
}

func (c *Controller) fetch(url string) (int, string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

// FreeAddress is a loopback address with a port that nobody uses.
func FreeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
