package traffic

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sluice-proxy/sluice/tests/harness"
)

// stageVariable says what a copy of the test binary is there for: "" was started by
// somebody, "init" is the first process of the namespaces, "tests" runs the tests.
const stageVariable = "SLUICE_TRAFFIC_STAGE"

func TestMain(m *testing.M) {
	switch os.Getenv(stageVariable) {
	case "":
		exit(enter())
	case "init":
		exit(beInit())
	default:
		if err := plug(); err != nil {
			exit(0, err)
		}
		harness.Main(m)
	}
}

func exit(code int, err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "tests/traffic:", err)
		code = 2
	}
	os.Exit(code)
}

// enter runs this binary again in namespaces of its own. When the first process there dies,
// for whatever reason, the kernel ends all others and removes links and addresses.
func enter() (int, error) {
	if os.Geteuid() != 0 {
		return 0, errors.New("these tests make network namespaces, so they need root: run them with sudo, or in a container with --privileged")
	}
	runtime.LockOSThread() // the death signal belongs to the thread that starts the process
	defer runtime.UnlockOSThread()
	return again("init", &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL,
	})
}

// again runs this binary with the same arguments as another stage and passes signals on.
func again(stage string, attributes *syscall.SysProcAttr) (int, error) {
	command, err := start(stage, attributes)
	if err != nil {
		return 0, err
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGQUIT)
	defer signal.Stop(signals)
	go func() {
		for s := range signals {
			_ = command.Process.Signal(s)
		}
	}()
	_ = command.Wait()
	return max(command.ProcessState.ExitCode(), 0) + boolInt(command.ProcessState.ExitCode() < 0), nil
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func start(stage string, attributes *syscall.SysProcAttr) (*exec.Cmd, error) {
	command := exec.Command("/proc/self/exe", os.Args[1:]...)
	command.Args[0] = os.Args[0]
	command.Env = append(os.Environ(), stageVariable+"="+stage)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	command.SysProcAttr = attributes
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("starting the stage %q of the tests: %w", stage, err)
	}
	return command, nil
}

// beInit is the first process: it buries orphans, such as an HAProxy whose controller was
// killed. The tests can't do it, since burying takes the exit codes of their own children.
func beInit() (int, error) {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return 0, fmt.Errorf("making mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return 0, fmt.Errorf("mounting /proc: %w", err)
	}
	if err := os.Unsetenv(stageVariable); err != nil {
		return 0, err
	}
	command, err := start("tests", nil)
	if err != nil {
		return 0, err
	}
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, fmt.Errorf("waiting for the tests: %w", err)
		case pid == command.Process.Pid && status.Exited():
			return status.ExitStatus(), nil
		case pid == command.Process.Pid && status.Signaled():
			return 1, nil
		}
	}
}

// inPods runs a function on a thread that lives in the namespace of the pods.
var podsThread = struct {
	calls chan func()
	id    int
}{calls: make(chan func())}

func inPods(f func() error) error {
	result := make(chan error)
	podsThread.calls <- func() { result <- f() }
	return <-result
}

// plug makes the namespace of the pods and the link to it.
func plug() error {
	made := make(chan error)
	go func() {
		runtime.LockOSThread() // for ever: it ends with the process
		err := unix.Unshare(unix.CLONE_NEWNET)
		podsThread.id = unix.Gettid()
		made <- err
		for call := range podsThread.calls {
			call()
		}
	}()
	if err := <-made; err != nil {
		return fmt.Errorf("making the pods' network namespace: %w", err)
	}
	err := ip(
		"link set lo up",
		"link add node0 type veth peer name eth0 netns "+strconv.Itoa(podsThread.id),
		"addr add 10.63.0.1/30 dev node0",
		"link set node0 up",
	)
	if err != nil {
		return err
	}
	err = inPods(func() error {
		return ip(
			"link set lo up",
			"addr add 10.63.0.2/30 dev eth0",
			"link set eth0 up",
			"route add local 10.64.0.0/10 dev lo",
			"route add default via 10.63.0.1",
			// So that a rule can stand before the look-up of local addresses.
			"rule add pref 100 lookup local",
			"rule del pref 0",
		)
	})
	if err != nil {
		return err
	}
	return ip("route add 10.64.0.0/10 via 10.63.0.2")
}

// ip runs commands of iproute2 in the namespace of the calling thread.
func ip(commands ...string) error {
	for _, command := range commands {
		if out, err := exec.Command("ip", strings.Fields(command)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s (iproute2 is needed): %w: %s", command, err, out)
		}
	}
	return nil
}

var (
	nextPod   = 0
	nextPodMu sync.Mutex
)

// newAddress is an address of a pod; none is used twice, since a request that meets the
// wrong pod must be seen.
func newAddress() string {
	nextPodMu.Lock()
	defer nextPodMu.Unlock()
	nextPod++
	return fmt.Sprintf("10.64.%d.%d", nextPod/250, nextPod%250+1)
}
