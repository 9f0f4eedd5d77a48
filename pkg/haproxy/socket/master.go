package socket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/haproxytech/client-native/v6/runtime"
	"github.com/haproxytech/client-native/v6/runtime/options"
)

// Master speaks to the master's socket: it reloads and lists processes, nothing else.
type Master struct{ path string }

// NewMaster is a Master for the unix socket at path. It does not connect yet.
func NewMaster(path string) *Master { return &Master{path} }

// Reload asks for a reload and waits for its end, or that of ctx. It returns the
// start-up logs. The error is *Refused where HAProxy keeps the old configuration; any
// other error leaves open whether the reload took place: ask Processes.
func (m *Master) Reload(ctx context.Context) (string, error) {
	before, err := m.Processes(ctx)
	if err != nil {
		return "", err
	}
	if !m.workerAnswers(ctx) {
		return m.reload(ctx)
	}
	logs, err := m.native(ctx)
	switch {
	case err == nil:
		return logs, nil
	case ctx.Err() != nil:
		return "", fmt.Errorf("haproxy did not finish the reload in time: %w", ctx.Err())
	case strings.HasPrefix(err.Error(), "failed to reload"):
		return logs, &Refused{Logs: logs}
	case strings.HasPrefix(err.Error(), "cannot reload"):
		return m.reload(ctx) // nothing was sent: the worker went away before it said its version
	}
	return m.settle(ctx, before)
}

// firstAnswer bounds the wait for a worker that is only asked whether it answers.
const firstAnswer = 250 * time.Millisecond

// workerAnswers tells whether there is a worker that says its version, which client-native
// asks for before it reloads. While the first worker loads, and after a refused reload, there
// is none: the master says "Can't find the target PID" then and leaves the connection
// open, which client-native would read for 30 seconds.
func (m *Master) workerAnswers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, firstAnswer)
	defer cancel()
	answer, err := m.ask(ctx, "@1 show version")
	return err == nil && !strings.Contains(answer, "Can't find")
}

// native reloads through client-native. It knows no context and gives up after 30
// seconds of its own, so it runs aside and is left behind when ctx ends.
func (m *Master) native(ctx context.Context) (string, error) {
	type outcome struct {
		logs string
		err  error
	}
	finished := make(chan outcome, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				finished <- outcome{err: fmt.Errorf("client-native panicked: %v", p)}
			}
		}()
		client, err := runtime.New(ctx, options.MasterSocket(m.path), options.DoNotCheckRuntimeOnInit)
		if err != nil {
			finished <- outcome{err: fmt.Errorf("cannot reload: %w", err)}
			return
		}
		logs, err := client.Reload()
		finished <- outcome{logs, err}
	}()
	select {
	case o := <-finished:
		return o.logs, o.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// reload is the same command sent by ourselves.
func (m *Master) reload(ctx context.Context) (string, error) {
	answer, err := m.ask(ctx, "reload")
	if err != nil {
		return "", err
	}
	status, logs, _ := strings.Cut(answer, "\n")
	logs = strings.TrimSpace(strings.TrimPrefix(logs, "--\n"))
	switch status {
	case "Success=1":
		return logs, nil
	case "Success=0":
		return logs, &Refused{Logs: logs}
	}
	return "", &UnexpectedAnswer{Command: "reload", Answer: quotable(answer)}
}

// settle finds out how a reload ended whose answer was lost or came too late. A new
// worker is listed as the current one from the moment it begins to load, so the logs
// have to say that it is ready; where it failed, there is no current worker.
func (m *Master) settle(ctx context.Context, before []Process) (string, error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		now, err := m.Processes(ctx)
		logs := ""
		if err == nil {
			logs, err = m.startupLogs(ctx)
		}
		if err == nil {
			switch ended(before, now, logs) {
			case reloaded:
				return logs, nil
			case refused:
				return logs, &Refused{Logs: logs}
			}
		}
		if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("haproxy's master went away during the reload: %w", err)
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("haproxy did not finish the reload in time: %w", ctx.Err())
		case <-tick.C:
		}
	}
}

