package socket

import (
	"fmt"
	"strconv"
	"time"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/plan"
	"github.com/sluice-proxy/sluice/pkg/haproxy/serverline"
)

// maxWait bounds what one Run spends on waiting for busy servers: long enough for idle
// connections to be closed, too short to hold up the changes behind it. They stand in
// maintenance together, so that they drain while one of them is waited for; a server with
// a stream is Pending and tried again later.
const maxWait = 100 * time.Millisecond

// job are the calls of one command on a server and how to go on after their answers.
type job struct {
	result *Result
	calls  []call
	// next judges the answers; it may send more. nil: every known answer is fine.
	next func(s *session, got []meaning) error
}

// runServers runs commands on servers and those that add backends: all of them in as few lines as possible, then,
// one by one, what their answers make necessary.
func (s *session) runServers(results []Result) error {
	var jobs []job
	var requests []request
	for i := range results {
		j, err := jobOf(results[i].Command)
		for _, c := range j.calls {
			if err == nil {
				err = s.limits.check(c.request)
			}
		}
		if err != nil {
			if err := results[i].keep(err); err != nil {
				return err
			}
			continue
		}
		j.result = &results[i]
		jobs = append(jobs, j)
		for _, c := range j.calls {
			requests = append(requests, c.request)
		}
	}
	answers, broken := s.ask(requests...)
	for i, j := range jobs {
		err := broken
		if len(answers) >= len(j.calls) {
			err = j.result.keep(j.judge(s, answers[:len(j.calls)], broken == nil))
			answers = answers[len(j.calls):]
		}
		if err != nil {
			for _, rest := range jobs[i:] {
				rest.result.Err = err
			}
			return err
		}
	}
	return broken
}

// judge looks the answers up and, while the connection stands, goes on.
func (j job) judge(s *session, answers []string, open bool) error {
	got := make([]meaning, len(answers))
	for i, text := range answers {
		var err error
		if got[i], err = j.calls[i].judge(text); err != nil {
			return err
		}
	}
	if j.next == nil || !open {
		return nil
	}
	return j.next(s, got)
}

func jobOf(c plan.Command) (job, error) {
	switch c := c.(type) {
	case plan.AddBackend:
		return addBackend(c)
	case plan.AddServer:
		return addServer(c)
	case plan.SetServer:
		return setServer(c)
	case plan.DelServer:
		return delServer(c)
	}
	panic("socket: not a command on a server: " + c.Verb())
}

// addServer adds a server, switches its checks on and brings it out of the maintenance
// that "add server" leaves it in. One that drains is ready with weight 0, as in the file.
func addServer(c plan.AddServer) (job, error) {
	text := string(serverline.AppendParameters(nil, &c.Server, serverline.Options(c.Options)))
	if err := parameters(text); err != nil {
		return job{}, err
	}
	name := c.Backend + "/" + c.Server.Name()
	add, err := line("add server", name)
	if err != nil {
		return job{}, err
	}
	calls := []call{{"add server", request{line: add + " " + text}}}
	if c.Options.Check.On {
		health, err := line("enable health", name)
		if err != nil {
			return job{}, err
		}
		calls = append(calls, call{"enable health", request{line: health}})
	}
	state := model.Ready
	if c.Server.State == model.Maint {
		state = model.Maint
	}
	set, err := line("set server", name, "state", state.String())
	if err != nil {
		return job{}, err
	}
	calls = append(calls, call{"set server", request{line: set}})
	weight, err := line("set server", name, "weight", strconv.Itoa(serverline.Weight(&c.Server)))
	if err != nil {
		return job{}, err
	}
	return job{calls: calls, next: func(s *session, got []meaning) error {
		if got[0] != exists {
			return nil
		}
		_, err := s.expect(call{"set server", request{line: weight}})
		return err
	}}, nil
}

func setServer(c plan.SetServer) (job, error) {
	var j job
	name := c.Backend + "/" + c.Server
	set := func(words ...string) error {
		text, err := line("set server", append([]string{name}, words...)...)
		if err == nil {
			j.calls = append(j.calls, call{"set server", request{line: text}})
		}
		return err
	}
	// The weight first: a server that comes back from maintenance must not take traffic
	// with its former weight.
	if c.Weight != nil {
		if err := set("weight", strconv.Itoa(*c.Weight)); err != nil {
			return job{}, err
		}
	}
	if c.State != nil {
		if err := set("state", c.State.String()); err != nil {
			return job{}, err
		}
	}
	return j, nil
}

// delServer puts a server into maintenance and deletes it; where connections are left on
// it, it waits for them. From 3.3 on "del server" does not close idle connections, the
// wait does. Sessions are never shut down.
func delServer(c plan.DelServer) (job, error) {
	name := c.Backend + "/" + c.Server
	maint, err := line("set server", name, "state", model.Maint.String())
	if err != nil {
		return job{}, err
	}
	del, err := line("del server", name)
	if err != nil {
		return job{}, err
	}
	again := call{"del server", request{line: del}}
	return job{
		calls: []call{{"set server maint", request{line: maint}}, again},
		next: func(s *session, got []meaning) error {
			if got[1] != busy {
				return nil
			}
			return s.waitAndDelete(c, again)
		},
	}, nil
}

// waitAndDelete waits within what is left of maxWait, at least a moment, since the wait
// is what closes idle connections.
func (s *session) waitAndDelete(c plan.DelServer, del call) error {
	wait := max(s.waiting.Milliseconds(), 1)
	text, err := line("wait", fmt.Sprintf("%dms", wait), "srv-removable", c.Backend+"/"+c.Server)
	if err != nil {
		return err
	}
	start := time.Now()
	got, err := s.expect(call{"wait", request{line: text}}, del)
	s.waiting -= time.Since(start)
	if err != nil {
		return err
	}
	if got[1] == busy {
		return &Pending{Backend: c.Backend, Servers: []string{c.Server}}
	}
	return nil
}
