package memo

import (
	"slices"

	"github.com/sluice-proxy/sluice/pkg/converters/resolve"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// compose is the next Model: the last one with the parts that changed put in.
func (m *Memo) compose() *model.Model {
	next, changed := *m.model, false
	replace := func(differs bool, put func()) {
		if differs {
			put()
			changed = true
		}
	}
	process := &m.global.process
	replace(!next.Process.Equal(process.Process), func() { next.Process = process.Process })
	replace(next.Defaults != process.Defaults, func() { next.Defaults = process.Defaults })
	frontends := m.frontendList()
	m.preload(frontends)
	replace(!model.Same(next.Frontends, frontends), func() { next.Frontends = frontends })
	tcp := m.tcpList()
	replace(!model.Same(next.TCP, tcp), func() { next.TCP = tcp })
	replace(!model.Same(next.UDP, m.units.udpModels), func() { next.UDP = m.units.udpModels })
	shards := m.global.set.Int("backend-shards")
	replace(next.Shards != shards, func() { next.Shards = shards })
	resolvers := process.Resolvers
	if m.pools.resolvers == 0 {
		resolvers = nil
	}
	replace(next.Resolvers != resolvers, func() { next.Resolvers = resolvers })

	replace(m.pools.profiles.settle(), func() { next.Profiles = m.pools.profiles.list })
	replace(m.pools.lists.settle(), func() { next.Lists = m.pools.lists.list })
	replace(m.pools.userlists.settle(), func() { next.Userlists = m.pools.userlists.list })
	replace(m.pools.caFiles.settle(), func() { next.CAFiles = m.pools.caFiles.list })
	if m.pools.certificates.settle() || m.work.defaultChange {
		list := m.certificateList()
		replace(!slices.Equal(list, next.Certificates), func() { next.Certificates = list })
	}
	if m.settleGroups() || m.work.crtLines {
		list := m.crtList()
		replace(!slices.EqualFunc(list, next.CrtList, model.CrtLine.Equal), func() { next.CrtList = list })
	}

	replace(len(m.work.put)+len(m.work.remove) > 0, func() { next.Backends = next.Backends.With(m.work.put, m.work.remove) })
	replace(m.tables(&next), func() {})
	if !changed {
		return m.model
	}
	return &next
}

// preload has HAProxy know the profile of what answers 500 as soon as there is a Gateway, so that
// the first Service that is missing is no reload.
func (m *Memo) preload(frontends []*model.Frontend) {
	wanted := slices.ContainsFunc(frontends, func(f *model.Frontend) bool { return f.Gateway })
	switch {
	case wanted && m.heldBroken == nil:
		_, m.heldBroken = m.pools.holdProfile(model.NewProfile(model.Shape{Deny: resolve.StatusBroken}))
	case !wanted && m.heldBroken != nil:
		m.pools.release(m.heldBroken)
		m.heldBroken = nil
	}
}

// tables puts the edits into the tables of the next Model and tells whether any differs.
func (m *Memo) tables(next *model.Model) bool {
	var tables []*model.Table
	for i, edits := range m.work.edits {
		if len(edits) == 0 {
			continue
		}
		table := next.Tables[i].With(edits)
		if table == next.Tables[i] {
			continue
		}
		if tables == nil {
			tables = append(tables, next.Tables...)
		}
		tables[i] = table
	}
	if tables != nil {
		next.Tables = tables
	}
	return tables != nil
}
