package gateway

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// summarise sets Accepted and Programmed of a Gateway by those of its listeners, where
// nothing about the Gateway itself stands against them.
func summarise(status *gatewayv1.GatewayStatus, sets []SetStatus) {
	var good, bad []string
	for i := range status.Listeners {
		l := &status.Listeners[i]
		if holds(l.Conditions, gatewayv1.ListenerConditionProgrammed) {
			good = append(good, string(l.Name))
		} else {
			bad = append(bad, string(l.Name))
		}
	}
	serving := len(good) > 0
	for i := range sets {
		serving = serving || sets[i].Attached
	}
	refused := refusal(status.Conditions)
	if refused == nil {
		accepted := condition(gatewayv1.GatewayConditionAccepted, metav1.ConditionTrue, gatewayv1.GatewayReasonAccepted, "the Gateway is accepted")
		switch {
		case !serving:
			accepted = condition(gatewayv1.GatewayConditionAccepted, metav1.ConditionFalse, gatewayv1.GatewayReasonListenersNotValid, "no listener can be served: "+names(bad))
		case len(bad) > 0:
			accepted = condition(gatewayv1.GatewayConditionAccepted, metav1.ConditionTrue, gatewayv1.GatewayReasonListenersNotValid,
				fmt.Sprintf("not served: %s; served: %s", names(bad), names(good)))
		}
		status.Conditions = put(status.Conditions, accepted)
	}
	programmed := condition(gatewayv1.GatewayConditionProgrammed, metav1.ConditionTrue, gatewayv1.GatewayReasonProgrammed, "the listeners are served")
	switch {
	case refused != nil:
		programmed = condition(gatewayv1.GatewayConditionProgrammed, metav1.ConditionFalse, gatewayv1.GatewayReasonInvalid, refused.Message)
	case !serving:
		programmed = condition(gatewayv1.GatewayConditionProgrammed, metav1.ConditionFalse, gatewayv1.GatewayReasonInvalid, "no listener can be served")
	}
	status.Conditions = put(status.Conditions, programmed)
}

// refusal is what stands against the whole Gateway, whatever its listeners are; nil: nothing.
func refusal(conditions []metav1.Condition) *metav1.Condition {
	for i := range conditions {
		c := &conditions[i]
		if c.Type == string(gatewayv1.GatewayConditionAccepted) && c.Status == metav1.ConditionFalse &&
			c.Reason != string(gatewayv1.GatewayReasonListenersNotValid) {
			return c
		}
	}
	return nil
}

// summariseSet does the same for a ListenerSet. It is attached if one of its listeners is.
func summariseSet(set *SetStatus) {
	if refused := refusal(set.Status.Conditions); refused != nil {
		return
	}
	var good, bad []string
	for i := range set.Status.Listeners {
		l := &set.Status.Listeners[i]
		if holds(l.Conditions, gatewayv1.ListenerEntryConditionProgrammed) {
			good = append(good, string(l.Name))
		} else {
			bad = append(bad, string(l.Name))
		}
	}
	accepted := condition(gatewayv1.ListenerSetConditionAccepted, metav1.ConditionTrue, gatewayv1.ListenerSetReasonAccepted, "the ListenerSet is attached")
	programmed := condition(gatewayv1.ListenerSetConditionProgrammed, metav1.ConditionTrue, gatewayv1.ListenerSetReasonProgrammed, "the listeners are served")
	switch {
	case len(good) == 0:
		accepted.Status, accepted.Reason, accepted.Message = metav1.ConditionFalse, string(gatewayv1.ListenerSetReasonListenersNotValid), "no listener can be served: "+names(bad)
		programmed.Status, programmed.Reason, programmed.Message = accepted.Status, accepted.Reason, accepted.Message
	case len(bad) > 0:
		accepted.Reason = string(gatewayv1.ListenerSetReasonListenersNotValid)
		accepted.Message = fmt.Sprintf("not served: %s; served: %s", names(bad), names(good))
	}
	set.Attached = len(good) > 0
	set.Status.Conditions = put(put(set.Status.Conditions, accepted), programmed)
	observed(set.Status.Conditions, set.Generation)
}

// maxNames bounds how many listeners a message names.
const maxNames = 10

func names(list []string) string {
	if len(list) > maxNames {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:maxNames], ", "), len(list)-maxNames)
	}
	return strings.Join(list, ", ")
}
