package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// ofBackends is what differs between the backends that are served and those that are wanted.
type ofBackends struct {
	add, servers, del []RuntimeCommand
	reasons           []string // why commands are not enough
	unloaded          []string // reasons that hardly ever stand alone: they come with new profiles
}

// planBackends compares the backends, bucket by bucket.
func (in Input) planBackends() ofBackends {
	var plan ofBackends
	var added, removed []*model.Backend
	for i := range model.Buckets {
		before, after := in.Old.Served.Backends.Bucket(i), in.Model.Backends.Bucket(i)
		if before == after {
			continue
		}
		old := membersOf(before)
		for _, b := range bucketBackends(after) {
			stands, ok := old[b.Name]
			if !ok {
				added = append(added, b)
				continue
			}
			delete(old, b.Name)
			if stands != b {
				commands, reasons := planServers(stands, b)
				plan.servers = append(plan.servers, commands...)
				plan.reasons = append(plan.reasons, reasons...)
			}
		}
		for _, b := range old {
			removed = append(removed, b)
		}
	}
	slices.SortStableFunc(plan.servers, func(a, b RuntimeCommand) int { return strings.Compare(backendOf(a), backendOf(b)) })
	for _, b := range sorted(added) {
		plan.add = append(plan.add, RuntimeCommand{AddBackend{b}, "new backend; its profile " + b.Profile.Name + " is loaded"})
	}
	for _, b := range sorted(removed) {
		plan.del = append(plan.del, RuntimeCommand{DelBackend{b.Name}, "backend gone"})
	}
	plan.reasons = slices.Concat(plan.reasons, in.reasons("new backend", added, in.static), in.reasons("backend gone", removed, in.static))
	plan.unloaded = in.reasons("new backend", added, in.unloaded)
	return plan
}

func sorted(list []*model.Backend) []*model.Backend {
	slices.SortFunc(list, func(a, b *model.Backend) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// reasons names the backends that can't come or go at run time, those of one cause together.
func (in Input) reasons(what string, list []*model.Backend, why func(*model.Backend) string) []string {
	var causes []string
	names := map[string][]string{}
	for _, b := range list {
		cause := why(b)
		if cause == "" {
			continue
		}
		if names[cause] == nil {
			causes = append(causes, cause)
		}
		names[cause] = append(names[cause], b.Name)
	}
	for i, cause := range causes {
		causes[i] = fmt.Sprintf("%s: %s: %s", what, few(names[cause]), cause)
	}
	return causes
}

// The words of a reload's reason.
const (
	notDynamic = "this HAProxy adds and removes backends by reloads only"
	notLoaded  = "the running worker has not loaded its profile"
)

// static says why a backend can't come or go at run time; empty: it can.
func (in Input) static(b *model.Backend) string {
	if !in.Old.Worker.Dynamic {
		return notDynamic
	}
	return b.Static
}

// unloaded says that the worker lacks the profile of a backend; empty: it has it.
func (in Input) unloaded(b *model.Backend) string {
	if _, loaded := in.Old.Worker.Sections[b.Profile.Name]; loaded {
		return ""
	}
	return notLoaded
}

func bucketBackends(b *model.Bucket) []*model.Backend {
	if b == nil {
		return nil
	}
	return b.Backends
}

func membersOf(b *model.Bucket) map[string]*model.Backend {
	list := bucketBackends(b)
	m := make(map[string]*model.Backend, len(list))
	for _, backend := range list {
		m[backend.Name] = backend
	}
	return m
}

// planServers compares the servers of one backend: new ones first, so that there is
// always one to answer, then changes, then removals.
func planServers(old, wanted *model.Backend) (commands []RuntimeCommand, reasons []string) {
	stands := make(map[string]*model.Server, len(old.Servers))
	for i := range old.Servers {
		stands[old.Servers[i].Name()] = &old.Servers[i]
	}
	var add, set, del []RuntimeCommand
	for i := range wanted.Servers {
		server := wanted.Servers[i]
		name := server.Name()
		before, ok := stands[name]
		delete(stands, name)
		switch {
		case !ok:
			add = append(add, RuntimeCommand{AddServer{wanted.Name, server, wanted.Options}, "new endpoint"})
		case before.Cookie != server.Cookie:
			reasons = append(reasons, fmt.Sprintf("changed cookie: server %s of backend %s", name, wanted.Name))
		default:
			if command, changed := setServer(wanted.Name, before, &server); changed {
				set = append(set, RuntimeCommand{command, "endpoint is " + server.State.String()})
			}
		}
	}
	for i := range old.Servers {
		if name := old.Servers[i].Name(); stands[name] != nil {
			del = append(del, RuntimeCommand{DelServer{wanted.Name, name}, "endpoint gone"})
		}
	}
	commands = slices.Concat(add, set, del)
	if len(commands) > 0 && wanted.Static != "" {
		return nil, append(reasons, fmt.Sprintf("static backend: %s: %s", wanted.Name, wanted.Static))
	}
	return commands, reasons
}
