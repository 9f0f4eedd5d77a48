package status

import (
	"maps"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/gateway"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
)

// Ledger holds the Item of each object that something is wanted of.
type Ledger struct {
	addresses []Address
	ours      map[snapshot.Key]bool // for each Ingress: whether it is this controller's
	items     map[snapshot.Key]Item

	controller gatewayv1.GatewayController
	wanted     map[snapshot.Key]gateway.Status // of objects of the Gateway API
}

// NewLedger is an empty Ledger of a controller, by the name that it has in statuses.
func NewLedger(controller string) *Ledger {
	return &Ledger{
		ours: map[snapshot.Key]bool{}, items: map[snapshot.Key]Item{},
		controller: gatewayv1.GatewayController(controller), wanted: map[snapshot.Key]gateway.Status{},
	}
}

// Update takes over the Ingresses that HAProxy now serves as they were converted, and
// whether each is this controller's, and the addresses in force. It returns the items that
// changed, sorted.
func (l *Ledger) Update(s *snapshot.Snapshot, converted map[snapshot.Key]bool, addresses []Address) []Item {
	for key, ours := range converted {
		if s.Object(key) == nil {
			delete(l.ours, key)
		} else {
			l.ours[key] = ours
		}
	}
	touched := maps.Keys(converted)
	if !equality.Semantic.DeepEqual(l.addresses, addresses) {
		l.addresses = addresses
		all := maps.Clone(converted)
		if all == nil {
			all = map[snapshot.Key]bool{}
		}
		maps.Copy(all, l.ours)
		touched = maps.Keys(all)
	}
	var changed []Item
	for key := range touched {
		before, after := l.items[key], l.item(s, key)
		if before.Wanted.Equal(after.Wanted) && before.Present.Equal(after.Present) {
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

// item is what is wanted of an Ingress, and what it shows.
func (l *Ledger) item(s *snapshot.Snapshot, key snapshot.Key) Item {
	item := Item{Object: key}
	ours, known := l.ours[key]
	ingress, _ := s.Object(key).(*networkingv1.Ingress)
	if !known || ingress == nil || len(l.addresses) == 0 {
		return item
	}
	present := ingress.Status.LoadBalancer
	switch {
	case ours:
		item.Wanted.LoadBalancer = &networkingv1.IngressLoadBalancerStatus{Ingress: l.addresses}
	case equality.Semantic.DeepEqual(present.Ingress, l.addresses):
		item.Wanted.LoadBalancer = &networkingv1.IngressLoadBalancerStatus{}
	default:
		return item
	}
	item.Present.LoadBalancer = &present
	return item
}

// Items are all that something is wanted of, sorted.
func (l *Ledger) Items() []Item { return byObject(slices.Collect(maps.Values(l.items))) }

// Addresses are those that Ingresses get at present.
func (l *Ledger) Addresses() []Address { return l.addresses }

func byObject(items []Item) []Item {
	slices.SortFunc(items, func(a, b Item) int { return snapshot.CompareKeys(a.Object, b.Object) })
	return items
}
