package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/tests/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// pid1 is a running sluice-init whose command is a script. The script finds a folder of its
// own in $DIR.
type pid1 struct {
	t   *testing.T
	dir string
	cmd *exec.Cmd
	out bytes.Buffer
}

func run(t *testing.T, script string, flags ...string) *pid1 {
	t.Helper()
	p := &pid1{t: t, dir: t.TempDir()}
	p.cmd = exec.Command(harness.Program(t, "sluice-init"), append(flags, "sh", "-c", script)...)
	p.cmd.Env = append(os.Environ(), "DIR="+p.dir)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	p.cmd.WaitDelay = time.Second
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	return p
}

// wrote waits until the script has written a line to a file.
func (p *pid1) wrote(file, line string) {
	p.t.Helper()
	harness.Eventually(p.t, file+" holds "+line, func() error {
		text, err := os.ReadFile(filepath.Join(p.dir, file))
		if err == nil && !strings.Contains("\n"+string(text), "\n"+line+"\n") {
			err = fmt.Errorf("%q", text)
		}
		return err
	})
}

func (p *pid1) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// ends waits for the end of sluice-init, which leaves nobody behind.
func (p *pid1) ends(code int) {
	p.t.Helper()
	timer := time.AfterFunc(harness.Patience, func() { _ = p.cmd.Process.Kill() })
	defer timer.Stop()
	_ = p.cmd.Wait()
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		p.t.Errorf("exit code %d, want %d\n%s", got, code, &p.out)
	}
	text, _ := os.ReadFile(filepath.Join(p.dir, "orphans"))
	for _, word := range strings.Fields(string(text)) {
		if pid, err := strconv.Atoi(word); err == nil && !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			p.t.Errorf("process %d runs on", pid)
		}
	}
}

// orphan is a process in a session of its own, as HAProxy is, that finishes its work when it
// is told to by USR1.
const orphan = `setsid sh -c 'trap "echo finished >>$DIR/log; exit" USR1; echo $$ >>$DIR/orphans; while :; do sleep 0.01; done' & until [ -s $DIR/orphans ]; do sleep 0.01; done; `

func TestExitCodes(t *testing.T) {
	for script, code := range map[string]int{"exit 0": 0, "exit 3": 3, "kill -9 $$": 128 + 9} {
		run(t, script).ends(code)
	}
}

func TestWrongCalls(t *testing.T) {
	for _, args := range [][]string{{}, {"--frobnicate", "sh"}, {"--stop-signal", "NONE", "sh"}, {"--stop-signal"}, {"--stop-signal=USR1"}, {"--haproxy-memory-limit=512Mi", "sh"}, {"--haproxy-memory-limit=1024", "sh"}, {"--haproxy-memory-limit"}, {"/no/such/program"}, {"--"}} {
		if ran := harness.Run(t, "", "sluice-init", args...); ran.Code != wrongCall || ran.Err == "" {
			t.Errorf("%q: %+v", args, ran)
		}
	}
}

// The command is killed and leaves a process behind: it is started again, over and over, and
// ends with a signal.
func TestCommandIsStartedAgain(t *testing.T) {
	p := run(t, `echo start >>$DIR/log; case $(grep -c start $DIR/log) in
		1) `+orphan+` kill -9 $$;;
		2) exit 1;;
		*) trap 'echo stopped >>$DIR/log; exit 7' TERM; echo third >>$DIR/log; while :; do sleep 0.01; done;;
	esac`)
	p.wrote("log", "third")
	p.signal(syscall.SIGTERM)
	p.ends(7)
	p.wrote("log", "stopped")
	p.wrote("log", "finished")
}

// The signal comes while the command waits to be started again.
func TestStopWhileTheCommandIsDown(t *testing.T) {
	p := run(t, `trap 'exit 5' TERM; echo start >>$DIR/log; [ $(grep -c start $DIR/log) -gt 1 ] || { `+orphan+` }; [ $(grep -c start $DIR/log) -lt 4 ] || echo down >>$DIR/log; exit 5`)
	p.wrote("log", "down") // the next start is 800 ms away
	p.signal(syscall.SIGTERM)
	p.ends(5)
	p.wrote("log", "finished")
}

// What is left and does not finish is ended by a second signal.
func TestSecondStop(t *testing.T) {
	p := run(t, `setsid sh -c 'trap "echo asked >>$DIR/log" USR1; echo $$ >>$DIR/orphans; while :; do sleep 0.01; done' & until [ -s $DIR/orphans ]; do sleep 0.01; done; exec sleep 1000`)
	p.wrote("orphans", firstLine(t, p))
	p.signal(syscall.SIGTERM)
	p.wrote("log", "asked")
	p.signal(syscall.SIGTERM)
	p.ends(128 + 15)
}

func firstLine(t *testing.T, p *pid1) string {
	t.Helper()
	var line string
	harness.Eventually(t, "the orphan runs", func() error {
		text, err := os.ReadFile(filepath.Join(p.dir, "orphans"))
		line, _, _ = strings.Cut(string(text), "\n")
		if err == nil && line == "" {
			err = errors.New("empty")
		}
		return err
	})
	return line
}

func TestSignals(t *testing.T) {
	const script = `trap 'echo hup >>$DIR/log' HUP; trap 'echo usr1 >>$DIR/log; exit 6' USR1; trap 'echo int >>$DIR/log; exit 8' INT; echo ready >>$DIR/log; while :; do sleep 0.01; done`
	p := run(t, script, "--stop-signal", "USR1")
	p.wrote("log", "ready")
	p.signal(syscall.SIGHUP)
	p.wrote("log", "hup")
	p.signal(syscall.SIGTERM)
	p.ends(6)

	p = run(t, script, "--stop-signal=sigusr1", "--")
	p.wrote("log", "ready")
	p.signal(syscall.SIGINT)
	p.ends(8)
}

// HAProxy gets half of the memory, in its own unit.
func TestMemory(t *testing.T) {
	p := run(t, `echo $0 $1 >$DIR/arguments`, "--haproxy-memory-limit", strconv.Itoa(1<<30))
	p.ends(0)
	p.wrote("arguments", "-m 512")
}

// Orphans that end are reaped while the command runs.
func TestOrphansAreReaped(t *testing.T) {
	p := run(t, `for i in 1 2 3 4 5; do sh -c 'sleep 0.01 & echo $! >>$DIR/orphans'; done; echo ready >>$DIR/log; exec sleep 1000`)
	p.wrote("log", "ready")
	text, err := os.ReadFile(filepath.Join(p.dir, "orphans"))
	if err != nil || len(strings.Fields(string(text))) != 5 {
		t.Fatalf("%q, %v", text, err)
	}
	harness.Eventually(t, "all are reaped", func() error {
		for _, word := range strings.Fields(string(text)) {
			if _, err := os.Stat("/proc/" + word); err == nil {
				return fmt.Errorf("process %s is still there", word)
			}
		}
		return nil
	})
	p.signal(syscall.SIGTERM)
	p.ends(128 + 15)
}

func TestWaitsGrow(t *testing.T) {
	now := time.Unix(0, 0)
	i := &initProcess{command: []string{"x"}, now: func() time.Time { return now }, log: func(string, ...any) {}}
	var waits []time.Duration
	i.log = func(_ string, args ...any) { waits = append(waits, args[1].(time.Duration)) }
	for range 12 {
		i.started = now
		i.later()
	}
	now = now.Add(longLife + time.Second)
	i.later()
	if waits[0] != firstWait || waits[1] != 2*firstWait || waits[11] != lastWait || waits[12] != firstWait {
		t.Errorf("waits %v", waits)
	}
}
