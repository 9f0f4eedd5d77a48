package socket

import (
	"bufio"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// fake is a stats socket that answers what its function says, framed as HAProxy does.
type fake struct {
	path string
	mu   sync.Mutex
	got  []command
}

type command struct{ line, payload string }

// errHang and errClose make the fake stop answering.
var (
	errHang  = errors.New("hang")
	errClose = errors.New("close")
)

// folder is a temporary folder whose path is short enough for a unix socket.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func newFake(t *testing.T, answer func(command) (string, error)) *fake {
	t.Helper()
	f := &fake{path: filepath.Join(folder(t), "s")}
	l, err := net.Listen("unix", f.path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { conn.Close() })
			go f.serve(conn, answer)
		}
	}()
	return f
}

func (f *fake) serve(conn net.Conn, answer func(command) (string, error)) {
	r := bufio.NewReader(conn)
	for {
		text, err := r.ReadString('\n')
		if err != nil {
			return
		}
		text = strings.TrimSuffix(text, "\n")
		payload := ""
		if head, end, found := strings.Cut(text, " <<"); found {
			text = head
			for {
				l, err := r.ReadString('\n')
				if err != nil {
					return
				}
				if l == end+"\n" {
					break
				}
				payload += l
			}
		}
		for _, one := range strings.Split(text, ";") {
			reply, err := f.reply(command{one, payload}, answer)
			if err != nil {
				_, _ = conn.Write([]byte(reply))
			}
			if errors.Is(err, errClose) {
				conn.Close()
				return
			}
			if errors.Is(err, errHang) {
				return
			}
			if _, err := conn.Write([]byte(reply + "\n")); err != nil {
				return
			}
		}
	}
}

func (f *fake) reply(c command, answer func(command) (string, error)) (string, error) {
	if text, ok := strings.CutPrefix(c.line, "echo "); ok {
		return "[6]: " + text + "\n", nil
	}
	if c.line == "set severity-output number" || c.line == "prompt i" {
		return "", nil
	}
	f.mu.Lock()
	f.got = append(f.got, c)
	f.mu.Unlock()
	text, err := answer(c)
	if text != "" {
		text += "\n"
	}
	return text, err
}

func (f *fake) commands() []command {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]command(nil), f.got...)
}

func deadline(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
