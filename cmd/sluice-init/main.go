package main

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const usage = "usage: sluice-init [--stop-signal SIGNAL] [--haproxy-memory-limit BYTES] COMMAND [ARGUMENT...]"

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
	var more []string
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		name, value, inline := strings.Cut(args[0], "=")
		args = args[1:]
		if name == "--" {
			break
		}
		if !inline && len(args) > 0 {
			value, args = args[0], args[1:]
		}
		switch name {
		case "--stop-signal":
			if stop = unix.SignalNum("SIG" + strings.TrimPrefix(strings.ToUpper(value), "SIG")); stop == 0 {
				return 0, nil, fmt.Errorf("--stop-signal=%s: write the name of a signal, such as USR1", value)
			}
		case "--haproxy-memory-limit":
			if more, err = memoryOf(value); err != nil {
				return 0, nil, err
			}
		default:
			return 0, nil, fmt.Errorf("unknown flag %s", name)
		}
	}
	if len(args) == 0 {
		return 0, nil, fmt.Errorf("there is no command")
	}
	return stop, append(args, more...), nil
}

// memoryOf are the arguments that hold each process of HAProxy to half of a container's
// memory: there are two workers while a reload is in flight.
func memoryOf(text string) ([]string, error) {
	const processes, unit = 2, 1 << 20
	bytes, err := strconv.ParseUint(text, 10, 63)
	if err != nil || bytes < processes*unit {
		return nil, fmt.Errorf("--haproxy-memory-limit=%s: write a number of bytes, as the downward API gives it", text)
	}
	return []string{"-m", strconv.FormatUint(bytes/processes/unit, 10)}, nil
}
