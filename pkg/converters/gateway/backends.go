package gateway

import (
	"fmt"
	"strconv"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/resolve"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/token"
)

// backends are the targets that references come to, in their order; one that answers 500 where
// none is named, or none has a share.
func (c *routeConverter) backends(refs []gatewayv1.BackendRef, field string) []target {
	targets := make([]target, 0, len(refs))
	sum := 0
	for i := range refs {
		at := fmt.Sprintf("%s.backendRefs[%d]", field, i)
		weight, ok := weightOf(&refs[i])
		if !ok {
			c.report(report.BackendInvalid, at+".weight", "%d is not a weight from 0 to 1000000; the backend gets no requests", *refs[i].Weight)
			weight = 0
		}
		ref, wrong := c.backend(&refs[i].BackendObjectReference, at)
		c.unresolved(at, wrong)
		targets = append(targets, target{weight: weight, backend: ref})
		sum += weight
	}
	if sum == 0 {
		return []target{c.denied(1)}
	}
	return targets
}

// unresolved notes a broken reference. That a Service or its port is missing is found, too, by
// the backend's own unit, which says so.
func (c *routeConverter) unresolved(field string, wrong *problem) {
	if wrong == nil {
		return
	}
	switch wrong.reason {
	case string(gatewayv1.RouteReasonRefNotPermitted):
		c.report(report.ReferenceNotPermitted, field, "%s", wrong.message)
	case string(gatewayv1.RouteReasonInvalidKind):
		c.report(report.BackendInvalid, field, "%s", wrong.message)
	}
	if c.broken == nil {
		wrong.message = field + ": " + wrong.message
		c.broken = wrong
	}
}

// denied is a target that answers 500, or closes connections.
func (c *routeConverter) denied(weight int) target {
	return target{weight: weight, backend: c.deny()}
}

func (c *routeConverter) deny() resolve.BackendRef {
	return resolve.BackendRef{Namespace: c.key.Namespace, Deny: resolve.StatusBroken}
}

func (c *routeConverter) datagrams() bool { return c.key.Kind == snapshot.UDPRoute }

func (c *routeConverter) isGRPC() bool { return c.key.Kind == snapshot.GRPCRoute }

// backend is what a reference asks for. Where the Service or its port does not exist, it is
// that nevertheless: the backend answers 500 then, and is put right with the Service, whatever
// becomes of the route's unit.
func (c *routeConverter) backend(ref *gatewayv1.BackendObjectReference, field string) (resolve.BackendRef, *problem) {
	kind, known := reference(ref.Group, ref.Kind, snapshot.Service)
	if !known {
		return c.deny(), problemOf(gatewayv1.RouteReasonInvalidKind, "a backend of kind %q is not known; name a Service", kindText(ref.Group, ref.Kind))
	}
	to := snapshot.Key{Kind: kind, Namespace: within(ref.Namespace, c.key.Namespace), Name: string(ref.Name)}
	if !permitted(c.v, c.key, to) {
		return c.deny(), notPermitted(to)
	}
	if !token.IsLabel(to.Namespace) || !token.IsLabel(to.Name) {
		return c.deny(), problemOf(gatewayv1.RouteReasonBackendNotFound, "%.70q is not the name of a Service", to.Name)
	}
	if ref.Port == nil {
		return c.deny(), problemOf(gatewayv1.RouteReasonBackendNotFound, "the reference names no port of Service %s", to.Name)
	}
	out := resolve.BackendRef{
		Namespace: to.Namespace, Service: to.Name, Port: strconv.Itoa(int(*ref.Port)), Origin: c.at(field),
	}
	if *ref.Port < 1 || *ref.Port > 65535 {
		return c.deny(), problemOf(gatewayv1.RouteReasonBackendNotFound, "%d is not a port from 1 to 65535", *ref.Port)
	}
	service := c.v.Service(to.Namespace, to.Name)
	if service == nil {
		return out, problemOf(gatewayv1.RouteReasonBackendNotFound, "Service %s/%s does not exist", to.Namespace, to.Name)
	}
	check := out
	check.Gateway = &resolve.GatewayRef{UDP: c.datagrams()}
	switch resolve.CheckPort(c.v, service, &check) {
	case resolve.PortMissing:
		return out, problemOf(gatewayv1.RouteReasonBackendNotFound, "Service %s/%s has no port %d", to.Namespace, to.Name, *ref.Port)
	case resolve.PortProtocol:
		return out, problemOf(gatewayv1.RouteReasonUnsupportedProtocol, "port %d of Service %s/%s has an appProtocol that is not supported", *ref.Port, to.Namespace, to.Name)
	}
	return out, nil
}
