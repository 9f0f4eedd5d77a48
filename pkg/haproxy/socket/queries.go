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

// Servers are the servers of one backend.
func (r *Runtime) Servers(ctx context.Context, backend string) ([]ServerState, error) {
	text, err := line("show servers state", backend)
	if err != nil {
		return nil, err
	}
	answer, err := r.query(ctx, text)
	if err != nil {
		return nil, err
	}
	unexpected := &UnexpectedAnswer{Command: text, Answer: quotable(answer)}
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

// Capabilities is what the binary behind the socket can do, found out by asking it.
type Capabilities struct {
	AddBackend bool   // "add backend" at run time (3.4)
	Version    string // for the log only; nothing is decided on it
	MaxPayload int    // bytes of one command's payload
	// ServerKeywords are those that "add server" takes, sorted.
	ServerKeywords []string
}

// Probe asks the binary what it can do and makes the Runtime use it: it sends a payload
// of 120 kB to "echo", which ignores it. 3.2 refuses it and closes the connection.
func (r *Runtime) Probe(ctx context.Context) (Capabilities, error) {
	s, err := r.open(ctx)
	if err != nil {
		return Capabilities{}, err
	}
	defer s.close()
	answers, err := s.ask(request{line: "show info"}, request{line: "help add backend"}, request{line: "add server help"})
	if err != nil {
		return Capabilities{}, err
	}
	c := Capabilities{
		Version:    field(answers[0], "Version"),
		AddBackend: strings.Contains(answers[1], "\n  add backend "),
		MaxPayload: r.options.MaxPayload,
	}
	if c.Version == "" {
		return Capabilities{}, &UnexpectedAnswer{Command: "show info", Answer: quotable(answers[0])}
	}
	for _, w := range strings.Fields(answers[2]) {
		if !strings.HasSuffix(w, ":") {
			c.ServerKeywords = append(c.ServerKeywords, w)
		}
	}
	slices.Sort(c.ServerKeywords)
	s.limits.payload = longPayload + 1000
	filler := strings.Repeat(strings.Repeat("-", 79)+"\n", longPayload/80)
	if _, err := s.ask(request{line: "echo probe", payload: filler}); err == nil {
		c.MaxPayload = max(c.MaxPayload, longPayload)
	} else if ctx.Err() != nil {
		return Capabilities{}, fmt.Errorf("probing the payload size: %w", err)
	}
	r.payload.Store(int64(c.MaxPayload))
	return c, nil
}
