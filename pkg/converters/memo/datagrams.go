package memo

import (
	"cmp"
	"strconv"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/gateway"
	"github.com/sluice-proxy/sluice/pkg/converters/resolve"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/token"
)

// udpListener is a listener for datagrams, with all routes that are attached to it. The oldest
// of them is served.
type udpListener struct {
	name      string
	gateway   snapshot.Key      // whose it is
	listener  *gateway.Listener // nil: nobody's any more
	addresses []string
	members   map[*routeUnit]int // at in fragment.Attachments
	backends  map[*backendUnit]struct{}
	model     *model.UDPListener
}

// udpName names a listener for datagrams: that of a Gateway's own addresses, or of a port of the
// machine.
func (m *Memo) udpName(unit *gatewayUnit, l *gateway.Listener) (name, why string) {
	port := strconv.Itoa(l.Port)
	if len(m.options.GatewayAddresses) == 0 {
		return "udp_" + port, ""
	}
	if len(unit.addresses) == 0 {
		return "", "the Gateway has no address"
	}
	return "udp_" + token.Name(unit.key.Namespace, unit.key.Name, port), ""
}

// placeUDP takes over the listeners for datagrams of a Gateway, in the order of precedence of
// Gateways: a port is that of the first one. Routes of listeners that came, went or moved are
// placed again.
func (m *Memo) placeUDP(unit *gatewayUnit, owners map[string]bool) {
	next := map[gateway.ListenerID]*udpListener{}
	for i := range unit.fragment.Listeners {
		l := &unit.fragment.Listeners[i]
		if !l.Serves || l.Protocol != gatewayv1.UDPProtocolType {
			continue
		}
		name, why := m.udpName(unit, l)
		if why == "" && owners[name] {
			why = "UDP port " + strconv.Itoa(l.Port) + " is served for an older Gateway"
		}
		if why != "" {
			unit.closed[l.ID] = why
			continue
		}
		owners[name] = true
		next[l.ID] = m.openUDP(name, unit, l)
	}
	for id, u := range unit.udp {
		if next[id] != u {
			m.closeUDP(id, u)
			m.standAgain(unit, id)
		}
	}
	for id, u := range next {
		if unit.udp[id] != u {
			m.standAgain(unit, id)
		}
	}
	unit.udp = next
}

func (m *Memo) openUDP(name string, unit *gatewayUnit, l *gateway.Listener) *udpListener {
	u := m.units.udp[name]
	if u == nil {
		u = &udpListener{name: name, members: map[*routeUnit]int{}, backends: map[*backendUnit]struct{}{}}
		m.units.udp[name] = u
	}
	u.gateway, u.listener, u.addresses = unit.key, l, m.bound(unit, l.Port)
	m.work.udp.add(u)
	return u
}

// closeUDP gives a listener up, unless another one has taken its place.
func (m *Memo) closeUDP(id gateway.ListenerID, u *udpListener) {
	if u.listener != nil && u.listener.ID == id {
		u.listener = nil
	}
	m.work.udp.add(u)
}

// standAgain has the routes of a listener placed again.
func (m *Memo) standAgain(unit *gatewayUnit, id gateway.ListenerID) {
	for route := range unit.attached[id] {
		m.work.standing.add(route)
	}
}

// standUDP attaches a route to a listener for datagrams.
func (m *Memo) standUDP(route *routeUnit, at int, u *udpListener) {
	u.members[route] = at
	route.udp = append(route.udp, u)
	m.work.udp.add(u)
}

// leaveUDP takes a route from the listeners that it is attached to.
func (m *Memo) leaveUDP(route *routeUnit) {
	for _, u := range route.udp {
		delete(u.members, route)
		m.work.udp.add(u)
	}
	route.udp = nil
}

// served is the route that has the listener, the oldest one; nil: none.
func (u *udpListener) served() *routeUnit {
	var first *routeUnit
	if u.listener == nil {
		return nil
	}
	for route := range u.members {
		if first == nil || compareRoutes(route, first) < 0 {
			first = route
		}
	}
	return first
}

