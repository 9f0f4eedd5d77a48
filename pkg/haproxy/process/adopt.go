package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-proxy/sluice/pkg/haproxy/socket"
)

// Adopt finds a running master: the process that answers on the master's socket, or, if
// none does, that of the PID file; provided that it is our binary with our command line.
func (s *Supervisor) Adopt(ctx context.Context) (pid int, ok bool) {
	for _, pid := range s.candidates(ctx) {
		// The pidfd comes before the look at /proc, so that both mean the same process.
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			fd = -1
		}
		process, err := os.FindProcess(pid)
		if err != nil || !s.ours(pid) {
			if fd >= 0 {
				unix.Close(fd)
			}
			continue
		}
		m := &master{pid: pid, process: process, gone: make(chan struct{}), exited: make(chan error, 1)}
		go m.end(func() error { return waitForeign(pid, fd) })
		size := int64(0)
		if info, err := os.Stat(s.stderrPath()); err == nil {
			size = info.Size()
		}
		s.watch(m, size)
		s.config.Log.Info("haproxy adopted", "pid", pid)
		return pid, true
	}
	return 0, false
}

// answerWithin bounds how long a master may take to answer before the PID file counts.
const answerWithin = 3 * time.Second

// candidates are process ids that may be the master's.
func (s *Supervisor) candidates(ctx context.Context) []int {
	var pids []int
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	if processes, err := socket.NewMaster(s.config.MasterSocket).Processes(ctx); err == nil {
		for _, p := range processes {
			if p.Type == "master" {
				pids = append(pids, p.PID)
			}
		}
	}
	if text, err := os.ReadFile(s.config.PIDFile); err == nil {
		if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && pid > 1 && !slices.Contains(pids, pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// ours tells whether a process runs our binary with our arguments. A master that was
// re-executed for a reload has others in front: -sf 19379 -x sockpair@3.
func (s *Supervisor) ours(pid int) bool {
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return false
	}
	binary, err := filepath.EvalSymlinks(s.config.Binary)
	if err != nil || strings.TrimSuffix(exe, " (deleted)") != binary {
		return false
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return false
	}
	args := strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
	if n := len(args); n > 2 && args[n-2] == memoryFlag {
		args = args[:n-2]
	}
	want := s.arguments()
	return len(args) > len(want) && slices.Equal(args[len(args)-len(want):], want)
}

// lookEvery is the interval at which a process is looked at that has no pidfd.
const lookEvery = 200 * time.Millisecond

// waitForeign waits for the end of a process that is no child, through its pidfd, or by
// looking at it where there is none (fd below 0).
func waitForeign(pid, fd int) error {
	gone := fmt.Errorf("haproxy, process %d, ended", pid)
	if fd >= 0 {
		defer unix.Close(fd)
		for {
			_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
			if err == nil {
				return gone
			}
			if !errors.Is(err, unix.EINTR) {
				break
			}
		}
	}
	began := startTime(pid)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) || began == "" || startTime(pid) != began {
			return gone
		}
		<-tick.C
	}
}

// stat is a field of /proc/<pid>/stat, counted as in proc(5); empty if the process is
// gone or is a zombie.
func stat(pid, field int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The second field is the name in parentheses and may hold anything.
	rest := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(rest) < field-2 || rest[0] == "Z" {
		return ""
	}
	return rest[field-3]
}

// startTime tells processes of one pid apart.
func startTime(pid int) string { return stat(pid, 22) }

// parent is the parent's pid; 0 if there is none.
func parent(pid int) int {
	n, err := strconv.Atoi(stat(pid, 4))
	if err != nil {
		return 0
	}
	return n
}
