package memo

import "github.com/sluice-proxy/sluice/pkg/converters/resolve"

// askMirrors asks for the backends to which the requests of a unit are copied. Whose requests go
// where is part of the reference, so it never changes.
func (m *Memo) askMirrors(unit *backendUnit) {
	g := unit.ref.Gateway
	if g == nil || g.Filters == nil || unit.mirrors != nil {
		return
	}
	for i := range g.Filters.Mirrors {
		ref := g.Filters.Mirrors[i].Backend
		target := m.demand(ref.Key(), ref)
		target.mirrored = target.mirrored.with(unit)
		unit.mirrors = append(unit.mirrors, target)
		m.work.mirrors.add(target)
	}
}

// settleMirrors brings the table of mirrors in line with the names of backends.
func (m *Memo) settleMirrors() {
	for unit := range m.work.mirrors.drain {
		entry := ""
		if m.backends[unit.key] == unit && !unit.mirrored.empty() {
			entry = unit.backend.Name
		}
		if entry != unit.mirror {
			m.work.edit(tableMirrors, resolve.MirrorID(&unit.ref), entry)
			unit.mirror = entry
		}
	}
}
