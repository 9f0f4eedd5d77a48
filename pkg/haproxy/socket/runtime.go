package socket

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/sluice-proxy/sluice/pkg/haproxy/plan"
)

// Options of a Runtime. The zero value is right in production.
type Options struct {
	// MaxLine bounds one command line, all commands joined by ";" together, in bytes.
	// 0: 12 000, which is safely below HAProxy's default tune.bufsize of 16 384: a longer
	// line makes HAProxy reset the connection without an answer.
	MaxLine int
	// MaxPayload bounds the payload of one command, in bytes. 0: 15 000 until Probe has
	// found that the binary takes more.
	MaxPayload int
	// Worker returns the pid of the worker that must answer; nil or 0: any. It is compared
	// once per connection, before the first command is sent.
	Worker func() int
}

// Runtime speaks to the stats socket of one worker.
type Runtime struct {
	path    string
	options Options
	payload atomic.Int64 // bytes of one payload that the binary takes, set by Probe
}

// NewRuntime is a Runtime for the unix socket at path. It does not connect yet.
func NewRuntime(path string, o Options) *Runtime {
	if o.MaxLine == 0 {
		o.MaxLine = safeLine
	}
	if o.MaxPayload == 0 {
		o.MaxPayload = safePayload
	}
	r := &Runtime{path: path, options: o}
	r.payload.Store(int64(o.MaxPayload))
	return r
}

const (
	safeLine    = 12_000  // of tune.bufsize, 16 384: a longer line is refused and the connection closed
	safePayload = 15_000  // 3.2: payload and line together have to fit tune.bufsize
	longPayload = 120_000 // 3.4: of tune.cli.max-payload-size, 131 072; close to it 3.4.7 never answers
)

// Result is what became of one command. Err is nil (done, or found done already),
// *UnexpectedAnswer, *Pending (DelServer, DelBackend, AddBackend), *TooLarge or *NotSent
// (nothing was sent), or, where Run itself failed, the error of Run for each command
// without an answer.
type Result struct {
	Command plan.Command
	Err     error
}

// Run sends the commands in order over one connection of its own and returns one result
// per command. The error is about the connection: *WrongWorker, unreachable, closed, or
// the deadline of ctx passed (errors.Is context.DeadlineExceeded). Of the commands
// without an answer it is not known whether they took effect. Without a deadline in ctx
// Run ends after 30 seconds.
func (r *Runtime) Run(ctx context.Context, commands []plan.Command) ([]Result, error) {
	results := make([]Result, len(commands))
	for i, c := range commands {
		results[i].Command = c
	}
	if len(commands) == 0 {
		return results, nil
	}
	s, err := r.open(ctx)
	if err != nil {
		return failed(results, 0, err)
	}
	defer s.close()
	for from := 0; from < len(commands); {
		to := from + 1
		if n := serverRun(commands[from:]); n > 0 {
			to = from + n
			err = s.runServers(results[from:to])
		} else if n := backendRun(commands[from:]); n > 0 {
			to = from + n
			err = s.delBackends(results[from:to])
		} else {
			err = s.runOther(&results[from])
		}
		if err != nil {
			return failed(results, to, err)
		}
		if why := notAdded(results[from:to]); why != nil {
			results, _ = failed(results, to, why)
			break
		}
		from = to
	}
	return results, nil
}

// notAdded tells of a backend that could not be added; nil: there is none.
func notAdded(results []Result) error {
	for _, r := range results {
		var pending *Pending
		if c, ok := r.Command.(plan.AddBackend); ok && r.Err != nil && !errors.As(r.Err, &pending) {
			return &NotSent{c.Backend.Name}
		}
	}
	return nil
}

// failed marks every command from the given one on.
func failed(results []Result, from int, err error) ([]Result, error) {
	for i := from; i < len(results); i++ {
		results[i].Err = err
	}
	return results, err
}

// open connects and, where the caller expects a certain worker, checks that it answers.
func (r *Runtime) open(ctx context.Context) (*session, error) {
	s, err := open(ctx, r.path, limits{line: r.options.MaxLine, payload: int(r.payload.Load())})
	if err != nil || r.options.Worker == nil {
		return s, err
	}
	want := r.options.Worker()
	if want == 0 {
		return s, nil
	}
	have, err := s.pid()
	if err == nil && have != want {
		err = &WrongWorker{Want: want, Have: have}
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// serverRun is the number of commands at the beginning that are about servers, each about
// another one, or add backends with their servers; those go together. What the answer to one makes necessary is sent after all
// of them, so the next command on the same server has to wait for it: a server whose
// deletion waits must not be brought back before.
func serverRun(commands []plan.Command) int {
	type server struct{ backend, name string } // without a name: all of the backend
	seen := map[server]bool{}
	backends := map[string]bool{}
	for i, command := range commands {
		var it server
		switch c := command.(type) {
		case plan.AddBackend:
			if backends[c.Backend.Name] {
				return i
			}
			it = server{backend: c.Backend.Name}
		case plan.AddServer:
			it = server{c.Backend, c.Server.Name()}
		case plan.SetServer:
			it = server{c.Backend, c.Server}
		case plan.DelServer:
			it = server{c.Backend, c.Server}
		default:
			return i
		}
		if seen[it] || seen[server{backend: it.backend}] {
			return i
		}
		seen[it], backends[it.backend] = true, true
	}
	return len(commands)
}

// runOther runs one command that depends on what HAProxy holds.
func (s *session) runOther(r *Result) error {
	var err error
	switch c := r.Command.(type) {
	case plan.EditMap:
		err = s.editMap(c)
	case plan.EditList:
		err = s.editList(c)
	case plan.AddCertificate:
		err = s.addCertificate(c)
	case plan.AddCAFile:
		err = s.addCAFile(c)
	case plan.DelCertificate:
		err = s.delCertificate(c)
	case plan.AddCrtLine:
		err = s.addCrtLine(c.Line)
	case plan.DelCrtLine:
		err = s.delCrtLine(c.Line)
	default:
		panic("socket: unknown command " + c.Verb())
	}
	return r.keep(err)
}

// keep stores an error that concerns this command alone; it returns any other one, which
// is about the connection.
func (r *Result) keep(err error) error {
	var (
		unexpected *UnexpectedAnswer
		pending    *Pending
		large      *TooLarge
		invalid    *Invalid
	)
	if errors.As(err, &unexpected) || errors.As(err, &pending) || errors.As(err, &large) || errors.As(err, &invalid) {
		r.Err = err
		return nil
	}
	r.Err = err
	return err
}
