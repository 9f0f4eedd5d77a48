package resolve

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// Place is where HAProxy runs; empty texts: not known.
type Place struct{ Zone, Node string }

// wantsNear tells whether a Service asks for endpoints that are near: by
// spec.trafficDistribution, or by the older annotation.
func wantsNear(service *corev1.Service) bool {
	if distribution := service.Spec.TrafficDistribution; distribution != nil {
		switch *distribution {
		case corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferSameNode:
			return true
		}
	}
	mode := service.Annotations[corev1.AnnotationTopologyMode]
	return mode == "Auto" || mode == "auto"
}

// hint is what the EndpointSlice says of who shall use an endpoint.
type hint struct {
	nodes, zones   bool // it names any
	myNode, myZone bool // it names HAProxy's own
}

func (p Place) hintOf(endpoint *discoveryv1.Endpoint) hint {
	h := endpoint.Hints
	if h == nil {
		return hint{}
	}
	return hint{
		nodes:  len(h.ForNodes) > 0,
		zones:  len(h.ForZones) > 0,
		myNode: p.Node != "" && slices.Contains(h.ForNodes, discoveryv1.ForNode{Name: p.Node}),
		myZone: p.Zone != "" && slices.Contains(h.ForZones, discoveryv1.ForZone{Name: p.Zone}),
	}
}

// keepNear leaves out ready servers that are for others, by the rules of kube-proxy: hints of
// nodes, else those of zones, count only if every ready endpoint has one and at least one is
// for us. So there is always somebody left. Endpoints that drain keep their clients.
func (e *endpoints) keepNear() {
	for _, kind := range []struct{ has, mine func(hint) bool }{
		{func(h hint) bool { return h.nodes }, func(h hint) bool { return h.myNode }},
		{func(h hint) bool { return h.zones }, func(h hint) bool { return h.myZone }},
	} {
		all, some := true, false
		for i, server := range e.servers {
			if server.State == model.Ready {
				all = all && kind.has(e.hints[i])
				some = some || kind.mine(e.hints[i])
			}
		}
		if !all || !some {
			continue
		}
		kept := e.servers[:0]
		for i, server := range e.servers {
			if server.State != model.Ready || kind.mine(e.hints[i]) {
				kept = append(kept, server)
			}
		}
		e.servers = kept
		return
	}
}
