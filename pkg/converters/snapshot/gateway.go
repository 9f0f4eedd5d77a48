package snapshot

import gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

// GatewayClass looks up a class by name; nil if there is none. So do the methods that
// follow.
func (v *View) GatewayClass(name string) *gatewayv1.GatewayClass {
	return look[*gatewayv1.GatewayClass](v, Key{Kind: GatewayClass, Name: name})
}

// Gateway looks up a Gateway.
func (v *View) Gateway(namespace, name string) *gatewayv1.Gateway {
	return look[*gatewayv1.Gateway](v, Key{Gateway, namespace, name})
}

// ListenerSet looks up a ListenerSet.
func (v *View) ListenerSet(namespace, name string) *gatewayv1.ListenerSet {
	return look[*gatewayv1.ListenerSet](v, Key{ListenerSet, namespace, name})
}

// HTTPRoute looks up an HTTPRoute.
func (v *View) HTTPRoute(namespace, name string) *gatewayv1.HTTPRoute {
	return look[*gatewayv1.HTTPRoute](v, Key{HTTPRoute, namespace, name})
}

// GRPCRoute looks up a GRPCRoute.
func (v *View) GRPCRoute(namespace, name string) *gatewayv1.GRPCRoute {
	return look[*gatewayv1.GRPCRoute](v, Key{GRPCRoute, namespace, name})
}

// TLSRoute looks up a TLSRoute.
func (v *View) TLSRoute(namespace, name string) *gatewayv1.TLSRoute {
	return look[*gatewayv1.TLSRoute](v, Key{TLSRoute, namespace, name})
}

// TCPRoute looks up a TCPRoute.
func (v *View) TCPRoute(namespace, name string) *gatewayv1.TCPRoute {
	return look[*gatewayv1.TCPRoute](v, Key{TCPRoute, namespace, name})
}

// UDPRoute looks up a UDPRoute.
func (v *View) UDPRoute(namespace, name string) *gatewayv1.UDPRoute {
	return look[*gatewayv1.UDPRoute](v, Key{UDPRoute, namespace, name})
}

// BackendTLSPolicy looks up a BackendTLSPolicy.
func (v *View) BackendTLSPolicy(namespace, name string) *gatewayv1.BackendTLSPolicy {
	return look[*gatewayv1.BackendTLSPolicy](v, Key{BackendTLSPolicy, namespace, name})
}

// ListenerSets are those whose parent is a Gateway, sorted by namespace and name.
func (v *View) ListenerSets(namespace, gateway string) []*gatewayv1.ListenerSet {
	return members[*gatewayv1.ListenerSet](v, Key{ListenerSets, namespace, gateway})
}

// ReferenceGrants are those of a namespace, sorted by name.
func (v *View) ReferenceGrants(namespace string) []*gatewayv1.ReferenceGrant {
	return members[*gatewayv1.ReferenceGrant](v, Key{Kind: ReferenceGrants, Namespace: namespace})
}

// BackendTLSPolicies are those that target a Service, sorted by name.
func (v *View) BackendTLSPolicies(namespace, service string) []*gatewayv1.BackendTLSPolicy {
	return members[*gatewayv1.BackendTLSPolicy](v, Key{BackendTLSPolicies, namespace, service})
}
