package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// StageVariable names the environment variable that says what a copy of the test binary is
// there for.
const StageVariable = "SLUICE_KUBE_STAGE"

// The stages of a test binary. The one that was started has none.
const (
	StageInit      = "init"      // first process of the sandbox
	StageTests     = "tests"     // runs the tests
	StageContainer = "container" // becomes the program of a container
)

// Enter runs this program again, with the same arguments, in namespaces of its own, and
// returns its exit code.
func Enter(env []string) (int, error) {
	if os.Geteuid() != 0 {
		return 0, errors.New("these tests make network namespaces, so they need root (CAP_SYS_ADMIN and CAP_NET_ADMIN): run them with sudo, or in a container with --privileged")
	}
	// The death signal belongs to the thread that starts the process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	command := exec.Command("/proc/self/exe", os.Args[1:]...)
	command.Args[0] = os.Args[0]
	command.Env = append(append(os.Environ(), env...), StageVariable+"="+StageInit)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWNS,
		Pdeathsig:  syscall.SIGKILL,
	}
	if err := command.Start(); err != nil {
		return 0, fmt.Errorf("making network, process and mount namespaces (this needs root and a kernel that allows it): %w", err)
	}
	stop := forward(command.Process.Pid)
	err := command.Wait()
	stop()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 0, fmt.Errorf("waiting for the sandbox: %w", err)
	}
	return exitCode(command.ProcessState.Sys().(syscall.WaitStatus)), nil
}

// Init is the first process of the sandbox: it starts this program once more, as the stage
// that runs the tests, and buries orphans. It does not return. The tests are not the first
// process themselves because burying would take the exit codes of their own children.
func Init() {
	code, err := initialise()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 2
	}
	os.Exit(code)
}

func initialise() (int, error) {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return 0, fmt.Errorf("making mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return 0, fmt.Errorf("mounting /proc: %w", err)
	}
	// Set, not appended: of two the first would count, and this would begin anew for ever.
	if err := os.Setenv(StageVariable, StageTests); err != nil {
		panic(err) // the name is fine
	}
	child, err := syscall.ForkExec("/proc/self/exe", os.Args, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}})
	if err != nil {
		return 0, fmt.Errorf("starting the tests: %w", err)
	}
	forward(child)
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if err != nil && !errors.Is(err, syscall.EINTR) {
			return 0, fmt.Errorf("waiting for the tests: %w", err)
		}
		if pid == child && (status.Exited() || status.Signaled()) {
			return exitCode(status), nil
		}
	}
}

// forward passes on the signals that ask for an end, among them the one with which the go
// command wants to see what a hanging test does.
func forward(pid int) (stop func()) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	go func() {
		for received := range signals {
			_ = syscall.Kill(pid, received.(syscall.Signal))
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
	}
}

// exitCode follows the shell's custom for processes that a signal ended.
func exitCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}
