package plane

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// Part is one program of the control plane. Its output goes to NAME.log in the folder of
// logs, across restarts.
type Part struct {
	Name string

	program string
	args    []string
	log     string
	ready   func() error // nil: it serves

	mu      sync.Mutex
	command *exec.Cmd
	exited  chan struct{}
}

// readyLimit bounds the wait for a part that was started; on a busy machine the API server
// takes its time.
const readyLimit = 3 * time.Minute

// stopLimit is what a part gets for its end. The API server would take a minute as long as
// clients watch.
const stopLimit = 5 * time.Second

// Start starts the part and waits until it serves.
func (p *Part) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.command != nil {
		return fmt.Errorf("%s is running already", p.Name)
	}
	file, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening the log of %s: %w", p.Name, err)
	}
	defer file.Close()
	command := exec.Command(p.program, p.args...)
	command.Stdout, command.Stderr = file, file
	if err := command.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", p.Name, err)
	}
	exited := make(chan struct{})
	p.command, p.exited = command, exited
	go func() {
		_ = command.Wait()
		close(exited)
	}()
	return p.wait(exited)
}

func (p *Part) wait(exited <-chan struct{}) error {
	limit := time.After(readyLimit)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := p.ready()
		if err == nil {
			return nil
		}
		select {
		case <-exited:
			return fmt.Errorf("%s ended before it served; the end of its log:\n%s", p.Name, p.tail())
		case <-limit:
			return fmt.Errorf("%s does not serve after %s (%w); the end of its log:\n%s", p.Name, readyLimit, err, p.tail())
		case <-tick.C:
		}
	}
}

// tail is the end of the log, for an error message.
func (p *Part) tail() []byte {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return nil
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-15):], nil)
}

// Stop asks the part to end, and kills it if it has not done so after some seconds.
func (p *Part) Stop() { p.end(syscall.SIGTERM) }

// Kill ends the part at once.
func (p *Part) Kill() { p.end(syscall.SIGKILL) }

func (p *Part) end(signal syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.command == nil {
		return
	}
	// A frozen process would keep the signal for later.
	_ = p.command.Process.Signal(syscall.SIGCONT)
	_ = p.command.Process.Signal(signal)
	select {
	case <-p.exited:
	case <-time.After(stopLimit):
		_ = p.command.Process.Kill()
		<-p.exited
	}
	p.command = nil
}

// Restart stops the part and starts it again.
func (p *Part) Restart() error {
	p.Stop()
	return p.Start()
}

// Freeze stops the part's process without ending it: connections stay open and nothing is
// answered, as with a machine that hangs.
func (p *Part) Freeze() error { return p.signal(syscall.SIGSTOP) }

// Thaw lets a frozen part go on.
func (p *Part) Thaw() error { return p.signal(syscall.SIGCONT) }

func (p *Part) signal(signal syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.command == nil {
		return errors.New(p.Name + " is not running")
	}
	if err := p.command.Process.Signal(signal); err != nil {
		return fmt.Errorf("signalling %s: %w", p.Name, err)
	}
	return nil
}

func (p *Plane) part(name string, ready func() error, args ...string) *Part {
	return &Part{
		Name: name, program: filepath.Join(p.o.Programs, name), args: args, ready: ready,
		log: filepath.Join(p.o.Logs, name+".log"),
	}
}
