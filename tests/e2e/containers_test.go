package e2e

import (
	"bufio"
	"bytes"
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
	"syscall"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/tests/harness"
)

// oneApp is the manifest of a host with one pod.
func oneApp(pod *harness.Pod) map[string]string {
	return map[string]string{"web.yaml": web(pod) + harness.Ingress("web", "web.example", "web")}
}

// childOf is the pid of the child that runs a program; 0: there is none.
func childOf(pid int, program string) int {
	folders, _ := filepath.Glob("/proc/[0-9]*")
	for _, folder := range folders {
		text, _ := os.ReadFile(folder + "/stat")
		name, rest, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(rest)
		if len(fields) > 1 && fields[0] != "Z" && fields[1] == strconv.Itoa(pid) && strings.HasSuffix(name, "("+program) {
			child, _ := strconv.Atoi(filepath.Base(folder))
			return child
		}
	}
	return 0
}

// One container: sluice-init is pid 1. Sluice is killed under load, three times in a row;
// HAProxy answers on, and each next sluice takes it over as it is.
func TestKilledBelowInit(t *testing.T) {
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		first, second := harness.NewPod(t, "first"), harness.NewPod(t, "second")
		c := harness.NewController(t, binary, oneApp(first))
		c.UnderInit = true
		c.Start()
		answers(t, c, "web.example/", 200, "first")
		master, worker := c.HAProxyPID(), c.WorkerPID()
		steady := clients(c, "web.example", "")
		for range 3 {
			killed := childOf(c.PID(), "sluice")
			if killed == 0 {
				t.Fatal("sluice is no child of sluice-init")
			}
			if err := syscall.Kill(killed, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			c.Eventually("another sluice is ready", func() error {
				if pid := childOf(c.PID(), "sluice"); pid == 0 || pid == killed {
					return fmt.Errorf("process %d", pid)
				}
				return c.IsReady()
			})
		}
		change(t, c, oneApp(second))
		answers(t, c, "web.example/", 200, "second")
		steady.end(t)
		if n := c.Metric("sluice_reloads_total", ""); n != 0 {
			t.Errorf("%v reloads", n)
		}
		if c.HAProxyPID() != master || c.WorkerPID() != worker {
			t.Errorf("HAProxy is another one: %d and %d, before %d and %d", c.HAProxyPID(), c.WorkerPID(), master, worker)
		}
		c.Signal(syscall.SIGTERM)
		if code := c.Wait(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		if err := syscall.Kill(master, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("HAProxy runs on (%v)", err)
		}
	})
}

// container is an HAProxy that somebody else runs: a container of its own.
type container struct {
	t    *testing.T
	args []string
	cmd  *exec.Cmd
	log  *bytes.Buffer
}

func (h *container) start() {
	h.t.Helper()
	h.log = &bytes.Buffer{}
	h.cmd = exec.Command(h.args[0], h.args[1:]...)
	h.cmd.Stdout, h.cmd.Stderr = h.log, h.log
	// As in a container, nobody of it lives on.
	h.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := h.cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
}

func (h *container) kill() {
	_ = syscall.Kill(-h.cmd.Process.Pid, syscall.SIGKILL)
	_ = h.cmd.Wait()
}

// asks waits until an address answers a path with a status.
func asks(t *testing.T, address, path string, want int) {
	t.Helper()
	harness.Eventually(t, fmt.Sprintf("%s%s answers %d", address, path, want), func() error {
		return status(harness.Ask{Address: address, Host: "web.example", Path: path}, want, nil)()
	})
}