type ending uint8

const (
	running ending = iota
	reloaded
	refused
)

// ended compares the processes before a reload with those now.
func ended(before, now []Process, logs string) ending {
	if !(reloads(now) > reloads(before)) {
		return running
	}
	at := slices.IndexFunc(now, func(p Process) bool { return p.Type == "worker" && !p.Old })
	if at < 0 {
		return refused
	}
	worker := now[at].PID
	if slices.ContainsFunc(before, func(p Process) bool { return p.PID == worker }) {
		return running
	}
	_, since, found := strings.Cut(logs, fmt.Sprintf("Initializing new worker (%d)", worker))
	if found && strings.Contains(since, "Loading success.") {
		return reloaded
	}
	return running
}

// reloads is what the master counts.
func reloads(processes []Process) int {
	for _, p := range processes {
		if p.Type == "master" {
			return p.Reloads
		}
	}
	return 0
}

// Process is one line of "show proc".
type Process struct {
	PID     int
	Type    string // master, worker or program
	Old     bool   // a worker of an earlier configuration
	Reloads int    // master: reloads so far; worker: reloads that it has outlived
}

// Processes lists the master, the current worker and the old workers.
func (m *Master) Processes(ctx context.Context) ([]Process, error) {
	answer, err := m.ask(ctx, "show proc")
	if err != nil {
		return nil, err
	}
	processes := parseProcesses(answer)
	if len(processes) == 0 {
		return nil, &UnexpectedAnswer{Command: "show proc", Answer: quotable(answer)}
	}
	return processes, nil
}

// parseProcesses reads
//
//	#<PID>          <type>          <reloads>       <uptime>        <version>
//	19140           master          2 [failed: 1]   0d00h00m08s     3.2.26-1
//	# workers
//	# old workers
//	19333           worker          1               0d00h00m01s     3.2.26-1
func parseProcesses(text string) []Process {
	var list []Process
	section := ""
	for l := range strings.Lines(text) {
		l = strings.TrimSpace(l)
		if name, ok := strings.CutPrefix(l, "# "); ok {
			section = name
			continue
		}
		words := strings.Fields(l)
		if len(words) < 5 {
			continue
		}
		pid, err := strconv.Atoi(words[0])
		if err != nil {
			continue
		}
		p := Process{
			PID: pid, Type: words[1],
			Old: strings.HasPrefix(section, "old"),
		}
		if n, err := strconv.Atoi(words[2]); err == nil {
			p.Reloads = n
		}
		list = append(list, p)
	}
	return list
}

// startupLogs are the messages of the last load.
func (m *Master) startupLogs(ctx context.Context) (string, error) {
	return m.ask(ctx, "show startup-logs")
}

// ask sends one command to the master itself and reads until it closes the connection.
func (m *Master) ask(ctx context.Context, command string) (string, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", m.path)
	if err != nil {
		return "", fmt.Errorf("the master socket can't be reached: %w", failure(ctx, err))
	}
	defer conn.Close()
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(defaultTimeout)
	}
	if err := conn.SetDeadline(deadline); err != nil {
		return "", fmt.Errorf("setting a deadline on %s: %w", m.path, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := io.WriteString(conn, command+";quit\n"); err != nil {
		return "", fmt.Errorf("sending %q to the master: %w", command, failure(ctx, err))
	}
	text, err := io.ReadAll(conn)
	if err != nil {
		var timeout net.Error
		if ctx.Err() == nil && errors.As(err, &timeout) && timeout.Timeout() {
			err = context.DeadlineExceeded
		}
		return "", fmt.Errorf("haproxy's master did not answer %q: %w", command, failure(ctx, err))
	}
	return strings.TrimSpace(string(text)), nil
}
