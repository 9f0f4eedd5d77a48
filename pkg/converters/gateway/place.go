package gateway

import (
	"fmt"
	"net/netip"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// Place is what the status of a Gateway says and the Gateway itself does not: what the fold
// gave to it.
type Place struct {
	Addresses []string              // that it has; addresses or names
	Refused   []string              // that it asks for and can't have
	Closed    map[ListenerID]string // listeners that can't be had there, with the reason in words
	Routes    map[ListenerID]int    // how many routes are attached
}

// Placed are the statuses of the Gateway and of its ListenerSets in that place.
func (f *Fragment) Placed(p Place) (gatewayv1.GatewayStatus, []SetStatus) {
	status := *f.Status.DeepCopy()
	for i := range status.Listeners {
		l := &status.Listeners[i]
		l.AttachedRoutes = int32(p.Routes[ListenerID{Gateway: f.key, Name: string(l.Name)}])
		closeListener(&l.Conditions, p.Closed[ListenerID{Gateway: f.key, Name: string(l.Name)}])
	}
	sets := make([]SetStatus, len(f.Sets))
	attached := int32(0)
	for i, set := range f.Sets {
		set.Status = *set.Status.DeepCopy()
		for j := range set.Status.Listeners {
			l := &set.Status.Listeners[j]
			id := ListenerID{Gateway: f.key, Set: set.Key, Name: string(l.Name)}
			l.AttachedRoutes = int32(p.Routes[id])
			closeListener(&l.Conditions, p.Closed[id])
		}
		summariseSet(&set)
		if set.Attached {
			attached++
		}
		sets[i] = set
	}
	status.AttachedListenerSets = &attached
	summarise(&status, sets)
	placeAddresses(&status, p)
	observed(status.Conditions, f.Generation)
	return status, sets
}

// closeListener refuses a listener whose port the Gateway can't have; without a reason it can.
func closeListener(conditions *[]metav1.Condition, why string) {
	if why == "" || !holds(*conditions, gatewayv1.ListenerConditionAccepted) {
		return
	}
	generation := (*conditions)[0].ObservedGeneration
	for _, kind := range []gatewayv1.ListenerConditionType{gatewayv1.ListenerConditionAccepted, gatewayv1.ListenerConditionProgrammed} {
		*conditions = put(*conditions, condition(kind, metav1.ConditionFalse, gatewayv1.ListenerReasonPortUnavailable, why))
	}
	observed(*conditions, generation)
}

// placeAddresses tells the addresses, and what is wrong with them. What is wrong with the
// listeners comes first.
func placeAddresses(status *gatewayv1.GatewayStatus, p Place) {
	for _, text := range p.Addresses {
		kind := gatewayv1.HostnameAddressType
		if _, err := netip.ParseAddr(text); err == nil {
			kind = gatewayv1.IPAddressType
		}
		status.Addresses = append(status.Addresses, gatewayv1.GatewayStatusAddress{Type: &kind, Value: text})
	}
	if !holds(status.Conditions, gatewayv1.GatewayConditionProgrammed) {
		return
	}
	refuse := func(reason gatewayv1.GatewayConditionReason, message string) {
		status.Conditions = put(status.Conditions, condition(gatewayv1.GatewayConditionProgrammed, metav1.ConditionFalse, reason, message))
	}
	switch {
	case len(p.Refused) > 0:
		refuse(gatewayv1.GatewayReasonAddressNotUsable, fmt.Sprintf(
			"%s can't be used: no address of --gateway-addresses, or taken by an older Gateway", strings.Join(p.Refused, ", ")))
	case len(p.Addresses) == 0:
		refuse(gatewayv1.GatewayReasonAddressNotAssigned, "no address is left; add some to --gateway-addresses")
	}
}
