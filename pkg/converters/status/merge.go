package status

import (
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/gateway"
)

// How many entries the lists of a status may have.
const (
	maxConditions = 8
	maxParents    = 32
	maxAncestors  = 16
)

// merging turns what stands in a status into what shall stand there. Whatever is somebody
// else's stays as it is and where it is; what is right already stays, too, with its time.
type merging struct {
	controller gatewayv1.GatewayController
	now        metav1.Time // of transitions
}

// merge is the whole status of an object: what is present with what is wanted in it.
func (m merging) merge(present, wanted gateway.Status) gateway.Status {
	return gateway.Status{
		Class:       m.class(present.Class, wanted.Class),
		Gateway:     m.gateway(present.Gateway, wanted.Gateway),
		ListenerSet: m.listenerSet(present.ListenerSet, wanted.ListenerSet),
		Parents: entries(present.Parents, wanted.Parents, maxParents, entryKind[gatewayv1.RouteParentStatus]{
			ours: func(p gatewayv1.RouteParentStatus) bool { return p.ControllerName == m.controller },
			same: func(a, b gatewayv1.RouteParentStatus) bool { return reflect.DeepEqual(a.ParentRef, b.ParentRef) },
			merge: func(before, after gatewayv1.RouteParentStatus) gatewayv1.RouteParentStatus {
				after.Conditions = m.conditions(before.Conditions, after.Conditions, routeConditions)
				return after
			},
		}),
		Ancestors: entries(present.Ancestors, wanted.Ancestors, maxAncestors, entryKind[gatewayv1.PolicyAncestorStatus]{
			ours: func(a gatewayv1.PolicyAncestorStatus) bool { return a.ControllerName == m.controller },
			same: func(a, b gatewayv1.PolicyAncestorStatus) bool { return reflect.DeepEqual(a.AncestorRef, b.AncestorRef) },
			merge: func(before, after gatewayv1.PolicyAncestorStatus) gatewayv1.PolicyAncestorStatus {
				after.Conditions = m.conditions(before.Conditions, after.Conditions, policyConditions)
				return after
			},
		}),
	}
}

func (m merging) class(present, wanted *gatewayv1.GatewayClassStatus) *gatewayv1.GatewayClassStatus {
	if wanted == nil || present == nil {
		return present
	}
	after := *wanted
	after.Conditions = m.conditions(present.Conditions, wanted.Conditions, classConditions)
	return &after
}

func (m merging) gateway(present, wanted *gatewayv1.GatewayStatus) *gatewayv1.GatewayStatus {
	if wanted == nil || present == nil {
		return present
	}
	after := *wanted
	after.Conditions = m.conditions(present.Conditions, wanted.Conditions, gatewayConditions)
	after.Listeners = slices.Clone(wanted.Listeners)
	for i := range after.Listeners {
		listener := &after.Listeners[i]
		var before []metav1.Condition
		if at := slices.IndexFunc(present.Listeners, func(l gatewayv1.ListenerStatus) bool { return l.Name == listener.Name }); at >= 0 {
			before = present.Listeners[at].Conditions
		}
		listener.Conditions = m.conditions(before, listener.Conditions, listenerConditions)
		if listener.SupportedKinds == nil {
			listener.SupportedKinds = []gatewayv1.RouteGroupKind{} // none; nil would be left out
		}
	}
	return &after
}

func (m merging) listenerSet(present, wanted *gatewayv1.ListenerSetStatus) *gatewayv1.ListenerSetStatus {
	if wanted == nil || present == nil {
		return present
	}
	after := *wanted
	after.Conditions = m.conditions(present.Conditions, wanted.Conditions, gatewayConditions)
	after.Listeners = slices.Clone(wanted.Listeners)
	for i := range after.Listeners {
		listener := &after.Listeners[i]
		var before []metav1.Condition
		if at := slices.IndexFunc(present.Listeners, func(l gatewayv1.ListenerEntryStatus) bool { return l.Name == listener.Name }); at >= 0 {
			before = present.Listeners[at].Conditions
		}
		listener.Conditions = m.conditions(before, listener.Conditions, listenerConditions)
	}
	return &after
}

