package socket

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// defaultTimeout bounds a call whose context has no deadline.
const defaultTimeout = 30 * time.Second

// session is one connection to a worker, in interactive mode without prompt, with
// severities switched on. Each command is followed by "echo" with a number, so that an
// answer ends where its number stands, however many lines it has:
//
//	set server b/a:80 state ready;echo ~1~;add map maps/x.map k v;echo ~2~
//
// It also keeps "<<" at the end of a value from its meaning, since only the last word of
// a line can start a payload. A worker never prints user text at the start of a line, so
// the numbers can't be forged.
type session struct {
	conn    net.Conn
	first   string // what goes before the first command
	read    *bufio.Reader
	stop    func() bool // ends the watch on ctx
	ctx     context.Context
	number  int // of the last echo
	limits  limits
	secret  string                // what was sent as a payload: it may be quoted in answers
	crt     map[string][]crtEntry // lines of crtList; nil: not read yet
	waiting time.Duration         // what is left for waits on busy servers
}

// limits are the bounds of one command line and of one payload with its line, in bytes.
type limits struct{ line, payload int }

func (l limits) check(r request) error {
	what, _, _ := strings.Cut(r.line, "\n")
	if len(what) > maxShown {
		what = what[:maxShown] + "..."
	}
	switch size := len(r.line) + len(r.payload) + 2*len(terminator) + len(" <<\n\n"); {
	case r.payload != "" && size > l.payload:
		return &TooLarge{What: what, Size: size, Limit: l.payload}
	case len(r.line)+len(";\n")+len(echo(1<<30)) > l.line:
		return &TooLarge{What: what, Size: len(r.line), Limit: l.line}
	}
	return nil
}

// maxShown bounds how much of a command an error shows, in bytes.
const maxShown = 120

// open connects. The connection ends with ctx, or after defaultTimeout.
func open(ctx context.Context, path string, l limits) (*session, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("the runtime socket can't be reached: %w", failure(ctx, err))
	}
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(defaultTimeout)
	}
	if err := conn.SetDeadline(deadline); err != nil {
		conn.Close()
		return nil, fmt.Errorf("setting a deadline on %s: %w", path, err)
	}
	s := &session{conn: conn, read: bufio.NewReader(conn), ctx: ctx, limits: l, waiting: maxWait}
	s.first = "set severity-output number;prompt i\n"
	s.stop = context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	return s, nil
}

func (s *session) close() {
	s.stop()
	s.conn.Close()
}

// request is one CLI command, perhaps with a payload.
type request struct {
	line    string
	payload string // ends with a line feed; empty: none
	secret  bool   // the payload holds a private key
}

// ask sends the requests in order and returns their answers, without severity prefix. On
// an error the answers that arrived before it are returned.
func (s *session) ask(requests ...request) ([]string, error) {
	for _, r := range requests {
		if err := s.limits.check(r); err != nil {
			return nil, err
		}
	}
	got := make([]string, 0, len(requests))
	for len(requests) > 0 {
		text, n := s.pack(requests)
		if requests[0].secret {
			s.secret += requests[0].payload
		}
		if _, err := io.WriteString(s.conn, s.first+text); err != nil {
			return got, s.broken(err)
		}
		s.first = ""
		for i := range n {
			answer, err := s.answer(s.number - n + 1 + i)
			if err != nil {
				return got, s.broken(err)
			}
			got = append(got, redact(answer, s.secret))
		}
		requests = requests[n:]
	}
	return got, nil
}

// pack spells as many requests as fit one line, at least one, and tells how many. One
// with a payload goes alone, since a payload belongs to the whole line.
func (s *session) pack(requests []request) (string, int) {
	if r := requests[0]; r.payload != "" {
		s.number++
		return r.line + " <<" + terminator + "\n" + r.payload + terminator + "\n" + echo(s.number) + "\n", 1
	}
	var b strings.Builder
	n := 0
	for _, r := range requests {
		mark := echo(s.number + 1)
		if r.payload != "" || n > 0 && b.Len()+len(r.line)+len(mark)+3 > s.limits.line {
			break
		}
		if n > 0 {
			b.WriteByte(';')
		}
		b.WriteString(r.line + ";" + mark)
		s.number++
		n++
	}
	b.WriteByte('\n')
	return b.String(), n
}

