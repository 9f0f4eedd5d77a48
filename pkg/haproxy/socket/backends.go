package socket

import (
	"strconv"
	"strings"

	"github.com/sluice-proxy/sluice/pkg/haproxy/plan"
)

// addBackend adds a backend with its servers and publishes it, all in one go: no route leads
// there before the answers were read. The mode is named since a binary may demand it where
// the profile has inherited its own.
func addBackend(c plan.AddBackend) (job, error) {
	b := c.Backend
	mode := "http"
	if b.Profile.Shape.TCP {
		mode = "tcp"
	}
	add, err := line("add backend", b.Name, "from", b.Profile.Name, "mode", mode)
	if err != nil {
		return job{}, err
	}
	calls := []call{{"add backend", request{line: add}}}
	servers := make([]job, len(b.Servers))
	for i := range b.Servers {
		if servers[i], err = addServer(plan.AddServer{Backend: b.Name, Server: b.Servers[i], Options: b.Options}); err != nil {
			return job{}, err
		}
		calls = append(calls, servers[i].calls...)
	}
	publish, err := line("publish backend", b.Name)
	if err != nil {
		return job{}, err
	}
	calls = append(calls, call{"publish backend", request{line: publish}})
	return job{calls: calls, next: func(s *session, got []meaning) error {
		if got[0] != exists {
			return nil
		}
		got = got[1:]
		for _, server := range servers {
			if err := server.next(s, got[:len(server.calls)]); err != nil {
				return err
			}
			got = got[len(server.calls):]
		}
		return s.delOthers(c)
	}}, nil
}

// delOthers takes the servers out that a backend had before it came back. Those with a
// connection stay in maintenance: the error is a *Pending that names them.
func (s *session) delOthers(c plan.AddBackend) error {
	wanted := make(map[string]bool, len(c.Backend.Servers))
	for i := range c.Backend.Servers {
		wanted[c.Backend.Servers[i].Name()] = true
	}
	standing, err := s.servers(c.Backend.Name)
	if err != nil {
		return err
	}
	var left []string
	for _, server := range standing {
		if wanted[server.Name] {
			continue
		}
		j, err := delServer(plan.DelServer{Backend: c.Backend.Name, Server: server.Name})
		if err != nil {
			return err
		}
		got, err := s.expect(j.calls...)
		if err != nil {
			return err
		}
		if got[1] == busy {
			left = append(left, server.Name)
		}
	}
	if len(left) > 0 {
		return &Pending{Backend: c.Backend.Name, Servers: left}
	}
	return nil
}

// servers are the servers of one backend.
func (s *session) servers(backend string) ([]ServerState, error) {
	text, err := line("show servers state", backend)
	if err != nil {
		return nil, err
	}
	answers, err := s.ask(request{line: text})
	if err != nil {
		return nil, err
	}
	return serversOf(text, answers[0])
}

// backendRun is the number of deletions of backends at the beginning; those go together.
func backendRun(commands []plan.Command) int {
	for i, command := range commands {
		if _, ok := command.(plan.DelBackend); !ok {
			return i
		}
	}
	return len(commands)
}

// removal is a backend on its way out.
type removal struct {
	result  *Result
	name    string
	servers []job
	del     call
}

// delBackends unpublishes backends; those without a stream are deleted with their servers,
// the others are *Pending. While a stream goes on its servers stay as they are: it may be
// waiting for one of them, or have to try another one.
func (s *session) delBackends(results []Result) error {
	var left []removal
	for i := range results {
		r, err := s.unpublish(&results[i])
		if err := results[i].keep(err); err != nil {
			return err
		}
		if r != nil {
			left = append(left, *r)
		}
	}
	var calls []call
	for _, r := range left {
		for _, j := range r.servers {
			calls = append(calls, j.calls...)
		}
		calls = append(calls, r.del)
	}
	requests := make([]request, len(calls))
	for i, c := range calls {
		requests[i] = c.request
	}
	answers, err := s.ask(requests...)
	if err != nil {
		return err
	}
	for _, r := range left {
		n := 2*len(r.servers) + 1 // two calls for each server
		if err := r.result.keep(r.finish(s, answers[:n])); err != nil {
			return err
		}
		answers = answers[n:]
	}
	return nil
}

// unpublish keeps new streams from a backend and finds out what is left in it; nil: nothing
// can be done now, since there is a stream, or nothing has to.
func (s *session) unpublish(result *Result) (*removal, error) {
	r := &removal{result: result, name: result.Command.(plan.DelBackend).Backend}
	var calls []call
	for _, verb := range []struct{ verb, text, rest string }{
		{"unpublish backend", "unpublish backend", ""},
		{"show stat backend", "show stat", " 2 -1"}, // of the backend itself, without its servers
		{"show servers state", "show servers state", ""},
		{"del backend", "del backend", ""},
	} {
		text, err := line(verb.text, r.name)
		if err != nil {
			return nil, err
		}
		calls = append(calls, call{verb.verb, request{line: text + verb.rest}})
	}
	r.del = calls[3]
	answers, err := s.ask(calls[0].request, calls[1].request, calls[2].request)
	if err != nil {
		return nil, err
	}
	for i, text := range answers {
		if m, err := calls[i].judge(text); err != nil || m == missing {
			return nil, err
		}
	}
	streams, ok := streamsOf(answers[1])
	if !ok {
		return nil, &UnexpectedAnswer{Command: calls[1].line, Answer: quotable(answers[1])}
	}
	if streams > 0 {
		return nil, &Pending{Backend: r.name}
	}
	standing, err := serversOf(calls[2].line, answers[2])
	if err != nil {
		return nil, err
	}
	for _, server := range standing {
		j, err := delServer(plan.DelServer{Backend: r.name, Server: server.Name})
		if err != nil {
			return nil, err
		}
		r.servers = append(r.servers, j)
	}
	return r, nil
}

// streamsOf is the number of streams of the one proxy that "show stat" tells of.
func streamsOf(text string) (int, bool) {
	head, rest, _ := strings.Cut(text, "\n")
	row, _, _ := strings.Cut(rest, "\n")
	values := strings.Split(row, ",")
	for i, name := range strings.Split(strings.TrimPrefix(head, "# "), ",") {
		if name == "scur" && i < len(values) {
			n, err := strconv.Atoi(values[i])
			return n, err == nil
		}
	}
	return 0, false
}

// finish judges the answers, and waits for servers whose idle connections have to be closed.
func (r removal) finish(s *session, answers []string) error {
	for _, j := range r.servers {
		if err := j.judge(s, answers[:len(j.calls)], true); err != nil {
			return err
		}
		answers = answers[len(j.calls):]
	}
	got, err := r.del.judge(answers[0])
	if err != nil || got != busy {
		return err
	}
	again, err := s.expect(r.del)
	if err != nil || again[0] != busy {
		return err
	}
	return &Pending{Backend: r.name}
}
