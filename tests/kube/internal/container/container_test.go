package container_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/sluice-proxy/sluice/tests/kube/internal/container"
	"github.com/sluice-proxy/sluice/tests/kube/internal/sandbox"
)

// memoryVariable names the folder in memory: layers can't lie on what they cover.
const memoryVariable = "CONTAINER_TEST_MEMORY"

func TestMain(m *testing.M) {
	switch os.Getenv(sandbox.StageVariable) {
	case sandbox.StageContainer:
		container.Become()
	case sandbox.StageInit:
		sandbox.Init()
	case sandbox.StageTests:
		if err := sandbox.Memory(os.Getenv(memoryVariable)); err != nil {
			panic(err)
		}
		os.Exit(m.Run())
	default:
		os.Exit(outside())
	}
}

func outside() int {
	folder, err := sandbox.Folder()
	if err == nil {
		defer os.RemoveAll(folder)
		var code int
		if code, err = sandbox.Enter([]string{memoryVariable + "=" + filepath.Join(folder, "memory")}); err == nil {
			return code
		}
	}
	fmt.Fprintln(os.Stderr, err)
	return 2
}

var router = sync.OnceValues(sandbox.NewRouter)

// layer is a new folder in memory.
func layer(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp(os.Getenv(memoryVariable), "layer-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	return folder
}

func newPod(t *testing.T) *sandbox.Pod {
	t.Helper()
	r, err := router()
	if err != nil {
		t.Fatal(err)
	}
	pod, err := r.NewPod()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pod.Close)
	return pod
}

// run runs a script to its end.
func run(t *testing.T, spec container.Spec, pod *sandbox.Pod, script string) (string, int) {
	t.Helper()
	spec.Argv, spec.Layer, spec.Dir = []string{"sh", "-c", script}, layer(t), "/"
	spec.Env = append(spec.Env, "PATH=/usr/sbin:/usr/bin:/sbin:/bin")
	network := -1
	if pod != nil {
		network, spec.OwnNetwork = pod.Namespace(), true
	}
	var out bytes.Buffer
	process, err := container.Start(spec, network, &out, &out)
	if err != nil {
		t.Fatal(err)
	}
	<-process.Done()
	return strings.TrimSpace(out.String()), process.ExitCode()
}

func TestContainerIsByItself(t *testing.T) {
	source := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(source, []byte("mounted"), 0o644); err != nil {
		t.Fatal(err)
	}
	pod := newPod(t)
	spec := container.Spec{
		Env: []string{"A=1"}, Hostname: "pod-1", UID: 1000, GID: 1001, Groups: []int{1002},
		Mounts: []container.Mount{
			{Source: source, Target: "/etc/new/file", ReadOnly: true},
			{Source: source, Target: "/var/run/new/file"}, // through a link, on most machines
		},
	}
	for _, c := range []struct{ what, script, want string }{
		{"first process", "echo $$", "1"},
		{"environment", "echo $A$HOME", "1"},
		{"host name", "hostname", "pod-1"},
		{"user", "id -u; id -g; id -G", "1000\n1001\n1001 1002"},
		{"mount", "cat /etc/new/file", "mounted"},
		{"mount through a link", "cat /var/run/new/file", "mounted"},
		{"read-only mount", "echo x 2>/dev/null >>/etc/new/file || echo refused", "refused"},
		{"network", "cat /proc/net/route | wc -l", "3"}, // a heading, the default route and the bridge's
		{"empty /tmp", "ls -A /tmp", ""},
	} {
		if got, code := run(t, spec, pod, c.script); got != c.want || code != 0 {
			t.Errorf("%s: %q with code %d instead of %q", c.what, got, code, c.want)
		}
	}
	for _, folder := range []string{"/etc/new", "/run/new", "/var/run/new", "/.machine"} {
		if _, err := os.Stat(folder); !os.IsNotExist(err) {
			t.Errorf("the mount point %s is on the machine: %v", folder, err)
		}
	}
}

func TestEnds(t *testing.T) {
	if _, code := run(t, container.Spec{}, nil, "exit 3"); code != 3 {
		t.Errorf("code %d instead of 3", code)
	}
	var out bytes.Buffer
	spec := container.Spec{Argv: []string{"sleep", "100"}, Env: []string{"PATH=/bin:/usr/bin"}, Layer: layer(t), Dir: "/"}
	process, err := container.Start(spec, -1, &out, &out)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := process.Exec(t.Context(), []string{"sh", "-c", "echo $$; pwd"}); err != nil || !strings.HasSuffix(text, "\n/\n") {
		t.Errorf("a command in the container: %q: %v", text, err)
	}
	if err := process.SignalAll(syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	<-process.Done()
	if code := process.ExitCode(); code != 137 {
		t.Errorf("code %d instead of 137", code)
	}
	spec.Argv, spec.Layer = []string{"no-such-program"}, layer(t)
	if _, err := container.Start(spec, -1, &out, &out); err == nil || !strings.Contains(err.Error(), "no-such-program") {
		t.Errorf("a program that does not exist: %v", err)
	}
}

func TestNetwork(t *testing.T) {
	one, two := newPod(t), newPod(t)
	if one.Address == two.Address {
		t.Fatalf("both have the address %s", one.Address)
	}
	// An address of the local range is the router's, for itself and for pods.
	listener, err := net.Listen("tcp", "10.200.3.4:80")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	const dial = "exec 3<>/dev/tcp/10.200.3.4/80 && echo connected"
	bash := func(seconds, script string) string {
		return "timeout " + seconds + " bash -c '" + script + "' 2>/dev/null || echo lost"
	}
	if got, _ := run(t, container.Spec{}, one, bash("20", dial)); got != "connected" {
		t.Errorf("from a pod: %s", got)
	}
	if err := one.Unplug(); err != nil {
		t.Fatal(err)
	}
	if got, _ := run(t, container.Spec{}, one, bash("2", dial)); got != "lost" {
		t.Errorf("from an unplugged pod: %s", got)
	}
	if err := one.Plug(); err != nil {
		t.Fatal(err)
	}
	if got, _ := run(t, container.Spec{}, one, bash("20", dial)); got != "connected" {
		t.Errorf("from a pod that was plugged again: %s", got)
	}
}
