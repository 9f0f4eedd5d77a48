package main

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const usage = "usage: sluice-init [--stop-signal SIGNAL] COMMAND [ARGUMENT...]"

// wrongCall is the exit code for a command line that makes no sense, and for a command that
// can't be started.
const wrongCall = 2

func main() {
	stop, command, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintf(os.Stderr, "sluice-init: %v\n%s\n", err, usage)
		os.Exit(wrongCall)
	}
	// Also where a pause container is pid 1 of the pod, or in a test.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		fmt.Fprintf(os.Stderr, "sluice-init: becoming the parent of orphans: %v\n", err)
		os.Exit(wrongCall)
	}
	signals := make(chan os.Signal, 32)
	signal.Notify(signals, syscall.SIGCHLD, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	i := &initProcess{
		command: command, stopSignal: stop, signals: signals, now: time.Now,
		start: start, kill: syscall.Kill, reap: reap, children: children,
		log: func(format string, a ...any) { fmt.Fprintf(os.Stderr, "sluice-init: "+format+"\n", a...) },
	}
	os.Exit(i.run())
}

// parse reads the command line.
func parse(args []string) (stop syscall.Signal, command []string, err error) {
	stop = syscall.SIGTERM
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		name, value, inline := strings.Cut(args[0], "=")
		args = args[1:]
		if name == "--" {
			break
		}
		if name != "--stop-signal" {
			return 0, nil, fmt.Errorf("unknown flag %s", name)
		}
		if !inline && len(args) > 0 {
			value, args = args[0], args[1:]
		}
		if stop = unix.SignalNum("SIG" + strings.TrimPrefix(strings.ToUpper(value), "SIG")); stop == 0 {
			return 0, nil, fmt.Errorf("--stop-signal=%s: write the name of a signal, such as USR1", value)
		}
	}
	if len(args) == 0 {
		return 0, nil, fmt.Errorf("there is no command")
	}
	return stop, args, nil
}
