package gateway

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/resolve"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
)

// Contender is a route among others that want the same.
type Contender struct {
	Key     snapshot.Key
	Created time.Time
}

// Compare orders contenders: the older route first, then by namespace and name.
func (c Contender) Compare(other Contender) int {
	return cmp.Or(c.Created.Compare(other.Created), cmp.Compare(c.Key.Namespace, other.Key.Namespace),
		cmp.Compare(c.Key.Name, other.Key.Name), cmp.Compare(c.Key.Kind, other.Key.Kind))
}

// Refused are the contenders that are refused one host of one listener: HTTPRoutes and
// GRPCRoutes exclude each other there (GRPCRoute, v1.6), and the kind of the first contender
// has it.
func Refused(contenders []Contender) []snapshot.Key {
	if len(contenders) == 0 {
		return nil
	}
	first := slices.MinFunc(contenders, Contender.Compare)
	var refused []snapshot.Key
	for _, c := range contenders {
		if c.Key.Kind != first.Key.Kind {
			refused = append(refused, c.Key)
		}
	}
	slices.SortFunc(refused, snapshot.CompareKeys)
	return refused
}

// Without is the fragment without hosts that the route is refused, by listener. A parent at
// which nothing is left does not accept the route.
func (f *RouteFragment) Without(refused map[ListenerID][]string) RouteFragment {
	out := *f
	out.Attachments = nil
	left := make([]bool, len(f.Parents))
	lost := make([]bool, len(f.Parents))
	for _, a := range f.Attachments {
		if gone := refused[a.Listener]; len(gone) > 0 {
			a.Hosts = slices.DeleteFunc(slices.Clone(a.Hosts), func(host string) bool { return slices.Contains(gone, host) })
		}
		for _, i := range a.Parents {
			left[i] = left[i] || len(a.Hosts) > 0
			lost[i] = lost[i] || len(refused[a.Listener]) > 0
		}
		if len(a.Hosts) > 0 {
			out.Attachments = append(out.Attachments, a)
		}
	}
	out.Parents = slices.Clone(f.Parents)
	for i := range out.Parents {
		if left[i] || !lost[i] {
			continue
		}
		conditions := slices.DeleteFunc(slices.Clone(f.Parents[i].Conditions), func(c metav1.Condition) bool {
			return c.Type == string(gatewayv1.RouteConditionPartiallyInvalid)
		})
		out.Parents[i].Conditions = put(conditions, condition(gatewayv1.RouteConditionAccepted, metav1.ConditionFalse,
			gatewayv1.ListenerReasonHostnameConflict, "an older route of another kind has the hostnames on the listener"))
		observed(out.Parents[i].Conditions, f.Generation)
	}
	return out
}

// Denied is the fragment with every rule answering the given status, or closing connections.
func (f *RouteFragment) Denied(status int) RouteFragment {
	out := *f
	out.Attachments = slices.Clone(f.Attachments)
	for i := range out.Attachments {
		a := &out.Attachments[i]
		a.Rules = slices.Clone(a.Rules)
		for j := range a.Rules {
			first := a.Rules[j].Targets[0].Backend
			a.Rules[j].Targets = []Target{{Weight: 1, Backend: resolve.BackendRef{Namespace: first.Namespace, Deny: status, TCP: first.TCP}}}
		}
	}
	return out
}
