package apply

import (
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/plan"
	"github.com/sluice-proxy/sluice/pkg/haproxy/shard"
)

// told is what a worker serves that served m and was told the command, on the way to the
// model wanted. It shares with m all parts that the command does not speak of. A nil m
// (not known) stays nil.
func told(m, wanted *model.Model, c plan.Command) *model.Model {
	if m == nil {
		return nil
	}
	next := *m
	switch c := c.(type) {
	case plan.AddBackend:
		next.Backends = m.Backends.With([]*model.Backend{c.Backend}, nil)
	case plan.DelBackend:
		next.Backends = m.Backends.With(nil, []string{c.Backend})
	case plan.AddServer:
		next.Backends = withServers(m, c.Backend, func(list []model.Server) []model.Server {
			return append(without(list, c.Server.Name()), c.Server)
		})
	case plan.DelServer:
		next.Backends = withServers(m, c.Backend, func(list []model.Server) []model.Server {
			return without(list, c.Server)
		})
	case plan.SetServer:
		next.Backends = withServers(m, c.Backend, func(list []model.Server) []model.Server {
			return setServer(list, wanted, c)
		})
	case plan.EditMap:
		next.Tables = slices.Clone(m.Tables)
		at := slices.IndexFunc(next.Tables, func(t *model.Table) bool { return t.Name == c.Map })
		if at < 0 {
			return nil
		}
		next.Tables[at] = next.Tables[at].With(c.Edits)
	case plan.EditList:
		next.Lists = slices.Clone(m.Lists)
		at := slices.IndexFunc(next.Lists, func(l *model.List) bool { return l.Name == c.List })
		if at < 0 {
			return nil
		}
		next.Lists[at] = editList(next.Lists[at], c)
	case plan.AddCertificate:
		tellCertificate(&next, wanted, c)
	case plan.AddCAFile:
		next.CAFiles = append(slices.Clone(m.CAFiles), c.Certificate)
	case plan.DelCertificate:
		isIt := func(x *model.Certificate) bool { return x.Name == c.Name }
		next.Certificates = slices.DeleteFunc(slices.Clone(m.Certificates), isIt)
		next.CAFiles = slices.DeleteFunc(slices.Clone(m.CAFiles), isIt)
	case plan.AddCrtLine:
		next.CrtList = append(slices.Clone(m.CrtList), c.Line)
	case plan.DelCrtLine:
		next.CrtList = slices.DeleteFunc(slices.Clone(m.CrtList), func(l model.CrtLine) bool { return l.Equal(c.Line) })
	default:
		return nil
	}
	return &next
}

// withServers are the backends with one backend's servers changed; the same ones where
// the backend is not among them.
func withServers(m *model.Model, name string, change func([]model.Server) []model.Server) *model.Backends {
	old := m.Backends.Lookup(name)
	if old == nil {
		return m.Backends
	}
	b := *old
	b.Servers = change(slices.Clone(old.Servers))
	slices.SortFunc(b.Servers, model.CompareServers)
	return m.Backends.With([]*model.Backend{b.Seal()}, nil)
}

func without(list []model.Server, name string) []model.Server {
	return slices.DeleteFunc(list, func(s model.Server) bool { return s.Name() == name })
}

// setServer takes the server over from the wanted model: the command holds all that
// differs but the cookie, which can't be changed at run time.
func setServer(list []model.Server, wanted *model.Model, c plan.SetServer) []model.Server {
	to := wanted.Backends.Lookup(c.Backend)
	if to == nil {
		return list
	}
	for i := range list {
		for j := range to.Servers {
			if list[i].Name() == c.Server && to.Servers[j].Name() == c.Server {
				cookie := list[i].Cookie
				list[i] = to.Servers[j]
				list[i].Cookie = cookie
			}
		}
	}
	return list
}

func editList(old *model.List, c plan.EditList) *model.List {
	list := *old
	list.Entries = slices.DeleteFunc(slices.Clone(old.Entries), func(entry string) bool { return slices.Contains(c.Remove, entry) })
	list.Entries = append(list.Entries, c.Add...)
	slices.Sort(list.Entries)
	list.Entries = slices.Compact(list.Entries)
	return &list
}

func tellCertificate(next, wanted *model.Model, c plan.AddCertificate) {
	into := &next.Certificates
	if slices.ContainsFunc(wanted.CAFiles, func(x *model.Certificate) bool { return x.Name == c.Certificate.Name }) {
		into = &next.CAFiles
	}
	if !slices.ContainsFunc(*into, func(x *model.Certificate) bool { return x.Name == c.Certificate.Name }) {
		*into = append(slices.Clone(*into), c.Certificate)
	}
}

func hasServer(m *model.Model, backend, server string) bool {
	if m == nil {
		return false
	}
	b := m.Backends.Lookup(backend)
	return b != nil && slices.ContainsFunc(b.Servers, func(s model.Server) bool { return s.Name() == server })
}

// applicable is the part of the commands that makes sense to a worker that serves m and
// gets the rest by a reload: servers of backends that it has; backends whose profile it has
// loaded; and all others up to the first that leads to a backend which it does not have, since
// they are sorted leaf first.
func applicable(worker shard.Worker, m *model.Model, commands []plan.Command) []plan.Command {
	if m == nil {
		return nil
	}
	var list []plan.Command
	has := backendsOf{m: m, added: map[string]bool{}}
	held := false
	for _, c := range commands {
		fits := !held
		switch c := c.(type) {
		case plan.AddBackend:
			_, loaded := worker.Sections[c.Backend.Profile.Name]
			if fits = worker.Dynamic && loaded && !held; fits {
				has.added[c.Backend.Name] = true
			}
		case plan.DelBackend:
			fits = !held && m.Backends.Lookup(c.Backend) != nil
		case plan.AddServer:
			fits = has.backend(c.Backend)
		case plan.SetServer:
			fits = hasServer(m, c.Backend, c.Server)
		case plan.DelServer:
			fits = hasServer(m, c.Backend, c.Server)
		case plan.EditList:
			fits = !held && slices.ContainsFunc(m.Lists, func(l *model.List) bool { return l.Name == c.List })
		case plan.EditMap:
			held = held || has.not(c)
			fits = !held
		}
		if fits {
			list = append(list, c)
		}
	}
	return list
}

// backendsOf are the backends of a worker that serves m and was told to add some.
type backendsOf struct {
	m     *model.Model
	added map[string]bool
}

func (b backendsOf) backend(name string) bool {
	return b.added[name] || b.m.Backends.Lookup(name) != nil
}

// not tells whether a route would lead to a backend that the worker lacks.
func (b backendsOf) not(c plan.EditMap) bool {
	return slices.ContainsFunc(c.Edits, func(e model.Edit) bool {
		if e.Value == nil {
			return false
		}
		return slices.ContainsFunc(model.LeadsTo(c.Map, *e.Value), func(name string) bool {
			return !strings.HasPrefix(name, "_") && !b.backend(name) // every configuration has sluice's own
		})
	})
}
