package socket

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-proxy/sluice/pkg/haproxy/token"
)

// Counters are what went wrong between HAProxy and a backend, or one of its servers, since
// the worker was loaded.
type Counters struct {
	Backend          string
	Server           string // empty: all of the backend
	Retries          uint64 // attempts that were made again
	Redispatches     uint64 // of them, at another server
	ConnectionErrors uint64 // requests that found no server in the end
	ResponseErrors   uint64 // answers that were cut or made no sense
}

// Failures is the number of attempts that failed.
func (c Counters) Failures() uint64 { return c.Retries + c.Redispatches + c.ConnectionErrors }

// BackendCounters are those of all backends where anything went wrong. HAProxy writes some
// 300 bytes for each backend, so this is not to be asked all the time. It has a connection of
// its own, and asks whichever worker is there.
func (r *Runtime) BackendCounters(ctx context.Context) ([]Counters, error) {
	return r.counters(ctx, "show stat -1 2 -1")
}

// ServerCounters are those of the servers of a backend.
func (r *Runtime) ServerCounters(ctx context.Context, backend string) ([]Counters, error) {
	name, err := token.CLIWord(backend)
	if err != nil {
		return nil, err
	}
	return r.counters(ctx, "show stat "+name+" 4 -1")
}

func (r *Runtime) counters(ctx context.Context, command string) ([]Counters, error) {
	s, err := open(ctx, r.path, limits{line: r.options.MaxLine, payload: r.options.MaxPayload})
	if err != nil {
		return nil, err
	}
	defer s.close()
	answers, err := s.ask(request{line: command})
	if err != nil {
		return nil, err
	}
	return countersOf(command, answers[0])
}

// countersOf reads the CSV of "show stat" (management manual, 9.1). No name in it holds a
// comma, and nothing that may be quoted stands before the columns that are read.
func countersOf(command, answer string) ([]Counters, error) {
	unexpected := &UnexpectedAnswer{Command: command, Answer: quotable(answer)}
	head, rest, _ := strings.Cut(answer, "\n")
	columns := strings.Split(strings.TrimPrefix(head, "# "), ",")
	var at [6]int
	for i, name := range []string{"pxname", "svname", "wretr", "wredis", "econ", "eresp"} {
		if at[i] = slices.Index(columns, name); at[i] < 0 {
			return nil, unexpected
		}
	}
	last := slices.Max(at[:])
	var all []Counters
	for line := range strings.Lines(rest) {
		fields := strings.SplitN(line, ",", last+2)
		if len(fields) < last+2 {
			return nil, unexpected
		}
		number := func(i int) uint64 {
			n, _ := strconv.ParseUint(fields[at[i]], 10, 64) // empty where it does not apply
			return n
		}
		c := Counters{Backend: fields[at[0]], Server: fields[at[1]], Retries: number(2), Redispatches: number(3),
			ConnectionErrors: number(4), ResponseErrors: number(5)}
		if c.Server == "BACKEND" {
			c.Server = ""
		}
		if c.Failures()+c.ResponseErrors > 0 {
			all = append(all, c)
		}
	}
	return all, nil
}
