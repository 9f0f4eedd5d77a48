package kubelet

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// entry is one line of a container's output.
type entry struct {
	time time.Time
	line []byte // with its end
}

// log is what a container has printed, across restarts: in memory for readers, and in a
// file for people.
type log struct {
	name string

	mu      sync.Mutex
	entries []entry
	grown   chan struct{} // closed and replaced with each line
}

func newLog(name string) *log { return &log{name: name, grown: make(chan struct{})} }

// stream is a writer for one of the container's outputs.
func (l *log) stream(name string) io.Writer { return &stream{log: l, name: name} }

type stream struct {
	log  *log
	name string
	rest []byte // of a line that has not ended
}

func (s *stream) Write(p []byte) (int, error) {
	s.rest = append(s.rest, p...)
	for {
		end := bytes.IndexByte(s.rest, '\n')
		if end < 0 {
			return len(p), nil
		}
		s.log.add(s.name, bytes.Clone(s.rest[:end+1]))
		s.rest = s.rest[end+1:]
	}
}

func (l *log) add(stream string, line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.entries = append(l.entries, entry{now, line})
	close(l.grown)
	l.grown = make(chan struct{})
	l.file(now, stream, line)
}

// note writes what the kubelet stand-in has to say of the container to the file alone.
func (l *log) note(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.file(time.Now(), "kubelet", []byte(text+"\n"))
}

// file appends to the file; what can't be written is missing there and nowhere else.
func (l *log) file(now time.Time, stream string, line []byte) {
	f, err := os.OpenFile(l.name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	_, _ = fmt.Fprintf(f, "%s %s F %s", now.UTC().Format(time.RFC3339Nano), stream, line)
}

// from is what was printed since entry number n, and a channel that tells of more.
func (l *log) from(n int) ([]entry, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.entries[min(n, len(l.entries)):], l.grown
}
