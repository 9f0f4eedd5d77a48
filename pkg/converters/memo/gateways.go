package memo

import (
	"maps"
	"slices"

	"github.com/sluice-proxy/sluice/pkg/converters/gateway"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// classUnit is one GatewayClass.
type classUnit struct {
	seen
	key      snapshot.Key
	fragment gateway.ClassFragment
}

// gatewayUnit is one Gateway, with the ListenerSets that are attached to it.
type gatewayUnit struct {
	seen
	key      snapshot.Key
	fragment gateway.Fragment
	// What the fold gave to it.
	addresses []string // its own, in the order in which they are written; nil: it shares one
	refused   []string // that it asks for and can't have
	closed    map[gateway.ListenerID]string
	placed    []placement
	udp       map[gateway.ListenerID]*udpListener // that are its own
	attached  map[gateway.ListenerID]map[*routeUnit]bool
}

// placement is a listener with the frontend that serves it.
type placement struct {
	listener *gateway.Listener
	frontend *frontend
}

// routeUnit is one route of any kind.
type routeUnit struct {
	seen
	key      snapshot.Key
	fragment gateway.RouteFragment
	backends [][][]string // keys of backend units by attachment, rule and target
	stands   []stand      // where its rules are
	udp      []*udpListener
}

// gatewayKind tells whether objects of a kind are units of the Gateway API.
func gatewayKind(kind snapshot.Kind) bool {
	return kind == snapshot.GatewayClass || kind == snapshot.Gateway || routeKind(kind)
}

// routeKind tells whether a kind is one of routes.
func routeKind(kind snapshot.Kind) bool {
	switch kind {
	case snapshot.HTTPRoute, snapshot.GRPCRoute, snapshot.TLSRoute, snapshot.TCPRoute, snapshot.UDPRoute:
		return true
	}
	return false
}

// gatewayUnits are the units of the Gateway API and what the fold made of them.
type gatewayUnits struct {
	classes   map[snapshot.Key]*classUnit
	gateways  map[snapshot.Key]*gatewayUnit
	routes    map[snapshot.Key]*routeUnit
	frontends map[string]*frontend
	udp       map[string]*udpListener
	udpModels []*model.UDPListener // sorted by name
	unbound   map[string]string    // see Unbound
	forms     map[snapshot.Key]any // the newest form of each object, whatever quarantine shows
	// statuses are the objects whose status may be another one than was told last.
	statuses map[snapshot.Key]bool
	policies policies
	sets     map[snapshot.Key][]snapshot.Key // ListenerSets whose statuses were told, by Gateway
	behind   map[string]bool                 // names of frontends that another one hands connections to
	refusal  []holding                       // of the profile that closes connections
}

func newGatewayUnits() gatewayUnits {
	return gatewayUnits{
		classes:   map[snapshot.Key]*classUnit{},
		gateways:  map[snapshot.Key]*gatewayUnit{},
		routes:    map[snapshot.Key]*routeUnit{},
		frontends: map[string]*frontend{},
		udp:       map[string]*udpListener{},
		forms:     map[snapshot.Key]any{},
		statuses:  map[snapshot.Key]bool{},
		policies:  newPolicies(),
		sets:      map[snapshot.Key][]snapshot.Key{},
	}
}

// onlyGatewayStatus tells whether nothing that is read of an object changed.
func (m *Memo) onlyGatewayStatus(key snapshot.Key) bool {
	before, after := m.units.forms[key], m.snapshot.Object(key)
	if after == nil {
		delete(m.units.forms, key)
		return false
	}
	m.units.forms[key] = after
	if before == nil || !sameForm(before, after) {
		return false
	}
	m.units.statuses[key] = true
	return true
}

// markGateway makes the unit of a key of the Gateway API, where there is none yet.
func (m *Memo) markGateway(key snapshot.Key) {
	if m.snapshot.Object(key) == nil {
		return
	}
	u := &m.units
	switch {
	case key.Kind == snapshot.BackendTLSPolicy && u.policies.units[key] == nil:
		u.policies.units[key] = &policyUnit{key: key}
		m.work.policies.add(u.policies.units[key])
	case key.Kind == snapshot.GatewayClass && u.classes[key] == nil:
		u.classes[key] = &classUnit{key: key}
		m.work.classes.add(u.classes[key])
	case key.Kind == snapshot.Gateway && u.gateways[key] == nil:
		u.gateways[key] = &gatewayUnit{key: key, attached: map[gateway.ListenerID]map[*routeUnit]bool{}}
		m.work.gateways.add(u.gateways[key])
	case routeKind(key.Kind) && u.routes[key] == nil:
		u.routes[key] = &routeUnit{key: key}
		m.work.gatewayRoutes.add(u.routes[key])
	}
}

func (m *Memo) gatewayClass() gateway.Class {
	return gateway.Class{Controller: m.options.Class.Controller}
}

func (m *Memo) runClass(unit *classUnit) {
	v := m.view()
	fragment := gateway.ConvertClass(v, m.gatewayClass(), unit.key)
	m.note(unit, counted(kindClass, fragment.Mine || unit.fragment.Mine), v, nil)
	unit.fragment = fragment
	m.units.statuses[unit.key] = true
	if m.snapshot.Object(unit.key) == nil {
		m.index.note(unit, nil)
		delete(m.units.classes, unit.key)
	}
}

// counted is the kind of a conversion, or nothing where it was somebody else's object.
func counted(kind string, mine bool) string {
	if mine {
		return kind
	}
	return ""
}

func (m *Memo) runGateway(unit *gatewayUnit) {
	v := m.view()
	fragment := gateway.ConvertGateway(v, m.gatewayClass(), unit.key)
	m.note(unit, counted(kindGateway, fragment.Mine || unit.fragment.Mine), v, fragment.Findings)
	unit.fragment = fragment
	m.work.placing = true
	m.units.statuses[unit.key] = true
	if m.snapshot.Object(unit.key) == nil {
		m.index.note(unit, nil)
		m.say(unit, nil)
		delete(m.units.gateways, unit.key)
		m.work.gone = append(m.work.gone, unit)
	}
}

func (m *Memo) runRoute(unit *routeUnit) {
	v := m.view()
	fragment := gateway.ConvertRoute(v, m.gatewayClass(), unit.key)
	if m.quarantine.denied[unit.key] {
		fragment = denied(fragment)
	}
	m.note(unit, counted(kindRoute, fragment.Mine || unit.fragment.Mine), v, fragment.Findings)
	m.leave(unit)
	m.lead(&unit.fragment, -1)
	m.lead(&fragment, 1)
	unit.fragment = fragment
	m.units.statuses[unit.key] = true
	if m.snapshot.Object(unit.key) == nil {
		m.index.note(unit, nil)
		m.say(unit, nil)
		delete(m.units.routes, unit.key)
		return
	}
	unit.backends = keysOf(&fragment)
	m.work.standing.add(unit)
}

// keysOf are the keys of the backends that a route asks for. Attachments may share rules.
func keysOf(f *gateway.RouteFragment) [][][]string {
	all := make([][][]string, len(f.Attachments))
	for i, a := range f.Attachments {
		if i > 0 && sameRules(a.Rules, f.Attachments[i-1].Rules) {
			all[i] = all[i-1]
			continue
		}
		all[i] = make([][]string, len(a.Rules))
		for j := range a.Rules {
			targets := a.Rules[j].Targets
			all[i][j] = make([]string, len(targets))
			for k := range targets {
				all[i][j][k] = targets[k].Backend.Key()
			}
		}
	}
	return all
}

func sameRules(a, b []gateway.Rule) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// settleGateways gives each Gateway its addresses and frontends, if any Gateway changed. It
// walks over all Gateways, which are few; routes are placed again where their listeners
// moved.
func (m *Memo) settleGateways() {
	for _, unit := range m.work.gone {
		m.place(unit, nil)
		m.placeUDP(unit, nil)
	}
	if len(m.work.ports.items) > 0 && len(m.options.GatewayAddresses) == 0 {
		m.work.placing = true // TCP services may have taken a port, or left it
	}
	if m.work.placing {
		units := slices.SortedFunc(maps.Values(m.units.gateways), compareGateways)
		m.assign(units)
		ports, datagrams := map[string]*sharing{}, map[string]bool{}
		for _, unit := range units {
			m.place(unit, m.placements(unit, ports))
			m.placeUDP(unit, datagrams)
		}
		m.divide(ports)
	}
	for unit := range m.work.standing.drain {
		m.stand(unit)
	}
}

// compareGateways puts the older Gateway first.
func compareGateways(a, b *gatewayUnit) int {
	if older := a.fragment.Created.Compare(b.fragment.Created); older != 0 {
		return older
	}
	return snapshot.CompareKeys(a.key, b.key)
}

// placements are the listeners of a Gateway that are served, each with its frontend. Ports are
// those that older Gateways use.
func (m *Memo) placements(unit *gatewayUnit, ports map[string]*sharing) []placement {
	unit.closed = map[gateway.ListenerID]string{}
	var list []placement
	for i := range unit.fragment.Listeners {
		l := &unit.fragment.Listeners[i]
		if _, known := roleOf(l); !known || !l.Serves {
			continue // datagrams are not HAProxy's
		}
		f, why := m.placed(unit, l, ports)
		if why != "" {
			unit.closed[l.ID] = why
			continue
		}
		list = append(list, placement{l, f})
	}
	return list
}

// place takes over the listeners of a Gateway. Routes of listeners that came, went or moved
// are placed again.
func (m *Memo) place(unit *gatewayUnit, list []placement) {
	moved := map[gateway.ListenerID]bool{}
	before := map[gateway.ListenerID]placement{}
	for _, p := range unit.placed {
		before[p.listener.ID] = p
	}
	for _, p := range list {
		old, known := before[p.listener.ID]
		delete(before, p.listener.ID)
		if known && old.frontend == p.frontend && old.listener.Host == p.listener.Host {
			p.frontend.replace(old.listener, p.listener)
			m.work.listeners.add(p.frontend)
			continue
		}
		if known {
			m.closeListener(old)
		}
		m.openListener(unit, p)
		moved[p.listener.ID] = true
	}
	for id, old := range before {
		m.closeListener(old)
		moved[id] = true
	}
	unit.placed = list
	for id := range moved {
		for route := range unit.attached[id] {
			m.work.standing.add(route)
		}
	}
	m.units.statuses[unit.key] = true
}
