package apply

import (
	"context"
	"slices"
	"time"

	"github.com/sluice-proxy/sluice/pkg/haproxy/plan"
	"github.com/sluice-proxy/sluice/pkg/haproxy/socket"
)

// removal is a server or a backend that is no longer wanted and still there.
type removal struct {
	command plan.Command // DelServer or DelBackend; both are comparable
	due     time.Time    // not to be tried before
}

// maxRetries bounds how many removals are tried at once, since batches wait meanwhile.
const maxRetries = 100

// PendingRemovals are the servers in maintenance that wait for their last stream, and the
// backends that no route leads to and that were not deleted yet.
func (a *Apply) PendingRemovals() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.busy)
}

// RetryRemovals tries to delete the servers and backends that are to go, and returns how many
// still wait, and whether it is not known any more what the worker serves: then a plan is due. The caller calls it now and then. While a reload is in flight it does nothing:
// the new worker does not have them.
func (a *Apply) RetryRemovals(ctx context.Context) (left int, drift bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.flight != nil || len(a.busy) == 0 || a.reg.Served == nil {
		return len(a.busy), false // what is served is not known: the reload that is due leaves them behind
	}
	a.retry(ctx)
	return len(a.busy), a.reg.Served == nil
}

// retry tries the removals that are due; those that still wait go to the end of the list.
func (a *Apply) retry(ctx context.Context) {
	now := time.Now()
	var commands []plan.Command
	var rest []removal
	for _, r := range a.busy {
		switch {
		case a.cameBack(r.command):
		case len(commands) < maxRetries && !now.Before(r.due):
			commands = append(commands, r.command)
		default:
			rest = append(rest, r)
		}
	}
	before := a.busy
	a.busy = rest
	switch s := a.run(ctx, commands); {
	case s.err != nil:
		a.busy = before
	case s.drift:
		a.unknown(oddAnswer)
	}
	a.cfg.Fault("removals tried")
}

// cameBack tells whether what was to be removed is served again.
func (a *Apply) cameBack(c plan.Command) bool {
	switch c := c.(type) {
	case plan.DelServer:
		return hasServer(a.reg.Served, c.Backend, c.Server)
	case plan.DelBackend:
		return a.reg.Served != nil && a.reg.Served.Backends.Lookup(c.Backend) != nil
	}
	return false
}

// postpone notes a backend that is to go.
func (a *Apply) postpone(c plan.DelBackend) {
	a.forget(c)
	a.busy = append(a.busy, removal{c, time.Now().Add(a.cfg.Grace)})
}

func (a *Apply) forget(c plan.Command) {
	a.busy = slices.DeleteFunc(a.busy, func(r removal) bool { return r.command == c })
}

// noteBusy keeps the list of removals up to date with a command that was carried out, as far
// as it could be.
func (a *Apply) noteBusy(c plan.Command, left *socket.Pending) {
	var again []plan.Command
	switch c := c.(type) {
	case plan.AddServer:
		a.forget(plan.DelServer{Backend: c.Backend, Server: c.Server.Name()})
	case plan.AddBackend:
		a.forget(plan.DelBackend{Backend: c.Backend.Name})
		for i := range c.Backend.Servers {
			a.forget(plan.DelServer{Backend: c.Backend.Name, Server: c.Backend.Servers[i].Name()})
		}
		if left != nil {
			for _, server := range left.Servers {
				again = append(again, plan.DelServer{Backend: c.Backend.Name, Server: server})
			}
		}
	case plan.DelServer, plan.DelBackend:
		if left != nil {
			again = []plan.Command{c}
		}
		a.forget(c)
	}
	for _, command := range again {
		a.forget(command)
		a.busy = append(a.busy, removal{command: command})
	}
}

// postponed divides commands into those to send and the removals of backends, which come
// later: requests that looked their route up before it changed may still be on their way. A
// backend that comes back behind its removal stays.
func postponed(commands []plan.Command) (now []plan.Command, later []plan.DelBackend) {
	for _, command := range commands {
		switch c := command.(type) {
		case plan.DelBackend:
			later = append(later, c)
			continue
		case plan.AddBackend:
			later = slices.DeleteFunc(later, func(d plan.DelBackend) bool { return d.Backend == c.Backend.Name })
		}
		now = append(now, command)
	}
	return now, later
}