func echo(number int) string { return "echo " + mark(number) }

func mark(number int) string { return "~" + strconv.Itoa(number) + "~" }

// answer reads up to the echo of the given number.
func (s *session) answer(number int) (string, error) {
	var b strings.Builder
	for {
		l, err := s.read.ReadString('\n')
		if err != nil {
			return "", errors.Join(err, partial(b.String()+l))
		}
		if severity(strings.TrimSuffix(l, "\n")) == mark(number) {
			return strings.TrimRight(severity(strings.TrimLeft(b.String(), "\n")), "\n"), nil
		}
		b.WriteString(l)
	}
}

// eachLine asks one thing and hands its answer on line by line, without line feeds: for
// answers that are large. A line is only valid during the call.
func (s *session) eachLine(command string, do func(line []byte) error) error {
	text, _ := s.pack([]request{{line: command}})
	if _, err := s.conn.Write([]byte(s.first + text)); err != nil {
		return s.broken(err)
	}
	s.first = ""
	end := mark(s.number)
	for begun := false; ; {
		line, err := s.read.ReadSlice('\n')
		if err != nil {
			return s.broken(errors.Join(err, partial(string(line))))
		}
		line = bytes.TrimSuffix(line, []byte("\n"))
		if !begun || bytes.HasSuffix(line, []byte(end)) {
			line = []byte(severity(string(line)))
		}
		if string(line) == end {
			return nil
		}
		begun = begun || len(line) > 0
		if err := do(line); err != nil {
			return err
		}
	}
}

// partial is what arrived before a connection broke: it often holds the reason.
func partial(text string) error {
	if text = strings.TrimSpace(text); text == "" {
		return nil
	}
	return &cut{text}
}

type cut struct{ text string }

func (e *cut) Error() string { return e.text }

// broken is the error of a connection that failed, without key bytes.
func (s *session) broken(err error) error {
	said := ""
	var c *cut
	if errors.As(err, &c) {
		said = "; it said: " + quotable(redact(c.text, s.secret))
	}
	switch {
	case s.ctx.Err() != nil:
		return fmt.Errorf("haproxy did not answer on the runtime socket in time%s: %w", said, s.ctx.Err())
	case errors.Is(err, io.EOF):
		return fmt.Errorf("haproxy closed the runtime connection before it answered%s: %w", said, io.ErrUnexpectedEOF)
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return fmt.Errorf("haproxy did not answer on the runtime socket in time%s: %w", said, context.DeadlineExceeded)
	}
	var op *net.OpError
	if errors.As(err, &op) {
		err = op
	}
	return fmt.Errorf("the runtime connection to haproxy broke%s: %w", said, err)
}

// failure prefers the context's error, which tells the cause.
func failure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// call is one request whose answer is looked up in the table of answers.
type call struct {
	verb string // of the table
	request
}

// judge looks an answer up; the error is an *UnexpectedAnswer.
func (c call) judge(answer string) (meaning, error) {
	m := meaningOf(c.verb, answer)
	if m == unknown {
		return m, &UnexpectedAnswer{Command: c.line, Answer: quotable(answer)}
	}
	return m, nil
}

// expect sends the calls and returns what the answers mean. The error is the
// *UnexpectedAnswer of the first one that is not in the table, or that of the connection.
func (s *session) expect(calls ...call) ([]meaning, error) {
	requests := make([]request, len(calls))
	for i, c := range calls {
		requests[i] = c.request
	}
	answers, err := s.ask(requests...)
	if err != nil {
		return nil, err
	}
	meanings := make([]meaning, len(answers))
	for i, text := range answers {
		m, unexpected := calls[i].judge(text)
		if meanings[i] = m; unexpected != nil && err == nil {
			err = unexpected
		}
	}
	return meanings, err
}