// Two containers: HAProxy runs on what an init container wrote, before sluice does; it
// outlives sluice, and when it dies itself and is started again, sluice finds it again.
func TestTwoContainers(t *testing.T) {
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		pods := map[string]*harness.Pod{}
		for _, name := range []string{"first", "second", "third", "fourth"} {
			pods[name] = harness.NewPod(t, name)
		}
		c := harness.NewController(t, binary, oneApp(pods["first"]))
		master := filepath.Join(c.RunDir, "master.sock")
		bootstrap := []string{"render", "--bootstrap", "--out", c.ConfigDir, "--run-dir", c.RunDir, "--http-address", c.HTTP,
			"--https-address", c.HTTPS, "--health-address", c.Health}
		if ran := harness.Run(t, "", "sluice", bootstrap...); ran.Code != 0 {
			t.Fatalf("%+v", ran)
		}
		harness.Check(t, binary, filepath.Join(c.ConfigDir, "current"))
		haproxy := &container{t: t, args: []string{binary, "-W", "-S", master + ",mode,600", "-f", filepath.Join(c.ConfigDir, "current", "conf.d")}}
		haproxy.start()
		t.Cleanup(func() {
			haproxy.kill()
			if t.Failed() {
				t.Logf("log of HAProxy:\n%s", haproxy.log)
			}
		})
		asks(t, c.HTTP, "/", 503)
		asks(t, c.Health, "/healthz", 200)
		asks(t, c.Health, "/readyz", 503)
		asks(t, c.Health, "/other", 404)
		if answer, _, err := c.GetTLS("any.example", "/"); err != nil || answer.Status != 503 || answer.Headers.Get("Retry-After") == "" {
			t.Errorf("https: %+v, %v", answer, err)
		}

		c.Start("--master-socket", master)
		answers(t, c, "web.example/", 200, "first")
		asks(t, c.Health, "/readyz", 200)
		if ran := harness.Run(t, "", "sluice", bootstrap...); ran.Code != 2 {
			t.Errorf("the folder was written to while sluice runs: %+v", ran)
		}

		steady := clients(c, "web.example", "")
		c.Kill()
		answers(t, c, "web.example/", 200, "first")
		if ran := harness.Run(t, "", "sluice", bootstrap...); ran.Code != 0 || !strings.Contains(ran.Out, "left as it is") {
			t.Errorf("the init container, again: %+v", ran)
		}
		c.Start("--master-socket", master)
		change(t, c, oneApp(pods["second"]))
		answers(t, c, "web.example/", 200, "second")
		steady.end(t)
		if n := c.Metric("sluice_reloads_total", ""); n != 0 {
			t.Errorf("%v reloads after the second start", n)
		}

		// HAProxy is started again on what stands, and is told of the next change.
		haproxy.kill()
		haproxy.start()
		answers(t, c, "web.example/", 200, "second")
		change(t, c, oneApp(pods["third"]))
		answers(t, c, "web.example/", 200, "third")

		// What changes while there is none waits for the next.
		haproxy.kill()
		c.Write("web.yaml", oneApp(pods["fourth"])["web.yaml"])
		c.Eventually("sluice has noticed", func() error {
			if s := c.State(); s.Error == "" {
				return fmt.Errorf("%+v", s)
			}
			return nil
		})
		haproxy.start()
		answers(t, c, "web.example/", 200, "fourth")
		c.Eventually("sluice is content", func() error {
			if s := c.State(); s.Error != "" || s.Applied != s.Wanted {
				return fmt.Errorf("%+v", s)
			}
			return nil
		})

		c.Stop()
		answers(t, c, "web.example/", 200, "fourth")
	})
}

// HAProxy is held to a part of the container's memory, and takes no more connections than
// fit into it.
func TestMemoryLimit(t *testing.T) {
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		c := harness.NewController(t, binary, oneApp(harness.NewPod(t, "web-1")))
		c.Setenv("GOMEMLIMIT", "128MiB")
		c.Start("--haproxy-memory-limit", "384Mi")
		info := c.Runtime("show info")
		if !strings.Contains(info, "\nMemmax_MB: 128\n") {
			t.Errorf("the worker has no limit of 128 MB:\n%s", info)
		}
		pid := c.HAProxyPID()
		c.Kill()
		c.Start("--haproxy-memory-limit", "512Mi")
		if c.HAProxyPID() != pid {
			t.Error("an HAProxy with another limit was not taken over")
		}
	})
}

// halfway is a connection on which one request was answered, which tells that it is served,
// and another one has begun.
func halfway(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: web.example\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\n"); err != nil {
		t.Fatal(err)
	}
	return conn
}

// A stop waits for requests as long as --stop-timeout says.
func TestStopTimeout(t *testing.T) {
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		c := harness.NewController(t, binary, oneApp(harness.NewPod(t, "web-1")))
		c.Start("--stop-timeout", "300ms")
		halfway(t, c.HTTP)
		began := time.Now()
		c.Stop()
		if took := time.Since(began); took < 300*time.Millisecond || took > harness.Patience {
			t.Errorf("the stop took %s", took)
		}
	})
}

// HAProxy in a container of its own finishes the request that is on its way when the
// container is stopped.
func TestContainerOfHAProxyStops(t *testing.T) {
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		c := harness.NewController(t, binary, nil)
		if ran := harness.Run(t, "", "sluice", "render", "--bootstrap", "--out", c.ConfigDir, "--run-dir", c.RunDir, "--http-address", c.HTTP, "--health-address", c.Health); ran.Code != 0 {
			t.Fatalf("%+v", ran)
		}
		haproxy := &container{t: t, args: []string{harness.Program(t, "sluice-init"), "--stop-signal", "USR1", binary, "-W", "-S", filepath.Join(c.RunDir, "master.sock"),
			"-p", filepath.Join(c.RunDir, "haproxy.pid"), "-f", filepath.Join(c.ConfigDir, "current", "conf.d")}}
		haproxy.start()
		asks(t, c.Health, "/healthz", 200)
		conn := halfway(t, c.HTTP)
		if err := haproxy.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		c.Eventually("HAProxy takes no more connections", func() error {
			other, err := net.Dial("tcp", c.HTTP)
			if err != nil {
				return nil
			}
			other.Close()
			return errors.New("it does")
		})
		if _, err := io.WriteString(conn, "Host: web.example\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if response.StatusCode != 503 {
			t.Errorf("status %d", response.StatusCode)
		}
		if err := haproxy.cmd.Wait(); err != nil {
			t.Errorf("%v\n%s", err, haproxy.log)
		}
	})
}
