package socket

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// query sends one command that only reads.
func (r *Runtime) query(ctx context.Context, text string) (string, error) {
	s, err := r.open(ctx)
	if err != nil {
		return "", err
	}
	defer s.close()
	answers, err := s.ask(request{line: text})
	if err != nil {
		return "", err
	}
	return answers[0], nil
}

// PID is the process id of the worker behind the socket, whichever that is.
func (r *Runtime) PID(ctx context.Context) (int, error) {
	s, err := open(ctx, r.path, limits{line: r.options.MaxLine, payload: r.options.MaxPayload})
	if err != nil {
		return 0, err
	}
	defer s.close()
	return s.pid()
}

func (s *session) pid() (int, error) {
	answers, err := s.ask(request{line: "show info"})
	if err != nil {
		return 0, err
	}
	pid, err := strconv.Atoi(field(answers[0], "Pid"))
	if err != nil {
		return 0, &UnexpectedAnswer{Command: "show info", Answer: quotable(answers[0])}
	}
	return pid, nil
}

// field is the value of a line "name: value".
func field(text, name string) string {
	for l := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(l, name+": "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Probe asks the binary behind the socket how long a payload may be and makes the Runtime
// use that: it sends one of 120 kB to "echo", which ignores it. 3.2 refuses it and closes
// the connection. With an error the length is what all versions take.
func (r *Runtime) Probe(ctx context.Context) error {
	r.payload.Store(int64(r.options.MaxPayload))
	if r.options.MaxPayload >= longPayload {
		return nil
	}
	s, err := r.open(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	s.limits.payload = longPayload + 1000
	filler := strings.Repeat(strings.Repeat("-", 79)+"\n", longPayload/80)
	switch _, err := s.ask(request{line: "echo probe", payload: filler}); {
	case err == nil:
		r.payload.Store(longPayload)
	case ctx.Err() != nil:
		return fmt.Errorf("probing the payload size: %w", err)
	}
	return nil
}
