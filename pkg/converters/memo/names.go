package memo

import (
	"cmp"
	"slices"

	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// named are the backend units whose backends have one name. More than one of them do the
// same for different objects, for example for two Ingresses with equal annotations: a name
// says everything about a backend but its servers, which are those of the Service.
type named struct {
	units   []*backendUnit // sorted by key
	current *model.Backend // in the Model; nil: none
}

func (m *Memo) name(unit *backendUnit) {
	name := unit.backend.Name
	n := m.names[name]
	if n == nil {
		n = &named{}
		m.names[name] = n
	}
	i, _ := slices.BinarySearchFunc(n.units, unit.key, func(u *backendUnit, key string) int { return cmp.Compare(u.key, key) })
	n.units = slices.Insert(n.units, i, unit)
	m.work.names.add(name)
}

// unname takes a unit out of those of the name that its former backend had.
func (m *Memo) unname(unit *backendUnit, former *model.Backend) {
	if former == nil {
		return
	}
	n := m.names[former.Name]
	n.units = slices.DeleteFunc(n.units, func(u *backendUnit) bool { return u == unit })
	m.work.names.add(former.Name)
}

// choose is the backend that stands in the Model for all units of the name: that of the
// first one, with the origins of all of them.
func (n *named) choose() *model.Backend {
	if len(n.units) == 0 {
		return nil
	}
	first := n.units[0].backend
	origins := first.Origins
	for _, unit := range n.units[1:] {
		if !slices.Equal(unit.backend.Origins, first.Origins) {
			origins = append(slices.Clip(origins), unit.backend.Origins...)
		}
	}
	if len(origins) == len(first.Origins) {
		return first
	}
	both := *first
	slices.SortFunc(origins, compareOrigins)
	both.Origins = slices.Compact(origins)
	return &both
}

// compareOrigins puts the Service first.
func compareOrigins(a, b model.Origin) int {
	service := string(snapshot.Service)
	if a.Kind == service || b.Kind == service {
		return cmp.Compare(btoi(a.Kind != service), btoi(b.Kind != service))
	}
	return model.CompareOrigins(a, b)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// sameBackend tells whether one backend can stand for the other in everything.
func sameBackend(a, b *model.Backend) bool {
	return a == b || a != nil && b != nil && a.Digest == b.Digest && a.Profile == b.Profile && slices.Equal(a.Origins, b.Origins)
}

// settleNames brings the backends of the Model, and the texts that their rules look up, in
// line with the units.
func (m *Memo) settleNames() {
	for name := range m.work.names.drain {
		n := m.names[name]
		if n == nil {
			continue
		}
		before, after := n.current, n.choose()
		if after == nil {
			delete(m.names, name)
		}
		if sameBackend(before, after) {
			continue
		}
		n.current = after
		m.editValues(name, before, after)
		m.pools.resolvers += usesDNS(after) - usesDNS(before)
		if after == nil {
			m.work.remove = append(m.work.remove, name)
			continue
		}
		m.work.put = append(m.work.put, after)
		if before != nil && before.Digest == after.Digest {
			// With keeps a backend of equal digest; this one has other origins, or the same
			// profile with other entries in its lists.
			m.work.remove = append(m.work.remove, name)
		}
	}
}

func usesDNS(b *model.Backend) int {
	if b == nil || b.Options.Resolvers == "" {
		return 0
	}
	return 1
}

// editValues replaces the texts of a backend in the table of values.
func (m *Memo) editValues(name string, before, after *model.Backend) {
	if before != nil && after != nil && slices.Equal(before.Values, after.Values) {
		return
	}
	if before != nil {
		for _, v := range before.Values {
			m.work.edit(tableValues, name+"/"+v.Slot, "")
		}
	}
	if after != nil {
		for _, v := range after.Values {
			m.work.edit(tableValues, name+"/"+v.Slot, v.Text)
		}
	}
}

// askers are the served paths that ask for a unit, with the object and the field.
func (u *backendUnit) askers() []model.Origin {
	var askers []model.Origin
	u.routes.each(func(r *route) {
		if owner, ok := r.owner(); ok {
			askers = append(askers, owner.route().Origin)
		}
	})
	u.vhosts.each(func(v *virtualHost) {
		for s := range v.members {
			for i, targets := range s.route.backends[s.at] {
				if slices.Contains(targets, u.key) {
					askers = append(askers, s.route.fragment.Attachments[s.at].Rules[i].Origin)
				}
			}
		}
	})
	u.mirrored.each(func(from *backendUnit) { askers = append(askers, from.askers()...) })
	u.udp.each(func(l *udpListener) {
		targets, keys := l.targets()
		for i := range targets {
			if keys[i] == u.key {
				askers = append(askers, targets[i].Backend.Origin)
			}
		}
	})
	slices.SortFunc(askers, model.CompareOrigins)
	return slices.Compact(askers)
}
