package socket

import (
	"context"
	"fmt"
	"slices"
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

// Backends are the names of all backends, in HAProxy's order.
func (r *Runtime) Backends(ctx context.Context) ([]string, error) {
	answer, err := r.query(ctx, "show backend")
	if err != nil {
		return nil, err
	}
	head, rest, _ := strings.Cut(answer, "\n")
	if head != "# name" {
		return nil, &UnexpectedAnswer{Command: "show backend", Answer: quotable(answer)}
	}
	return strings.Fields(rest), nil
}

// ServerState is a server as the worker holds it.
type ServerState struct {
	Name    string
	Address string // IP address; empty where none is known
	Port    int
	Ready   bool // neither of the two
	Drain   bool // "set server state drain"
	Maint   bool // "set server state maint", or "disabled" in the file
	Up      bool // operational state
	Weight  int  // as the user set it
}

// Columns of "show servers state" and bits of srv_admin_state, management manual 9.3.
const (
	adminForcedMaint     = 0x01
	adminInheritedMaint  = 0x02
	adminConfiguredMaint = 0x04
	adminForcedDrain     = 0x08
	adminInheritedDrain  = 0x10
	operationalUp        = 2
)

// serversOf reads the answer to a command "show servers state".
func serversOf(command, answer string) ([]ServerState, error) {
	unexpected := &UnexpectedAnswer{Command: command, Answer: quotable(answer)}
	lines := strings.Split(answer, "\n")
	if len(lines) < 2 || lines[0] != "1" || !strings.HasPrefix(lines[1], "# ") {
		return nil, unexpected
	}
	columns := strings.Fields(lines[1])[1:]
	servers := make([]ServerState, 0, len(lines)-2)
	for _, l := range lines[2:] {
		words := strings.Fields(l)
		if len(words) < len(columns) {
			return nil, unexpected
		}
		servers = append(servers, serverState(func(column string) string { return words[slices.Index(columns, column)] }))
	}
	return servers, nil
}

// serverState reads one line; a column that is no number counts as 0.
func serverState(column func(string) string) ServerState {
	number := func(name string) int {
		n, err := strconv.Atoi(column(name))
		if err != nil {
			return 0
		}
		return n
	}
	admin := number("srv_admin_state")
	s := ServerState{
		Name:    column("srv_name"),
		Address: strings.TrimPrefix(column("srv_addr"), "-"),
		Port:    number("srv_port"),
		Drain:   admin&(adminForcedDrain|adminInheritedDrain) != 0,
		Maint:   admin&(adminForcedMaint|adminInheritedMaint|adminConfiguredMaint) != 0,
		Up:      number("srv_op_state") == operationalUp,
		Weight:  number("srv_uweight"),
	}
	s.Ready = !s.Drain && !s.Maint
	return s
}

// Abilities are what a binary is able to do at run time, which differs between versions.
type Abilities struct {
	Backends bool // "add backend"
}

// Probe asks the binary behind the socket what it is able to do, and how long a payload may
// be, which the Runtime then uses: it sends one of 120 kB to "echo", which ignores it. 3.2
// refuses it and closes the connection. With an error the answers are what all versions take.
func (r *Runtime) Probe(ctx context.Context) (Abilities, error) {
	r.payload.Store(int64(r.options.MaxPayload))
	var a Abilities
	answer, err := r.query(ctx, "add backend")
	if err != nil {
		return a, err
	}
	a.Backends = answer == "Require backend name."
	if r.options.MaxPayload >= longPayload {
		return a, nil
	}
	s, err := r.open(ctx)
	if err != nil {
		return a, err
	}
	defer s.close()
	s.limits.payload = longPayload + 1000
	filler := strings.Repeat(strings.Repeat("-", 79)+"\n", longPayload/80)
	switch _, err := s.ask(request{line: "echo probe", payload: filler}); {
	case err == nil:
		r.payload.Store(longPayload)
	case ctx.Err() != nil:
		return a, fmt.Errorf("probing the payload size: %w", err)
	}
	return a, nil
}
