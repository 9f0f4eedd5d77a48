package memo

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/gateway"
	"github.com/sluice-proxy/sluice/pkg/converters/resolve"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
)

// Statuses are what the statuses of those objects of the Gateway API shall be for which it
// may be something else than at the last call. The zero Status wants nothing. Published are
// the addresses of Gateways that have none of their own.
func (m *Memo) Statuses(published []string) map[snapshot.Key]gateway.Status {
	if !slices.Equal(published, m.published) {
		m.published = slices.Clone(published)
		for key := range m.units.gateways {
			m.units.statuses[key] = true
		}
	}
	statuses := map[snapshot.Key]gateway.Status{}
	for key := range m.units.statuses {
		if unit := m.units.gateways[key]; unit != nil || key.Kind == snapshot.Gateway {
			m.gatewayStatus(key, unit, statuses)
			continue
		}
		statuses[key] = m.statusOf(key)
	}
	clear(m.units.statuses)
	return statuses
}

// statusOf is the status of an object that is no Gateway.
func (m *Memo) statusOf(key snapshot.Key) gateway.Status {
	if unit := m.units.classes[key]; unit != nil && unit.fragment.Mine {
		return gateway.Status{Class: unit.fragment.Status.DeepCopy()}
	}
	if unit := m.units.policies.units[key]; unit != nil {
		return m.policyStatus(unit)
	}
	if unit := m.units.routes[key]; unit != nil && unit.fragment.Mine {
		f := unit.fragment.Without(unit.refused())
		return gateway.Status{Parents: f.Parents}
	}
	return gateway.Status{}
}

// gatewayStatus is the status of a Gateway, and of the ListenerSets that name it.
func (m *Memo) gatewayStatus(key snapshot.Key, unit *gatewayUnit, statuses map[snapshot.Key]gateway.Status) {
	statuses[key] = gateway.Status{}
	told := m.units.sets[key]
	delete(m.units.sets, key)
	defer func() { m.untell(key, told, statuses) }()
	if unit == nil || !unit.fragment.Mine {
		return
	}
	place := gateway.Place{Addresses: unit.addresses, Refused: unit.refused, Closed: m.closedOf(unit), Routes: map[gateway.ListenerID]int{}}
	if len(m.options.GatewayAddresses) == 0 {
		place.Addresses = m.published
	}
	for id, routes := range unit.attached {
		for route := range routes {
			if route.standsOn(id) {
				place.Routes[id]++
			}
		}
	}
	status, sets := unit.fragment.Placed(place)
	statuses[key] = gateway.Status{Gateway: &status, Infrastructure: m.infrastructure(unit)}
	for i := range sets {
		statuses[sets[i].Key] = gateway.Status{ListenerSet: &sets[i].Status}
		m.units.sets[key] = append(m.units.sets[key], sets[i].Key)
	}
}

// untell wants nothing any more of ListenerSets that left a Gateway, unless another one has them.
func (m *Memo) untell(key snapshot.Key, told []snapshot.Key, statuses map[snapshot.Key]gateway.Status) {
	for _, set := range told {
		if _, known := statuses[set]; !known && !slices.Contains(m.units.sets[key], set) {
			statuses[set] = gateway.Status{}
		}
	}
}

// infrastructure is what is made for a Gateway besides; nil: nothing.
func (m *Memo) infrastructure(unit *gatewayUnit) *gateway.Infrastructure {
	f := &unit.fragment
	object, ok := m.snapshot.Object(unit.key).(metav1.Object)
	if !ok || len(f.Labels)+len(f.Annotations) == 0 {
		return nil
	}
	return &gateway.Infrastructure{Labels: f.Labels, Annotations: f.Annotations, UID: object.GetUID()}
}

// refused are the hosts that a route is refused, by listener.
func (u *routeUnit) refused() map[gateway.ListenerID][]string {
	var refused map[gateway.ListenerID][]string
	for _, s := range u.stands {
		if s.vhost.refused[u] {
			if refused == nil {
				refused = map[gateway.ListenerID][]string{}
			}
			id := u.fragment.Attachments[s.at].Listener
			refused[id] = append(refused[id], s.vhost.key.host)
		}
	}
	return refused
}

// standsOn tells whether a listener takes the route: it has a host there that it is not
// refused.
func (u *routeUnit) standsOn(id gateway.ListenerID) bool {
	refused := u.refused()
	for _, a := range u.fragment.Attachments {
		if a.Listener == id && len(refused[id]) < len(a.Hosts) {
			return true
		}
	}
	return false
}

// denied is the route with an answer of 503 in the place of all its backends.
func denied(f gateway.RouteFragment) gateway.RouteFragment {
	for i := range f.Attachments {
		a := &f.Attachments[i]
		a.Rules = slices.Clone(a.Rules)
		for j := range a.Rules {
			rule := &a.Rules[j]
			namespace := rule.Targets[0].Backend.Namespace
			rule.Targets = []gateway.Target{{Weight: 1, Backend: resolve.BackendRef{
				Namespace: namespace, Deny: resolve.StatusDenied, TCP: rule.Targets[0].Backend.TCP, Origin: rule.Origin,
			}}}
		}
	}
	return f
}
