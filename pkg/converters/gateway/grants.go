package gateway

import (
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
)

// group is that of the Gateway API.
const group = gatewayv1.Group(gatewayv1.GroupName)

// permitted tells whether an object of the Gateway API may name an object of the core group:
// one of its own namespace, or one that a ReferenceGrant of the other namespace names.
func permitted(v *snapshot.View, from, to snapshot.Key) bool {
	if from.Namespace == to.Namespace {
		return true
	}
	for _, grant := range v.ReferenceGrants(to.Namespace) {
		if grants(grant, from, to) {
			return true
		}
	}
	return false
}

func grants(grant *gatewayv1.ReferenceGrant, from, to snapshot.Key) bool {
	for _, f := range grant.Spec.From {
		if f.Group != group || f.Kind != gatewayv1.Kind(from.Kind) || string(f.Namespace) != from.Namespace {
			continue
		}
		for _, t := range grant.Spec.To {
			if t.Group == "" && t.Kind == gatewayv1.Kind(to.Kind) && (t.Name == nil || *t.Name == "" || string(*t.Name) == to.Name) {
				return true
			}
		}
	}
	return false
}

// notPermitted says so. Whether the object exists is none of the asker's business.
func notPermitted(to snapshot.Key) *problem {
	return problemOf(gatewayv1.ListenerReasonRefNotPermitted, "no ReferenceGrant of namespace %s permits the reference to %s %s", to.Namespace, to.Kind, to.Name)
}

// reference is the key of what a reference names, where it is of the core group and of one of
// the kinds; the first kind is the default.
func reference(g *gatewayv1.Group, k *gatewayv1.Kind, kinds ...snapshot.Kind) (snapshot.Kind, bool) {
	if g != nil && *g != "" {
		return "", false
	}
	if k == nil {
		return kinds[0], true
	}
	for _, kind := range kinds {
		if *k == gatewayv1.Kind(kind) {
			return kind, true
		}
	}
	return "", false
}

// within is the namespace of a reference: that of the object where it names none.
func within(namespace *gatewayv1.Namespace, own string) string {
	if namespace == nil || *namespace == "" {
		return own
	}
	return string(*namespace)
}

func kindText(g *gatewayv1.Group, k *gatewayv1.Kind) string {
	text := ""
	if k != nil {
		text = string(*k)
	}
	if g != nil && *g != "" {
		text += "." + string(*g)
	}
	return text
}
