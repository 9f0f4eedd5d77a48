package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/tests/kube"
)

// controller is a `sluice run` beside the test, with a HAProxy at an address of its own.
type controller struct {
	cluster *kube.Cluster
	name    string
	address string // of HAProxy: ports 80, 443 and 10253; port 10254 is sluice's
	folder  string
	args    []string
	command *exec.Cmd
	exited  chan struct{}
}

// newController prepares a controller that ends with the test; flags are added to those of
// the manifests.
func newController(t *testing.T, c *kube.Cluster, name, address string, flags ...string) *controller {
	t.Helper()
	binary, _ := haproxy(t)
	// Sockets have short paths only, so not t.TempDir.
	folder, err := os.MkdirTemp("", "sl")
	if err != nil {
		t.Fatal(err)
	}
	account, err := c.ServiceAccount(t.Context(), ownNamespace, "sluice")
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := c.Kubeconfig(name, account)
	if err != nil {
		t.Fatal(err)
	}
	s := &controller{cluster: c, name: name, address: address, folder: folder}
	s.args = append([]string{
		"run", "--kubeconfig=" + kubeconfig, "--haproxy=" + binary,
		"--config-dir=" + filepath.Join(folder, "config"), "--state-dir=" + filepath.Join(folder, "state"), "--run-dir=" + filepath.Join(folder, "run"),
		"--http-address=" + address + ":80", "--https-address=" + address + ":443",
		"--health-address=" + address + ":10253", "--admin-address=" + address + ":10254",
		"--configmap=" + ownNamespace + "/sluice", "--ingress-class=sluice", "--stop-timeout=10s",
	}, flags...)
	t.Cleanup(func() {
		s.signal(t, syscall.SIGTERM)
		if pid := s.haproxyPID(); pid > 1 {
			_ = syscall.Kill(pid, syscall.SIGTERM)
		}
		_ = os.RemoveAll(folder)
	})
	return s
}

// start starts sluice and does not wait.
func (s *controller) start(t *testing.T) {
	t.Helper()
	out := s.output(t)
	defer out.Close()
	s.command = exec.Command(kube.Program(t, "sluice"), s.args...)
	s.command.Env = append(os.Environ(), "POD_NAME="+s.name, "POD_NAMESPACE="+ownNamespace)
	s.command.Stdout, s.command.Stderr = out, out
	if err := s.command.Start(); err != nil {
		t.Fatal(err)
	}
	command, exited := s.command, make(chan struct{})
	s.exited = exited
	go func() {
		_ = command.Wait()
		close(exited)
	}()
}

// output is a pipe to the log, which is kept with the cluster's. HAProxy writes to it, too,
// and may outlive sluice; it must not get the file itself, since it takes O_APPEND away.
func (s *controller) output(t *testing.T) *os.File {
	t.Helper()
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer log.Close()
		defer read.Close()
		_, _ = io.Copy(log, read)
	}()
	return write
}

// startReady starts sluice and waits until it is ready.
func (s *controller) startReady(t *testing.T) {
	t.Helper()
	s.start(t)
	kube.Eventually(t, s.name+" is ready", s.ready)
}

// signal ends sluice, or does nothing where it does not run.
func (s *controller) signal(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if s.command == nil {
		return
	}
	_ = s.command.Process.Signal(signal)
	select {
	case <-s.exited:
	case <-time.After(kube.Patience):
		_ = s.command.Process.Kill()
		<-s.exited
		t.Errorf("%s did not end after %s", s.name, signal)
	}
	s.command = nil
}

func (s *controller) logFile() string { return filepath.Join(s.cluster.Logs, s.name+".log") }

// log is what sluice and HAProxy have printed so far.
func (s *controller) log(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(s.logFile())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// haproxyPID is the pid of HAProxy's master; 0: none.
func (s *controller) haproxyPID() int {
	text, err := os.ReadFile(filepath.Join(s.folder, "run", "haproxy.pid"))
	if err != nil {
		return 0
	}
	pid := 0
	_, _ = fmt.Sscan(string(text), &pid)
	return pid
}

// admin asks the admin address.
func (s *controller) admin(path string) (status int, body string, err error) {
	client := http.Client{Timeout: 10 * time.Second}
	response, err := client.Get("http://" + s.address + ":10254" + path)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// ready is nil when sluice says that it is.
func (s *controller) ready() error {
	status, body, err := s.admin("/readyz")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("status %d: %s", status, body)
	}
	return err
}

// finding is what tests read of a finding.
type finding struct {
	Code, Message string
	Object        struct{ Kind, Namespace, Name string }
}

// state is what tests read of /api/v1/state.
type state struct {
	Findings []finding
	Reloads  []struct{ Reasons []string } // newest first
}

func (s *controller) state(t *testing.T) state {
	t.Helper()
	_, body, err := s.admin("/api/v1/state")
	var now state
	if err == nil {
		err = json.Unmarshal([]byte(body), &now)
	}
	if err != nil {
		t.Fatalf("state of %s: %v", s.name, err)
	}
	return now
}

func (s *controller) findings(t *testing.T) []finding {
	t.Helper()
	return s.state(t).Findings
}

// metric is the sum of a metric over all its labels.
func (s *controller) metric(t *testing.T, name string) float64 {
	t.Helper()
	_, body, err := s.admin("/metrics")
	if err != nil {
		t.Fatalf("metrics of %s: %v", s.name, err)
	}
	sum := 0.0
	for line := range strings.Lines(body) {
		if !strings.HasPrefix(line, name+"{") && !strings.HasPrefix(line, name+" ") {
			continue
		}
		var value float64
		if _, err := fmt.Sscan(line[strings.LastIndex(line, " ")+1:], &value); err != nil {
			t.Fatalf("metric %q: %v", line, err)
		}
		sum += value
	}
	return sum
}

// noReload checks that no reload happens while something is done.
func (s *controller) noReload(t *testing.T, do func()) {
	t.Helper()
	before := s.metric(t, "sluice_reloads_total")
	do()
	if now := s.metric(t, "sluice_reloads_total"); now != before {
		t.Errorf("%v reloads; the last ones, newest first: %v", now-before, s.state(t).Reloads)
	}
}

// enoughRights checks that nothing was refused so far.
func (s *controller) enoughRights(t *testing.T) {
	t.Helper()
	for line := range strings.Lines(s.log(t)) {
		if strings.Contains(line, "forbidden") || strings.Contains(line, "sluice may not") || strings.Contains(line, "does not permit") {
			t.Errorf("the rights do not suffice: %s", line)
		}
	}
	for _, f := range s.findings(t) {
		if f.Code == "AccessDenied" {
			t.Errorf("the rights do not suffice: %s", f.Message)
		}
	}
}

// runtime sends a command to HAProxy's runtime socket.
func (s *controller) runtime(command string) (string, error) {
	conn, err := net.Dial("unix", filepath.Join(s.folder, "run", "haproxy.sock"))
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, command+"\n"); err != nil {
		return "", err
	}
	text, err := io.ReadAll(conn)
	return string(text), err
}
