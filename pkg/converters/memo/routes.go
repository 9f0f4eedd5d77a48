package memo

import (
	"cmp"
	"slices"

	"github.com/sluice-proxy/sluice/pkg/converters/ingress"
	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
)

// routeID is a line of one of the two route tables.
type routeID struct {
	key   string
	exact bool
}

// route is a path of a host with all who claim it.
type route struct {
	id      routeID
	host    *host
	claims  []claim      // in the order of precedence
	backend *backendUnit // of the first claim
	// What the tables and the host's flags hold.
	entry    string // name of the backend; empty: no entry
	protects bool
}

// claim is one of an Ingress' routes, or of its TLS hosts.
type claim struct {
	unit *ingressUnit
	at   int // in fragment.Routes or fragment.TLS
}

func (c claim) route() *ingress.Route { return &c.unit.fragment.Routes[c.at] }
func (c claim) tls() *ingress.TLS     { return &c.unit.fragment.TLS[c.at] }
func (c claim) backendKey() string    { return c.unit.backends[c.at] }

// compareClaims is the precedence: the older object, then by namespace and name, then the
// order within the object. The default backend service comes last.
func compareClaims(a, b claim) int {
	if a.unit == b.unit {
		return cmp.Compare(a.at, b.at)
	}
	if last := cmp.Compare(rank(a), rank(b)); last != 0 {
		return last
	}
	if older := a.unit.fragment.Created.Compare(b.unit.fragment.Created); older != 0 {
		return older
	}
	return snapshot.CompareKeys(a.unit.key, b.unit.key)
}

func rank(c claim) int {
	if c.unit.key.Kind == snapshot.Ingress {
		return 0
	}
	return 1
}

func inserted(claims []claim, c claim) []claim {
	at, _ := slices.BinarySearchFunc(claims, c, compareClaims)
	return slices.Insert(claims, at, c)
}

func withoutUnit(claims []claim, unit *ingressUnit) []claim {
	return slices.DeleteFunc(claims, func(c claim) bool { return c.unit == unit })
}

// claim puts the claims of a unit in.
func (m *Memo) claim(unit *ingressUnit) {
	f := &unit.fragment
	unit.backends = backendKeys(f.Routes)
	unit.routes = make([]routeID, len(f.Routes))
	for i := range f.Routes {
		id := routeID{}
		id.key, id.exact = f.Routes[i].Key()
		unit.routes[i] = id
		r := m.routes[id]
		if r == nil {
			r = &route{id: id, host: m.host(f.Routes[i].Host)}
			r.host.routes = r.host.routes.with(r)
			m.routes[id] = r
		}
		r.claims = inserted(r.claims, claim{unit, i})
		m.work.claims.add(r)
	}
	for i := range f.TLS {
		h := m.host(f.TLS[i].Host)
		h.claims = inserted(h.claims, claim{unit, i})
		m.work.tls.add(h)
	}
}

// unclaim takes the claims of a unit out. What nobody claims any more stays until it is
// settled, since the unit's next fragment may well claim it again.
func (m *Memo) unclaim(unit *ingressUnit) {
	for _, id := range unit.routes {
		r := m.routes[id]
		r.claims = withoutUnit(r.claims, unit)
		m.work.claims.add(r)
	}
	for i := range unit.fragment.TLS {
		h := m.hosts[unit.fragment.TLS[i].Host]
		h.claims = withoutUnit(h.claims, unit)
		m.work.tls.add(h)
	}
}

// settleRoutes gives each path to its first claim, which then asks for its backend.
func (m *Memo) settleRoutes() {
	for r := range m.work.claims.drain {
		var unit *backendUnit
		if len(r.claims) > 0 {
			first := r.claims[0]
			unit = m.demand(first.backendKey(), first.route().Backend)
		}
		if unit != r.backend {
			if r.backend != nil {
				r.backend.routes = r.backend.routes.without(r)
				if r.backend.routes.empty() {
					m.work.idleBackends.add(r.backend)
				}
			}
			if unit != nil {
				unit.routes = unit.routes.with(r)
			}
			r.backend = unit
		}
		m.say(r, r.conflicts())
		m.work.routes.add(r)
	}
}

// conflicts say who lost the path. Who asks for the same as the first loses nothing.
func (r *route) conflicts() []report.Finding {
	var findings []report.Finding
	for i, c := range r.claims {
		if i == 0 || c.backendKey() == r.claims[0].backendKey() || rank(c) > 0 {
			continue
		}
		path := "path " + c.route().Path
		if c.route().Match == ingress.Default {
			path = "the default"
		}
		findings = append(findings, report.New(report.PathConflict, c.route().Origin,
			"%s of host %s is served by %s, which claims it too and comes first", path, c.route().Host, r.claims[0].route().Origin))
	}
	return findings
}

// settleEntries brings the route tables in line with the names of the backends.
func (m *Memo) settleEntries() {
	for r := range m.work.routes.drain {
		entry, protects := "", false
		if r.backend != nil {
			entry, protects = r.backend.backend.Name, r.backend.backend.Profile.Shape.Protects()
		}
		if entry != r.entry {
			table := tablePrefix
			if r.id.exact {
				table = tableExact
			}
			m.work.edit(table, r.id.key, entry)
		}
		if entry != r.entry || protects != r.protects {
			m.work.hosts.add(r.host)
		}
		r.entry, r.protects = entry, protects
		if entry == "" {
			r.host.routes = r.host.routes.without(r)
			m.work.hosts.add(r.host)
			delete(m.routes, r.id)
		}
	}
}
