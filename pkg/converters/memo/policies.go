package memo

import (
	"maps"
	"slices"

	"github.com/sluice-proxy/sluice/pkg/converters/gateway"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
)

// policyUnit is one BackendTLSPolicy. What it does to servers is in the units of backends; here
// is what its status says. No older form of it is ever shown: that might open what it protects.
type policyUnit struct {
	seen
	key      snapshot.Key
	fragment gateway.PolicyFragment
}

// policies are the units of policies, and which Gateways they concern.
type policies struct {
	units    map[snapshot.Key]*policyUnit
	targeted map[snapshot.Key]map[*policyUnit]bool // Service -> the policies for it
	leading  map[snapshot.Key]map[snapshot.Key]int // Service -> Gateway -> how often routes lead from it there
}

func newPolicies() policies {
	return policies{
		units:    map[snapshot.Key]*policyUnit{},
		targeted: map[snapshot.Key]map[*policyUnit]bool{},
		leading:  map[snapshot.Key]map[snapshot.Key]int{},
	}
}

func (m *Memo) runPolicy(unit *policyUnit) {
	v := m.view()
	fragment := gateway.ConvertPolicy(v, unit.key)
	gone := m.snapshot.Object(unit.key) == nil
	m.note(unit, kindPolicy, v, nil)
	p := &m.units.policies
	for _, service := range unit.fragment.Targets {
		delete(p.targeted[service], unit)
		if len(p.targeted[service]) == 0 {
			delete(p.targeted, service)
		}
	}
	for _, service := range fragment.Targets {
		if p.targeted[service] == nil {
			p.targeted[service] = map[*policyUnit]bool{}
		}
		p.targeted[service][unit] = true
	}
	unit.fragment = fragment
	m.concern(unit)
	if gone {
		m.index.note(unit, nil)
		delete(p.units, unit.key)
	}
}

// lead notes that a route leads from its Gateways to its Services, or with -1 that it does no
// longer. The statuses of their policies name these Gateways.
func (m *Memo) lead(f *gateway.RouteFragment, by int) {
	p := &m.units.policies
	for i := range f.Attachments {
		from := f.Attachments[i].Listener.Gateway
		for j := range f.Attachments[i].Rules {
			for _, target := range f.Attachments[i].Rules[j].Targets {
				if target.Backend.Service == "" {
					continue
				}
				to := snapshot.Key{Kind: snapshot.Service, Namespace: target.Backend.Namespace, Name: target.Backend.Service}
				p.count(from, to, by)
				for unit := range p.targeted[to] {
					m.concern(unit)
				}
			}
		}
	}
}

func (p *policies) count(from, to snapshot.Key, by int) {
	if p.leading[to] == nil {
		p.leading[to] = map[snapshot.Key]int{}
	}
	p.leading[to][from] += by
	if p.leading[to][from] == 0 {
		delete(p.leading[to], from)
	}
	if len(p.leading[to]) == 0 {
		delete(p.leading, to)
	}
}

// concern notes that a policy, or the Gateways that it concerns, are others. One that concerns
// no Gateway of this controller is somebody else's: nothing is said of it.
func (m *Memo) concern(unit *policyUnit) {
	m.units.statuses[unit.key] = true
	if len(m.concerned(unit)) > 0 {
		m.say(unit, unit.fragment.Findings)
	} else {
		m.say(unit, nil)
	}
}

// policyStatus is the status of a policy: an entry for each Gateway that it concerns.
func (m *Memo) policyStatus(unit *policyUnit) gateway.Status {
	return gateway.Status{Ancestors: unit.fragment.Ancestors(m.gatewayClass(), m.concerned(unit))}
}

// concerned are the Gateways with a route to a target of a policy; some may be named twice.
func (m *Memo) concerned(unit *policyUnit) []snapshot.Key {
	var gateways []snapshot.Key
	for _, service := range unit.fragment.Targets {
		gateways = slices.AppendSeq(gateways, maps.Keys(m.units.policies.leading[service]))
	}
	return gateways
}
