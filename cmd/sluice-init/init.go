package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	firstWait = 100 * time.Millisecond
	lastWait  = 30 * time.Second
	longLife  = time.Minute // of the command: its end is not one of a series
)

// initProcess is the state of pid 1. The functions are the system's.
type initProcess struct {
	command    []string
	stopSignal syscall.Signal
	signals    <-chan os.Signal
	now        func() time.Time
	start      func(command []string) (pid int, err error)
	kill       func(pid int, signal syscall.Signal) error
	reap       func() (pid int, status syscall.WaitStatus, left bool)
	children   func() []int
	log        func(format string, a ...any)

	pid      int // of the command; 0: it does not run
	started  time.Time
	deaths   int // in a row
	stopping bool
	code     int // how the command ended
	again    <-chan time.Time
}

// run returns the exit code.
func (i *initProcess) run() int {
	if err := i.launch(); err != nil {
		i.log("%v", err)
		return wrongCall
	}
	for {
		select {
		case got := <-i.signals:
			if got == syscall.SIGCHLD {
				if i.collect() {
					return i.code
				}
				continue
			}
			i.signal(got.(syscall.Signal))
		case <-i.again:
			if err := i.launch(); err != nil {
				i.log("%v", err)
				i.later()
			}
		}
	}
}

func (i *initProcess) launch() error {
	i.again = nil
	i.started = i.now()
	pid, err := i.start(i.command)
	if err != nil {
		return fmt.Errorf("starting %s: %w", i.command[0], err)
	}
	i.pid = pid
	return nil
}

// collect reaps all processes that have ended, and tells whether this one ends, too.
func (i *initProcess) collect() bool {
	ended := false
	for {
		pid, status, left := i.reap()
		if pid == 0 {
			if !left {
				return true
			}
			break
		}
		if pid == i.pid {
			i.pid, i.code, ended = 0, exitCode(status), true
			if !i.stopping {
				i.log("%s ended (%s)", i.command[0], describe(status))
			}
		}
	}
	switch {
	case ended && i.stopping:
		i.dismiss(syscall.SIGUSR1)
	case ended:
		i.later()
	}
	return false
}

// later plans another start of the command, the later the more of them ended soon.
func (i *initProcess) later() {
	if i.now().Sub(i.started) > longLife {
		i.deaths = 0
	}
	wait := min(firstWait<<min(i.deaths, 16), lastWait)
	i.deaths++
	i.log("other processes run on; starting %s again in %s", i.command[0], wait)
	i.again = time.After(wait)
}

// signal acts on a signal from outside.
func (i *initProcess) signal(got syscall.Signal) {
	if got != syscall.SIGTERM && got != syscall.SIGINT {
		i.send(got)
		return
	}
	second := i.stopping
	i.stopping, i.again = true, nil
	switch {
	case i.pid != 0 && got == syscall.SIGTERM:
		i.send(i.stopSignal)
	case i.pid != 0:
		i.send(got)
	case second:
		i.dismiss(syscall.SIGTERM)
	default:
		i.dismiss(syscall.SIGUSR1)
	}
}

func (i *initProcess) send(signal syscall.Signal) {
	if i.pid != 0 {
		_ = i.kill(i.pid, signal) // it may have ended: then it is about to be reaped
	}
}

// dismiss sends a signal to the processes that the command has left behind.
func (i *initProcess) dismiss(signal syscall.Signal) {
	for _, pid := range i.children() {
		_ = i.kill(pid, signal)
	}
}

// start starts the command in a process group of its own, so that what a terminal sends to
// the group of this process comes once, by it.
func start(command []string) (int, error) {
	path, err := exec.LookPath(command[0])
	if err != nil {
		return 0, err
	}
	process, err := os.StartProcess(path, command, &os.ProcAttr{
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		return 0, err
	}
	pid := process.Pid
	return pid, process.Release() // it is reaped with all others
}

// reap takes the status of one process that has ended; pid 0: none has. Left tells whether
// there are any others.
func reap() (pid int, status syscall.WaitStatus, left bool) {
	for {
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		switch err {
		case syscall.EINTR:
		case nil:
			return pid, status, true
		default:
			return 0, 0, false
		}
	}
}

// children are the pids of the children of this process.
func children() []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var list []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		text, _ := os.ReadFile("/proc/" + entry.Name() + "/stat")
		// The name, in parentheses, may hold anything; behind it come the state and the parent.
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if len(fields) > 1 && fields[1] == strconv.Itoa(os.Getpid()) {
			list = append(list, pid)
		}
	}
	return list
}

// exitCode is the code of a process, as shells have it.
func exitCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

func describe(status syscall.WaitStatus) string {
	if status.Signaled() {
		return status.Signal().String()
	}
	return "status " + strconv.Itoa(status.ExitStatus())
}
