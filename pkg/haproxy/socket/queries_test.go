package socket

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

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

// MapCount is the number of entries of maps/<name>.map.
func (r *Runtime) MapCount(ctx context.Context, name string) (int, error) {
	answer, err := r.query(ctx, "show map")
	if err != nil {
		return 0, err
	}
	for l := range strings.Lines(answer) {
		// 7 (maps/x.map) pattern loaded from file ... curr_ver=0 next_ver=0 entry_cnt=1
		if !strings.Contains(l, " ("+mapPath(name)+") ") {
			continue
		}
		_, count, _ := strings.Cut(l, " entry_cnt=")
		if n, err := strconv.Atoi(strings.TrimSpace(count)); err == nil {
			return n, nil
		}
	}
	return 0, &UnexpectedAnswer{Command: "show map", Answer: fmt.Sprintf("no entry count of %s", mapPath(name))}
}
