package gateway

import (
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// Status is what this controller wants to stand in the status of one object, complete but
// for lastTransitionTime, which the writer sets: the part of the object's kind is set. The
// zero value wants nothing: the object is somebody else's, and what this controller once
// wrote into a list of a route or a policy is taken away.
type Status struct {
	Class       *gatewayv1.GatewayClassStatus
	Gateway     *gatewayv1.GatewayStatus
	ListenerSet *gatewayv1.ListenerSetStatus
	Parents     []gatewayv1.RouteParentStatus    // of a route: the entries of this controller
	Ancestors   []gatewayv1.PolicyAncestorStatus // of a BackendTLSPolicy, in the same way

	// Infrastructure of a Gateway is what is made for it besides; nil: nothing.
	Infrastructure *Infrastructure
}

// Infrastructure is the Service of a Gateway that carries what spec.infrastructure asks for.
type Infrastructure struct {
	Labels, Annotations map[string]string
	UID                 types.UID // of the Gateway, which owns the Service
	Ports               []ServicePort
}

// ServicePort is a port of a Gateway's Service. Ports are sorted, and unique.
type ServicePort struct {
	Port int32
	UDP  bool
}

// IsZero tells whether nothing is wanted.
func (s Status) IsZero() bool {
	return s.Class == nil && s.Gateway == nil && s.ListenerSet == nil && len(s.Parents) == 0 && len(s.Ancestors) == 0
}
