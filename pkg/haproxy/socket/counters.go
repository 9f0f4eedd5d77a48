package socket

import (
	"bytes"
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
	table := counterTable{command: command}
	if err := s.eachLine(command, table.read); err != nil {
		return nil, err
	}
	return table.found, table.complete()
}

// counterTable reads the CSV of "show stat" (management manual, 9.1) line by line. No name
// in it holds a comma, and nothing that may be quoted stands before the columns that are
// read. Most lines are of backends where nothing went wrong: they cost no memory.
type counterTable struct {
	command string
	columns []int // where those of counterColumns are; nil: the head was not read yet
	found   []Counters
}

func counterColumns() []string {
	return []string{"pxname", "svname", "wretr", "wredis", "econ", "eresp"}
}

func (t *counterTable) read(line []byte) error {
	switch {
	case len(line) == 0:
		return nil
	case t.columns == nil:
		return t.readHead(string(line))
	}
	var fields [6][]byte
	rest, read := line, 0
	for column := 0; read < len(fields); column++ {
		field, after, more := bytes.Cut(rest, []byte(","))
		if !more {
			return t.unexpected(line)
		}
		if at := slices.Index(t.columns, column); at >= 0 {
			fields[at] = field
			read++
		}
		rest = after
	}
	c := Counters{Retries: number(fields[2]), Redispatches: number(fields[3]),
		ConnectionErrors: number(fields[4]), ResponseErrors: number(fields[5])}
	if c.Failures()+c.ResponseErrors == 0 {
		return nil
	}
	c.Backend = string(fields[0])
	if server := string(fields[1]); server != "BACKEND" {
		c.Server = server
	}
	t.found = append(t.found, c)
	return nil
}

func (t *counterTable) readHead(line string) error {
	names := strings.Split(strings.TrimPrefix(line, "# "), ",")
	for _, name := range counterColumns() {
		at := slices.Index(names, name)
		if at < 0 {
			return t.unexpected([]byte(line))
		}
		t.columns = append(t.columns, at)
	}
	return nil
}

// complete is an error if HAProxy answered nothing at all.
func (t *counterTable) complete() error {
	if t.columns == nil {
		return t.unexpected(nil)
	}
	return nil
}

func (t *counterTable) unexpected(line []byte) error {
	return &UnexpectedAnswer{Command: t.command, Answer: quotable(string(line))}
}

// number is that of a field, 0 where the column does not apply. Most are 0.
func number(field []byte) uint64 {
	if len(field) == 0 || string(field) == "0" {
		return 0
	}
	n, _ := strconv.ParseUint(string(field), 10, 64)
	return n
}
