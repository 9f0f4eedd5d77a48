package plan

import "github.com/sluice-proxy/sluice/pkg/haproxy/model"

// Denied is the backend of every configuration that answers 503: sluice's own names begin
// with _, which no namespace does.
const Denied = "_denied"

// tighten are the routes that a reload puts behind a protection. Connections that clients
// keep belong to the old worker, which does not know the protection: until they are gone,
// such a route leads to nobody there.
func (in Input) tighten() []RuntimeCommand {
	var commands []RuntimeCommand
	reason := unknownProtection
	for _, name := range [...]string{model.TableExact, model.TablePrefix, model.TableHosts} {
		old := table(in.Old.Served, name)
		edit := EditMap{Map: name}
		for _, e := range table(in.Model, name).Diff(old) {
			if e.Value == nil {
				continue
			}
			before, known := old.Lookup(e.Key)
			denied := Denied
			switch wanted := model.LeadsTo(name, *e.Value); {
			case len(wanted) > 0 && in.protectsMore(before, wanted[0]):
				e.Value = &denied
				if in.nameOnly(before) {
					reason = unsureProtection
				}
			case len(wanted) == 0 && known && len(model.LeadsTo(name, before)) > 0 && len(commands) > 0:
				// Not all paths of the host lead to one backend any more: they are looked up.
			default:
				continue
			}
			edit.Edits = append(edit.Edits, e)
		}
		if len(edit.Edits) > 0 {
			commands = append(commands, RuntimeCommand{edit, reason})
		}
	}
	return append(commands, in.tightenGateways()...)
}

// Why a route leads to nobody in the old worker.
const (
	unknownProtection = "routes get a protection that the old worker does not know"
	unsureProtection  = "it can't be told whether the old worker protects these routes as it should"
)

// protectsMore tells whether a route protects in another way than before, when it led to
// the named backend or, with an empty name, to whatever a shorter path leads to.
func (in Input) protectsMore(before, after string) bool {
	wanted := in.Model.Backends.Lookup(after)
	if wanted == nil || !wanted.Profile.Shape.Protects() {
		return false
	}
	old := in.Old.Served.Backends.Lookup(before)
	return old == nil || old.Profile.Shape.Protection() != wanted.Profile.Shape.Protection()
}

// nameOnly tells whether of a served backend's profile nothing but the name is known: it was
// read in files that another process wrote. Shapes without anything belong to the default
// profile alone.
func (in Input) nameOnly(name string) bool {
	old := in.Old.Served.Backends.Lookup(name)
	return old != nil && old.Profile.Name != model.DefaultProfile && old.Profile.Shape.Digest() == model.Shape{}.Digest()
}
