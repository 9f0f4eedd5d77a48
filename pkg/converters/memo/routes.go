package memo

import (
	"cmp"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/pkg/converters/ingress"
	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
)

// routeID is a line of one of the route tables, or of that of TCP services.
type routeID struct {
	key   string
	exact bool
	tcp   bool
}

func (id routeID) table() int {
	switch {
	case id.tcp:
		return tableTCP
	case id.exact:
		return tableExact
	}
	return tablePrefix
}

// route is a path of a host, or a host of a port, with all who claim it.
type route struct {
	id      routeID
	host    *host        // nil for a host of a port
	port    *port        // nil for a path of a host
	claims  []claim      // in the order of precedence
	backend *backendUnit // of the owner
	// What the tables and the host's flags hold.
	entry    string // name of the backend; empty: no entry
	protects bool
}

// takesAll tells whether every path of the host begins with that of the route.
func (r *route) takesAll() bool {
	rest, ok := strings.CutPrefix(r.id.key, r.host.name)
	return ok && !r.id.exact && (rest == "#" || rest == "#/")
}

// owner is the claim that is served: the first one, for a port the first one that can have it.
func (r *route) owner() (claim, bool) {
	for _, c := range r.claims {
		if r.port == nil || r.port.allows(c) {
			return c, true
		}
	}
	return claim{}, false
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
// order within the object. The administrator's ConfigMap of TCP services comes first, the
// default backend service last.
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
	switch c.unit.key.Kind {
	case snapshot.Ingress:
		return 0
	case snapshot.ConfigMap:
		return -1
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
		id := routeID{tcp: f.Routes[i].TCP != nil}
		id.key, id.exact = f.Routes[i].Key()
		unit.routes[i] = id
		r := m.routes[id]
		if r == nil {
			r = m.newRoute(id, &f.Routes[i])
		}
		r.claims = inserted(r.claims, claim{unit, i})
		if r.port != nil {
			r.port.claims = inserted(r.port.claims, claim{unit, i})
			m.work.ports.add(r.port)
		}
		m.work.claims.add(r)
	}
	for i := range f.TLS {
		h := m.host(f.TLS[i].Host)
		h.claims = inserted(h.claims, claim{unit, i})
		m.work.tls.add(h)
	}
}

func (m *Memo) newRoute(id routeID, of *ingress.Route) *route {
	r := &route{id: id}
	if id.tcp {
		r.port = m.port(of.TCP.Port)
		r.port.routes = r.port.routes.with(r)
	} else {
		r.host = m.host(of.Host)
		r.host.routes = r.host.routes.with(r)
	}
	m.routes[id] = r
	return r
}

// unclaim takes the claims of a unit out. What nobody claims any more stays until it is
// settled, since the unit's next fragment may well claim it again.
func (m *Memo) unclaim(unit *ingressUnit) {
	for _, id := range unit.routes {
		r := m.routes[id]
		r.claims = withoutUnit(r.claims, unit)
		m.work.claims.add(r)
		if r.port != nil {
			r.port.claims = withoutUnit(r.port.claims, unit)
			m.work.ports.add(r.port)
		}
	}
	for i := range unit.fragment.TLS {
		h := m.hosts[unit.fragment.TLS[i].Host]
		h.claims = withoutUnit(h.claims, unit)
		m.work.tls.add(h)
	}
}

// settleRoutes gives each path to its owner, which then asks for its backend.
func (m *Memo) settleRoutes() {
	for r := range m.work.claims.drain {
		var unit *backendUnit
		if owner, ok := r.owner(); ok {
			unit = m.demand(owner.backendKey(), owner.route().Backend)
		}
		if unit != r.backend {
			if r.backend != nil {
				r.backend.routes = r.backend.routes.without(r)
				if r.backend.idle() {
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
	owner, _ := r.owner()
	for _, c := range r.claims {
		switch {
		case r.port != nil && !r.port.allows(c):
			findings = append(findings, r.port.refusal(c))
			continue
		case c == owner || c.backendKey() == owner.backendKey() || rank(c) > 0:
			continue
		case r.port != nil:
			findings = append(findings, report.New(report.PortConflict, c.route().Origin,
				"host %s of port %d is served by %s, which claims it too and comes first", c.route().Host, r.port.number, owner.route().Origin))
			continue
		}
		path := "path " + c.route().Path
		if c.route().Match == ingress.Default {
			path = "the default"
		}
		findings = append(findings, report.New(report.PathConflict, c.route().Origin,
			"%s of host %s is served by %s, which claims it too and comes first", path, c.route().Host, owner.route().Origin))
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
			m.work.edit(r.id.table(), r.id.key, entry)
		}
		changed := entry != r.entry || protects != r.protects
		r.entry, r.protects = entry, protects
		if r.port != nil {
			m.work.frontends.add(r.port)
		} else if changed || entry == "" {
			m.work.hosts.add(r.host)
		}
		if len(r.claims) == 0 {
			m.dropRoute(r)
		}
	}
}

func (m *Memo) dropRoute(r *route) {
	if r.port != nil {
		r.port.routes = r.port.routes.without(r)
	} else {
		r.host.routes = r.host.routes.without(r)
	}
	delete(m.routes, r.id)
}