// The types of conditions that are this controller's, on each kind of object. One of them
// that is not wanted is removed; all others are somebody else's.

func classConditions(kind string) bool {
	return kind == string(gatewayv1.GatewayClassConditionStatusAccepted) || kind == string(gatewayv1.GatewayClassConditionStatusSupportedVersion)
}

func gatewayConditions(kind string) bool {
	switch gatewayv1.GatewayConditionType(kind) {
	case gatewayv1.GatewayConditionAccepted, gatewayv1.GatewayConditionProgrammed, gatewayv1.GatewayConditionResolvedRefs,
		gatewayv1.GatewayConditionInsecureFrontendValidationMode:
		return true
	}
	return false
}

func listenerConditions(kind string) bool {
	switch gatewayv1.ListenerConditionType(kind) {
	case gatewayv1.ListenerConditionAccepted, gatewayv1.ListenerConditionProgrammed, gatewayv1.ListenerConditionResolvedRefs,
		gatewayv1.ListenerConditionConflicted, gatewayv1.ListenerConditionOverlappingTLSConfig:
		return true
	}
	return false
}

func routeConditions(kind string) bool {
	switch gatewayv1.RouteConditionType(kind) {
	case gatewayv1.RouteConditionAccepted, gatewayv1.RouteConditionResolvedRefs, gatewayv1.RouteConditionPartiallyInvalid:
		return true
	}
	return false
}

func policyConditions(kind string) bool {
	return kind == string(gatewayv1.PolicyConditionAccepted) || kind == string(gatewayv1.BackendTLSPolicyConditionResolvedRefs)
}

// conditions are those that shall stand in a list: present ones in their order, then new ones.
func (m merging) conditions(present, wanted []metav1.Condition, ours func(kind string) bool) []metav1.Condition {
	merged := make([]metav1.Condition, 0, max(len(present), len(wanted)))
	for _, before := range present {
		if at := indexOf(wanted, before.Type); at >= 0 {
			merged = append(merged, m.transition(before, wanted[at]))
		} else if !ours(before.Type) {
			merged = append(merged, before)
		}
	}
	for _, after := range wanted {
		if indexOf(present, after.Type) < 0 {
			merged = append(merged, m.transition(metav1.Condition{}, after))
		}
	}
	// The API server refuses a longer list as a whole.
	for at := len(merged) - 1; at >= 0 && len(merged) > maxConditions; at-- {
		if indexOf(wanted, merged[at].Type) < 0 {
			merged = slices.Delete(merged, at, at+1)
		}
	}
	return merged
}

func (m merging) transition(before, after metav1.Condition) metav1.Condition {
	after.LastTransitionTime = before.LastTransitionTime
	if before.Status != after.Status {
		after.LastTransitionTime = m.now
	}
	return after
}

func indexOf(conditions []metav1.Condition, kind string) int {
	return slices.IndexFunc(conditions, func(c metav1.Condition) bool { return c.Type == kind })
}

// entryKind says how the entries of a list that several controllers share are compared.
type entryKind[T any] struct {
	ours  func(T) bool
	same  func(a, b T) bool       // of two of ours: about the same parent
	merge func(before, after T) T // before is the zero value where there is none
}

// entries are those that shall stand in a list: present ones in their order, without those
// of ours that are not wanted any more, then new ones as far as there is room.
func entries[T any](present, wanted []T, most int, kind entryKind[T]) []T {
	var merged []T
	done := make([]bool, len(wanted))
	for _, before := range present {
		if !kind.ours(before) {
			merged = append(merged, before)
			continue
		}
		for i, after := range wanted {
			if !done[i] && kind.same(before, after) {
				done[i] = true
				merged = append(merged, kind.merge(before, after))
				break
			}
		}
	}
	for i, after := range wanted {
		if !done[i] && len(merged) < most {
			var none T
			merged = append(merged, kind.merge(none, after))
		}
	}
	return merged
}
