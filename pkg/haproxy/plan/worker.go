package plan

import (
	"fmt"
	"maps"
	"slices"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/shard"
	"github.com/sluice-proxy/sluice/pkg/haproxy/tree"
)

// planWorker compares what the worker serves with what it shall serve: the commands that
// bring it there, and the reasons why commands are not enough. Servers come first, since
// requests wait for them; then what a new backend needs, the backend, its routes. What is
// no longer needed goes in the reverse order.
func (in Input) planWorker(p *Plan) (commands []RuntimeCommand, reasons []string) {
	if in.Old.Served == nil {
		return nil, nil
	}
	backends := in.planBackends()
	load, unload, ofCertificates := in.planCertificates()
	lists, ofLists := in.planLists()
	reasons = slices.Concat(in.reasonsOfFiles(p), in.reasonsOfProfiles(p), backends.reasons, ofCertificates)
	if len(reasons) == 0 {
		reasons = slices.Concat(ofLists, backends.unloaded) // what is new to the worker comes with a new profile
	}
	return slices.Concat(backends.servers, lists, load, backends.add, in.planTables(), backends.del, unload), reasons
}

// reasonsOfFiles are the files that only a reload reads. Users belong to a profile, whose
// name depends on theirs: a worker that has loaded the profile has loaded them.
func (in Input) reasonsOfFiles(p *Plan) []string {
	var reasons []string
	for _, w := range p.Writes {
		switch w.File.Kind {
		case tree.Global, tree.Frontends:
			reasons = append(reasons, fmt.Sprintf("settings changed: %s", w.File.Path))
		}
	}
	if in.Old.Header.Templates != in.Layout.Header.Templates {
		reasons = append(reasons, "templates changed: every file is rendered anew")
	}
	return reasons
}

// reasonsOfProfiles are the profiles that the worker has not loaded, or in another form. One
// that goes stays usable in the worker until the next reload, and does no harm there.
func (in Input) reasonsOfProfiles(p *Plan) []string {
	at := slices.IndexFunc(p.Writes, func(w WriteFile) bool { return w.File.Kind == tree.Profiles })
	if at < 0 {
		return nil
	}
	loaded, wanted := in.Old.Worker.Sections, shard.Sections(p.Writes[at].File.Content)
	var reasons []string
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		digest, ok := loaded[name]
		switch {
		case ok && digest == wanted[name]:
		case !model.IsProfileName(name):
			return []string{"settings changed: the timeouts of the base sections"}
		case !ok:
			reasons = append(reasons, "new profile: "+name)
		default:
			reasons = append(reasons, "changed profile: "+name)
		}
	}
	return reasons
}
