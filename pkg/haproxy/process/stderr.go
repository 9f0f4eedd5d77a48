package process

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

const (
	stderrName = "haproxy.stderr"
	maxStderr  = 4 << 20                // bytes, above which the file is truncated once it is copied
	relayEvery = 250 * time.Millisecond // how often it is copied
)

func (s *Supervisor) stderrPath() string { return filepath.Join(s.config.RunDir, stderrName) }

// openStderr opens the file for a new master. It is truncated: what an earlier one wrote
// was copied.
func (s *Supervisor) openStderr() (*os.File, error) {
	f, err := os.OpenFile(s.stderrPath(), os.O_CREATE|os.O_TRUNC|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the file for haproxy's messages: %w (check --run-dir)", err)
	}
	return f, nil
}

// printed is what HAProxy has written to stderr.
func (s *Supervisor) printed() string {
	text, err := os.ReadFile(s.stderrPath())
	if err != nil {
		return ""
	}
	return string(text)
}

// relay copies the file to the configured writer until the master is gone. HAProxy writes
// at the end of the file wherever that is, so that it can be truncated under it; a message
// written in that instant is lost.
func (s *Supervisor) relay(gone <-chan struct{}, from int64) {
	f, err := os.OpenFile(s.stderrPath(), os.O_RDWR, 0)
	if err != nil {
		s.config.Log.Warn("haproxy's messages can't be read", "error", err)
		return
	}
	defer f.Close()
	tick := time.NewTicker(relayEvery)
	defer tick.Stop()
	for last := false; ; {
		n, err := io.Copy(s.config.Stderr, io.NewSectionReader(f, from, 1<<62))
		from += n
		if err == nil && from > maxStderr {
			if err = f.Truncate(0); err == nil {
				from = 0
			}
		}
		if err != nil {
			s.config.Log.Warn("haproxy's messages can't be copied", "error", err)
			return
		}
		if last {
			return
		}
		select {
		case <-gone:
			last = true
		case <-tick.C:
		}
	}
}
