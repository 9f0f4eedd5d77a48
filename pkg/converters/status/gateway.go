package status

import (
	"slices"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/gateway"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
)

// UpdateGateway takes over what is wanted of objects of the Gateway API as HAProxy now serves
// them, of those whose conversion is new, and which objects the source showed in a new form
// since the last call. It returns the items that changed, sorted.
func (l *Ledger) UpdateGateway(s *snapshot.Snapshot, wanted map[snapshot.Key]gateway.Status, seen []snapshot.Key) []Item {
	touched := make(map[snapshot.Key]struct{}, len(wanted)+len(seen))
	for key, status := range wanted {
		touched[key] = struct{}{}
		if status.IsZero() {
			delete(l.wanted, key)
		} else {
			l.wanted[key] = status
		}
	}
	for _, key := range seen {
		touched[key] = struct{}{}
	}
	var changed []Item
	for key := range touched {
		if s.Object(key) == nil {
			delete(l.wanted, key)
		}
		before, known := l.items[key]
		after := l.gatewayItem(s, key)
		if after.Wanted.IsZero() && !known || before.equal(after) {
			continue
		}
		if after.Wanted.IsZero() {
			delete(l.items, key)
		} else {
			l.items[key] = after
		}
		changed = append(changed, after)
	}
	return byObject(changed)
}

func (i Item) equal(other Item) bool {
	return i.Version == other.Version && i.Wanted.Equal(other.Wanted) && i.Present.Equal(other.Present)
}

// gatewayItem is what is wanted of an object of the Gateway API, and what it shows.
func (l *Ledger) gatewayItem(s *snapshot.Snapshot, key snapshot.Key) Item {
	item := Item{Object: key}
	object, found := s.Object(key).(interface{ GetResourceVersion() string })
	if !found {
		return item
	}
	present := Shown(object)
	wanted, ours := l.wanted[key]
	if !ours && !l.leftovers(present) {
		return item
	}
	item.Wanted = Status{Gateway: wanted, Withdrawn: !ours}
	item.Present.Gateway, item.Controller, item.Version = present, l.controller, object.GetResourceVersion()
	return item
}

// leftovers tells whether a list that controllers share has an entry of this one.
func (l *Ledger) leftovers(present gateway.Status) bool {
	return slices.ContainsFunc(present.Parents, func(p gatewayv1.RouteParentStatus) bool { return p.ControllerName == l.controller }) ||
		slices.ContainsFunc(present.Ancestors, func(a gatewayv1.PolicyAncestorStatus) bool { return a.ControllerName == l.controller })
}

// Shown is the status that an object of the Gateway API shows, whoever wrote it.
func Shown(object any) gateway.Status {
	switch o := object.(type) {
	case *gatewayv1.GatewayClass:
		return gateway.Status{Class: &o.Status}
	case *gatewayv1.Gateway:
		return gateway.Status{Gateway: &o.Status}
	case *gatewayv1.ListenerSet:
		return gateway.Status{ListenerSet: &o.Status}
	case *gatewayv1.HTTPRoute:
		return gateway.Status{Parents: o.Status.Parents}
	case *gatewayv1.GRPCRoute:
		return gateway.Status{Parents: o.Status.Parents}
	case *gatewayv1.TLSRoute:
		return gateway.Status{Parents: o.Status.Parents}
	case *gatewayv1.TCPRoute:
		return gateway.Status{Parents: o.Status.Parents}
	case *gatewayv1.UDPRoute:
		return gateway.Status{Parents: o.Status.Parents}
	case *gatewayv1.BackendTLSPolicy:
		return gateway.Status{Ancestors: o.Status.Ancestors}
	}
	return gateway.Status{}
}

// HasStatus tells whether objects of a kind of the Gateway API have a status.
func HasStatus(kind snapshot.Kind) bool {
	switch kind {
	case snapshot.GatewayClass, snapshot.Gateway, snapshot.ListenerSet, snapshot.HTTPRoute, snapshot.GRPCRoute, snapshot.TLSRoute,
		snapshot.TCPRoute, snapshot.UDPRoute, snapshot.BackendTLSPolicy:
		return true
	}
	return false
}
