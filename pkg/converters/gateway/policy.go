package gateway

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/resolve"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
)

// ConvertPolicy turns the BackendTLSPolicy of the given key into its fragment; the zero
// PolicyFragment if there is none. What it does to servers is the work of the backends' units.
func ConvertPolicy(v *snapshot.View, key snapshot.Key) PolicyFragment {
	p := v.BackendTLSPolicy(key.Namespace, key.Name)
	if p == nil {
		return PolicyFragment{}
	}
	var f PolicyFragment
	terms := resolve.ReadPolicy(v, p)
	resolved := condition(resolvedRefs, metav1.ConditionTrue, gatewayv1.BackendTLSPolicyReasonResolvedRefs, "all references are resolved")
	if terms.Unresolved != nil {
		resolved = condition(resolvedRefs, metav1.ConditionFalse, terms.Unresolved.Reason, terms.Unresolved.Message)
		f.blame(key, "spec.validation.caCertificateRefs", terms.Unresolved.Message)
	}
	wrong := f.targets(v, p, key)
	if terms.Refused != nil {
		wrong = &problem{terms.Refused.Reason, terms.Refused.Message}
		f.blame(key, "spec.validation", wrong.message)
	}
	accepted := condition(gatewayv1.PolicyConditionAccepted, metav1.ConditionTrue, gatewayv1.PolicyReasonAccepted, "servers are verified")
	if wrong != nil {
		accepted = condition(gatewayv1.PolicyConditionAccepted, metav1.ConditionFalse, wrong.reason, wrong.message)
	}
	f.Conditions = []metav1.Condition{accepted, resolved}
	observed(f.Conditions, p.Generation)
	f.Findings = report.Sort(f.Findings)
	return f
}

const resolvedRefs = gatewayv1.BackendTLSPolicyConditionResolvedRefs

func (f *PolicyFragment) blame(key snapshot.Key, field, message string) {
	origin := key.Origin()
	origin.Field = field
	f.Findings = append(f.Findings, report.New(report.PolicyInvalid, origin, "%s", message))
}

// targets reads the Services. What stands against all of them stands against the policy.
func (f *PolicyFragment) targets(v *snapshot.View, p *gatewayv1.BackendTLSPolicy, key snapshot.Key) *problem {
	var missing, conflicted []string
	good := false
	for i := range p.Spec.TargetRefs {
		t := &p.Spec.TargetRefs[i]
		field := fmt.Sprintf("spec.targetRefs[%d]", i)
		if !resolve.TargetsService(t) {
			f.blame(key, field, fmt.Sprintf("a target of kind %q is not known; name a Service", kindText(&t.Group, &t.Kind)))
			continue
		}
		to := snapshot.Key{Kind: snapshot.Service, Namespace: p.Namespace, Name: string(t.Name)}
		if !slices.Contains(f.Targets, to) {
			f.Targets = append(f.Targets, to)
		}
		before := resolve.PolicyBefore(v.BackendTLSPolicies(to.Namespace, to.Name), p, t)
		switch {
		case !hasTarget(v.Service(to.Namespace, to.Name), t):
			missing = append(missing, to.Name)
			f.blame(key, field, fmt.Sprintf("Service %s does not exist, or has no port of that name", to.Name))
		case before != nil:
			conflicted = append(conflicted, fmt.Sprintf("%s has the policy %s, which is older", to.Name, before.Name))
			f.blame(key, field, conflicted[len(conflicted)-1])
		default:
			good = true
		}
	}
	slices.SortFunc(f.Targets, snapshot.CompareKeys)
	switch {
	case good:
		return nil
	case len(conflicted) > 0:
		return problemOf(gatewayv1.PolicyReasonConflicted, "%s", strings.Join(conflicted, "; "))
	}
	return problemOf(gatewayv1.PolicyReasonTargetNotFound, "no Service, or no port of that name: %s", names(missing))
}

func hasTarget(service *corev1.Service, t *gatewayv1.LocalPolicyTargetReferenceWithSectionName) bool {
	if service == nil || t.SectionName == nil || *t.SectionName == "" {
		return service != nil
	}
	return slices.ContainsFunc(service.Spec.Ports, func(port corev1.ServicePort) bool { return port.Name == string(*t.SectionName) })
}

// Ancestors are the entries of the status for Gateways of this controller whose routes lead to a
// target.
func (f *PolicyFragment) Ancestors(class Class, gateways []snapshot.Key) []gatewayv1.PolicyAncestorStatus {
	gateways = slices.SortedFunc(slices.Values(gateways), snapshot.CompareKeys)
	gateways = slices.Compact(gateways)
	var list []gatewayv1.PolicyAncestorStatus
	for _, key := range gateways {
		list = append(list, gatewayv1.PolicyAncestorStatus{
			AncestorRef: gatewayv1.ParentReference{
				Group: new(group), Kind: new(gatewayv1.Kind(snapshot.Gateway)),
				Namespace: new(gatewayv1.Namespace(key.Namespace)), Name: gatewayv1.ObjectName(key.Name),
			},
			ControllerName: gatewayv1.GatewayController(class.Controller),
			Conditions:     slices.Clone(f.Conditions),
		})
	}
	return list
}