// compareRoutes puts the older route first.
func compareRoutes(a, b *routeUnit) int {
	return cmp.Or(a.fragment.Created.Compare(b.fragment.Created), snapshot.CompareKeys(a.key, b.key))
}

// targets are the backends of the rule that is served, with their keys.
func (u *udpListener) targets() ([]gateway.Target, []string) {
	route := u.served()
	if route == nil {
		return nil, nil
	}
	at := u.members[route]
	rules := route.fragment.Attachments[at].Rules
	if len(rules) == 0 {
		return nil, nil
	}
	return rules[0].Targets, route.backends[at][0] // the API has one rule
}

// settleUDP asks for the backends of the listeners for datagrams that changed.
func (m *Memo) settleUDP() {
	for _, u := range m.work.udp.items {
		wanted := map[*backendUnit]struct{}{}
		targets, keys := u.targets()
		for i := range targets {
			if targets[i].Backend.Deny != 0 || targets[i].Weight == 0 {
				continue
			}
			unit := m.demand(keys[i], targets[i].Backend)
			wanted[unit] = struct{}{}
			unit.udp = unit.udp.with(u)
		}
		for unit := range u.backends {
			if _, still := wanted[unit]; !still {
				unit.udp = unit.udp.without(u)
				m.work.idleBackends.add(unit)
			}
		}
		u.backends = wanted
	}
}

// adoptUDP takes over the result of the run of a backend for datagrams, which HAProxy does not
// have: it holds nothing and has no name.
func (m *Memo) adoptUDP(unit *backendUnit, fragment resolve.BackendFragment) {
	if (model.UDPTarget{Backend: unit.backend}).Equal(model.UDPTarget{Backend: fragment.Backend}) {
		return
	}
	unit.backend = fragment.Backend
	unit.udp.each(m.work.udp.add)
}

// settleUDPModels brings the Model in line with the listeners for datagrams.
func (m *Memo) settleUDPModels() {
	var edits []edit[*model.UDPListener]
	for u := range m.work.udp.drain {
		next := m.udpModel(u)
		if !next.Equal(u.model) {
			u.model = next
			edits = append(edits, edit[*model.UDPListener]{name: u.name, value: next, keep: next != nil})
		}
		if next == nil && len(u.members) == 0 {
			delete(m.units.udp, u.name)
		}
	}
	m.units.udpModels, _ = merged(m.units.udpModels, func(l *model.UDPListener) string { return l.Name }, edits)
}

// udpModel is the listener as the forwarder has it; nil: there is none.
func (m *Memo) udpModel(u *udpListener) *model.UDPListener {
	if u.listener == nil {
		return nil
	}
	out := &model.UDPListener{Name: u.name, Addresses: u.addresses, Origin: u.listener.Origin}
	targets, keys := u.targets()
	for i := range targets {
		t := model.UDPTarget{Weight: targets[i].Weight}
		if t.Weight == 0 {
			continue
		}
		if targets[i].Backend.Deny == 0 {
			t.Backend = m.backends[keys[i]].backend
		}
		out.Targets = append(out.Targets, t)
	}
	return out
}

// Unbound says which listeners for datagrams have no socket, and why, by their name. It tells
// whether that is news.
func (m *Memo) Unbound(why map[string]string) bool {
	news := false
	for name, u := range m.units.udp {
		if why[name] == m.units.unbound[name] {
			continue
		}
		news = true
		m.units.statuses[u.gateway] = true
	}
	m.units.unbound = why
	return news
}

// closedOf are the listeners of a Gateway that can't be had, those without a socket among them.
func (m *Memo) closedOf(unit *gatewayUnit) map[gateway.ListenerID]string {
	closed := unit.closed
	for id, u := range unit.udp {
		why := m.units.unbound[u.name]
		if why == "" {
			continue
		}
		if len(closed) == len(unit.closed) {
			closed = make(map[gateway.ListenerID]string, len(unit.closed)+1)
			for id, why := range unit.closed {
				closed[id] = why
			}
		}
		closed[id] = why
	}
	return closed
}
