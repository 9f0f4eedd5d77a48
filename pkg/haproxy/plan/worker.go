package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/tree"
)

// planWorker compares what the worker serves with what it shall serve: the commands that
// bring it there, and the reasons why commands are not enough.
func (in Input) planWorker(p *Plan) (commands []RuntimeCommand, reasons []string) {
	if in.Old.Served == nil {
		return nil, nil
	}
	reasons = in.reasonsOfFiles(p)
	reasons = append(reasons, in.reasonsOfProfiles(p)...)
	servers, more := in.planBackends()
	reasons = append(reasons, more...)
	commands = append(commands, servers...)

	load, unload, more := in.planCertificates()
	reasons = append(reasons, more...)
	commands = append(commands, load...)
	commands = append(commands, in.planTables()...)
	commands = append(commands, in.planLists()...)
	commands = append(commands, unload...)
	return commands, reasons
}

// reasonsOfFiles are the files that only a reload reads.
func (in Input) reasonsOfFiles(p *Plan) []string {
	var reasons []string
	for _, w := range p.Writes {
		switch w.File.Kind {
		case tree.Global, tree.Userlists, tree.Frontends:
			reasons = append(reasons, fmt.Sprintf("settings changed: %s", w.File.Path))
		}
	}
	if in.Old.Header.Templates != in.Layout.Header.Templates {
		reasons = append(reasons, "templates changed: every file is rendered anew")
	}
	return reasons
}

// reasonsOfProfiles are the profiles that the worker does not have. One that only went
// stays usable in the worker and does no harm there.
func (in Input) reasonsOfProfiles(p *Plan) []string {
	if !slices.ContainsFunc(p.Writes, func(w WriteFile) bool { return w.File.Kind == tree.Profiles }) {
		return nil
	}
	served := in.Old.Served
	recovered := served.Defaults == (model.Defaults{}) // then names are all that is known
	if !recovered && served.Defaults != in.Model.Defaults {
		return []string{"settings changed: the timeouts of the base sections"}
	}
	known := make(map[string]*model.Profile, len(served.Profiles))
	for _, profile := range served.Profiles {
		known[profile.Name] = profile
	}
	var reasons []string
	for _, profile := range in.Model.Profiles {
		old, ok := known[profile.Name]
		switch {
		case !ok:
			reasons = append(reasons, "new profile: "+profile.Name)
		case !recovered && old != profile && old.Shape.Digest() != profile.Shape.Digest():
			reasons = append(reasons, "changed profile: "+profile.Name)
		}
	}
	if recovered && len(reasons) == 0 {
		reasons = append(reasons, "changed profile: conf.d/10-profiles.cfg differs")
	}
	return reasons
}

// planBackends compares the backends, bucket by bucket.
func (in Input) planBackends() (commands []RuntimeCommand, reasons []string) {
	var added, removed []string
	for i := range model.Buckets {
		before, after := in.Old.Served.Backends.Bucket(i), in.Model.Backends.Bucket(i)
		if before == after {
			continue
		}
		old := membersOf(before)
		for _, b := range bucketBackends(after) {
			stands, ok := old[b.Name]
			if !ok {
				added = append(added, b.Name)
				continue
			}
			delete(old, b.Name)
			if stands != b {
				more, reason := planServers(stands, b)
				commands = append(commands, more...)
				reasons = append(reasons, reason...)
			}
		}
		for name := range old {
			removed = append(removed, name)
		}
	}
	slices.Sort(added)
	slices.Sort(removed)
	if len(added) > 0 {
		reasons = append(reasons, "new backend: "+few(added))
	}
	if len(removed) > 0 {
		reasons = append(reasons, "backend gone: "+few(removed))
	}
	slices.SortStableFunc(commands, func(a, b RuntimeCommand) int { return strings.Compare(backendOf(a), backendOf(b)) })
	return commands, reasons
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
