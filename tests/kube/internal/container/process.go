package container

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sluice-proxy/sluice/tests/kube/internal/sandbox"
)

// Process is a running container.
type Process struct {
	command *exec.Cmd
	spec    Spec
	done    chan struct{}
}

// Start starts a container and waits until its program runs. Network is a descriptor of
// the network namespace, used if the spec says so; the writers get what the program
// prints.
func Start(spec Spec, network int, stdout, stderr io.Writer) (*Process, error) {
	if len(spec.Argv) == 0 {
		return nil, errors.New("no command: neither the image nor the pod names one")
	}
	file, err := spec.save()
	if err != nil {
		return nil, err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("making a pipe: %w", err)
	}
	defer read.Close()
	command := exec.Command("/proc/self/exe")
	command.Env = []string{sandbox.StageVariable + "=" + sandbox.StageContainer, specVariable + "=" + file}
	command.Stdout, command.Stderr = stdout, stderr
	command.ExtraFiles = []*os.File{write}
	if spec.OwnNetwork {
		copied, err := unix.FcntlInt(uintptr(network), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("the pod's network is gone: %w", err), write.Close())
		}
		namespace := os.NewFile(uintptr(copied), "network")
		defer namespace.Close()
		command.ExtraFiles = append(command.ExtraFiles, namespace)
	}
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
		Setsid:     true,
	}
	err = command.Start()
	_ = write.Close()
	if err != nil {
		return nil, fmt.Errorf("starting a container: %w", err)
	}
	// Ends when the program runs or the shim has given up.
	failure, err := io.ReadAll(read)
	if err == nil && len(failure) > 0 {
		err = errors.New(string(failure))
	}
	if err != nil {
		_ = command.Process.Kill()
		return nil, errors.Join(err, ignoreExit(command.Wait()))
	}
	p := &Process{command: command, spec: spec, done: make(chan struct{})}
	go func() {
		_ = command.Wait()
		close(p.done)
	}()
	return p, nil
}

// save writes the spec beside the container's layer.
func (s *Spec) save() (string, error) {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // plain values only
	}
	if err := os.MkdirAll(s.Layer, 0o755); err != nil {
		return "", fmt.Errorf("making the container's layer: %w", err)
	}
	file := filepath.Join(s.Layer, "spec.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return "", fmt.Errorf("writing what to run: %w", err)
	}
	return file, nil
}

func ignoreExit(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}

// Done is closed when the container has ended, with all its processes.
func (p *Process) Done() <-chan struct{} { return p.done }

// ExitCode of the program, after Done: 128 and the signal's number if one ended it.
func (p *Process) ExitCode() int {
	status := p.command.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// PID of the program as the router sees it.
func (p *Process) PID() int { return p.command.Process.Pid }

// Signal sends a signal to the program. Like the first process of any container it gets
// only those that it handles, and SIGKILL and SIGSTOP.
func (p *Process) Signal(signal syscall.Signal) { _ = p.command.Process.Signal(signal) }

// SignalAll sends a signal to every process of the container.
func (p *Process) SignalAll(signal syscall.Signal) error {
	own, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", p.PID()))
	if err != nil {
		return fmt.Errorf("the container has ended: %w", err)
	}
	spaces, err := filepath.Glob("/proc/[0-9]*/ns/pid")
	if err != nil {
		panic(err) // the pattern is fine
	}
	for _, space := range spaces {
		// Processes come and go meanwhile.
		if other, err := os.Readlink(space); err != nil || other != own {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(space))))
		if err != nil {
			panic(err) // the pattern asked for digits
		}
		if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("signalling a process of the container: %w", err)
		}
	}
	return nil
}

// Exec runs a command in the container, with its environment and as its user, and returns
// what it printed. The error says with which code it ended, if not 0.
func (p *Process) Exec(ctx context.Context, argv []string) (string, error) {
	args := []string{"--target", strconv.Itoa(p.PID()), "--mount", "--net", "--pid", "--uts", "--ipc", "--root",
		"--wd", "--setgid", strconv.Itoa(p.spec.GID), "--setuid", strconv.Itoa(p.spec.UID), "--"}
	command := exec.CommandContext(ctx, "nsenter", append(args, argv...)...)
	command.Env = p.spec.Env
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	if err := command.Run(); err != nil {
		return out.String(), fmt.Errorf("%v in the container: %w", argv, err)
	}
	return out.String(), nil
}
