package memo

import (
	"cmp"
	"maps"

	"github.com/sluice-proxy/sluice/pkg/converters/gateway"
	"github.com/sluice-proxy/sluice/pkg/converters/resolve"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/converters/vhost"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// vhostKey is a virtual host of a frontend: the host of a listener, and a host of routes that
// it covers.
type vhostKey struct{ listener, host string }

// virtualHost holds the rules of all routes that have one host on one listener.
type virtualHost struct {
	key      vhostKey
	frontend *frontend
	id       string
	members  map[stand]struct{}
	refused  map[*routeUnit]bool // members that another kind of route keeps out
	first    stand               // of connections: the one that has them all
	action   string              // of connections: what they get
	program  vhost.Program       // what the tables hold
	backends map[*backendUnit]struct{}
}

// stand is a place of a route's rules: one of its attachments, in one virtual host.
type stand struct {
	route *routeUnit
	at    int // in fragment.Attachments
	vhost *virtualHost
}

// stand puts the rules of a route where they belong. It is called again where listeners
// moved.
func (m *Memo) stand(unit *routeUnit) {
	m.leave(unit)
	if m.units.routes[unit.key] != unit {
		return
	}
	for i := range unit.fragment.Attachments {
		a := &unit.fragment.Attachments[i]
		gw := m.units.gateways[a.Listener.Gateway]
		if gw == nil {
			continue
		}
		if gw.attached[a.Listener] == nil {
			gw.attached[a.Listener] = map[*routeUnit]bool{}
		}
		gw.attached[a.Listener][unit] = true
		m.units.statuses[gw.key] = true
		if u := gw.udp[a.Listener]; u != nil {
			m.standUDP(unit, i, u)
			continue
		}
		p, ok := gw.placement(a.Listener)
		if !ok {
			continue
		}
		for _, host := range a.Hosts {
			v := m.virtualHost(p.frontend, vhostKey{p.listener.Host, host})
			s := stand{unit, i, v}
			v.members[s] = struct{}{}
			unit.stands = append(unit.stands, s)
			m.work.vhosts.add(v)
		}
	}
}

func (u *gatewayUnit) placement(id gateway.ListenerID) (placement, bool) {
	for _, p := range u.placed {
		if p.listener.ID == id {
			return p, true
		}
	}
	return placement{}, false
}

// leave takes the rules of a route out of where they stand.
func (m *Memo) leave(unit *routeUnit) {
	for _, s := range unit.stands {
		delete(s.vhost.members, s)
		m.work.vhosts.add(s.vhost)
	}
	unit.stands = nil
	m.leaveUDP(unit)
	for i := range unit.fragment.Attachments {
		id := unit.fragment.Attachments[i].Listener
		if gw := m.units.gateways[id.Gateway]; gw != nil && gw.attached[id][unit] {
			delete(gw.attached[id], unit)
			m.units.statuses[gw.key] = true
		}
	}
}

// virtualHost is the virtual host of a key, new if need be.
func (m *Memo) virtualHost(f *frontend, key vhostKey) *virtualHost {
	v := f.vhosts[key]
	if v == nil {
		v = &virtualHost{key: key, frontend: f, id: vhost.ID(f.name, key.listener, key.host), members: map[stand]struct{}{}, backends: map[*backendUnit]struct{}{}}
		f.vhosts[key] = v
		m.knows(f, key.host, 1)
	}
	return v
}

// settleVirtualHosts asks for the backends of the virtual hosts that changed.
func (m *Memo) settleVirtualHosts() {
	for _, v := range m.work.vhosts.items {
		wanted := map[*backendUnit]struct{}{}
		m.contend(v)
		for s := range v.members {
			rules := v.serves(s)
			for i := range rules {
				for j := range rules[i].Targets {
					unit := m.demand(s.route.backends[s.at][i][j], rules[i].Targets[j].Backend)
					if _, known := wanted[unit]; !known {
						wanted[unit] = struct{}{}
						unit.vhosts = unit.vhosts.with(v)
					}
				}
			}
		}
		for unit := range v.backends {
			if _, still := wanted[unit]; !still {
				unit.vhosts = unit.vhosts.without(v)
				m.work.idleBackends.add(unit)
			}
		}
		v.backends = wanted
	}
}

// serves are the rules of a member that are served.
func (v *virtualHost) serves(s stand) []gateway.Rule {
	rules := s.route.fragment.Attachments[s.at].Rules
	switch {
	case v.refused[s.route], v.frontend.role != roleRequests && s != v.first:
		return nil
	case v.frontend.role != roleRequests && len(rules) > 1:
		return rules[:1] // nothing could choose among them
	}
	return rules
}

// contend decides which kind of routes has the virtual host. Connections have nothing but the
// name that tells them apart: the oldest route has all of them, and the others stay attached
// (TCPRoute, TLSRoute).
func (m *Memo) contend(v *virtualHost) {
	if v.frontend.role != roleRequests {
		v.first = stand{}
		for s := range v.members {
			if v.first.route == nil || s.before(v.first) {
				v.first = s
			}
		}
		return
	}
	var contenders []gateway.Contender
	mixed, kind := false, snapshot.Kind("")
	for s := range v.members {
		mixed = mixed || kind != "" && kind != s.route.key.Kind
		kind = s.route.key.Kind
	}
	refused := map[*routeUnit]bool{}
	if mixed {
		for s := range v.members {
			contenders = append(contenders, gateway.Contender{Key: s.route.key, Created: s.route.fragment.Created})
		}
		for _, key := range gateway.Refused(contenders) {
			refused[m.units.routes[key]] = true
		}
	}
	if maps.Equal(refused, v.refused) {
		return
	}
	v.refused = refused
	for s := range v.members {
		m.units.statuses[s.route.key] = true
		m.units.statuses[s.route.fragment.Attachments[s.at].Listener.Gateway] = true
	}
}

// before tells whether a stand is that of the older route.
func (s stand) before(other stand) bool {
	of := func(s stand) gateway.Contender {
		return gateway.Contender{Key: s.route.key, Created: s.route.fragment.Created}
	}
	return cmp.Or(of(s).Compare(of(other)), cmp.Compare(s.at, other.at)) < 0
}

// settlePrograms compiles the virtual hosts that changed, or whose backends have other names.
func (m *Memo) settlePrograms() {
	for v := range m.work.vhosts.drain {
		var program vhost.Program
		action := ""
		switch rules := m.rulesOf(v); {
		case len(v.members) == 0:
		case v.frontend.role == roleRequests:
			program = vhost.Compile(v.id, rules)
		case len(rules) == 0: // the route has none
			action = model.NoBackend
		default:
			action, program.Weights = vhost.Weighted(v.id, rules[0].Targets)
		}
		if action != v.action {
			v.action = action
			m.touch(v.frontend, v.key.host)
		}
		for table, change := range map[int][2]map[string]string{
			tableRules: {v.program.Exact, program.Exact}, tablePrefixes: {v.program.Prefix, program.Prefix},
			tableConditions: {v.program.Conditions, program.Conditions}, tableWeights: {v.program.Weights, program.Weights},
		} {
			m.editAll(table, change[0], change[1])
		}
		v.program = program
		m.work.gatewayHosts.add(frontendHost{v.frontend, v.key.host})
		if len(v.members) == 0 {
			delete(v.frontend.vhosts, v.key)
			m.knows(v.frontend, v.key.host, -1)
			m.work.listeners.add(v.frontend)
		}
	}
}

// editAll makes one set of entries of another one.
func (m *Memo) editAll(table int, before, after map[string]string) {
	for key, value := range after {
		if before[key] != value {
			m.work.edit(table, key, value)
		}
	}
	for key := range before {
		if _, stays := after[key]; !stays {
			m.work.edit(table, key, "")
		}
	}
}

// rulesOf are the rules that stand in a virtual host, with the names of their backends.
func (m *Memo) rulesOf(v *virtualHost) []vhost.Rule {
	var list []vhost.Rule
	for s := range v.members {
		route := s.route
		rules := v.serves(s)
		for i := range rules {
			rule := vhost.Rule{Route: route.key, Created: route.fragment.Created, Index: i, Matches: rules[i].Matches, Protects: rules[i].Closed}
			for j := range rules[i].Targets {
				backend, target := m.backends[route.backends[s.at][i][j]].backend, &rules[i].Targets[j]
				limit := int(target.Backend.Gateway.Limit().Milliseconds())
				rule.Targets = append(rule.Targets, vhost.Target{Backend: backend.Name, Weight: target.Weight, Limit: limit})
				rule.Protects = rule.Protects || backend.Profile.Shape.Protects() && backend.Profile.Shape.Deny != resolve.StatusBroken
			}
			list = append(list, rule)
		}
	}
	return list
}
