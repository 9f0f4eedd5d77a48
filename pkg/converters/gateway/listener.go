package gateway

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/token"
)

// terms are what the words of a listener come to, whatever else exists: all that a route asks
// of it.
type terms struct {
	host        string // token.AnyHost where it has none
	passthrough bool
	kinds       []gatewayv1.Kind // of routes that may be attached
	unknown     []string         // kinds that it names and can't have
	refused     *problem         // why it can't be accepted
}

// kindsOf are the kinds of routes that a listener of the protocol can have; nil: the protocol
// is not known.
func kindsOf(l *gatewayv1.Listener) []gatewayv1.Kind {
	switch l.Protocol {
	case gatewayv1.HTTPProtocolType, gatewayv1.HTTPSProtocolType:
		return []gatewayv1.Kind{gatewayv1.Kind(snapshot.HTTPRoute), gatewayv1.Kind(snapshot.GRPCRoute)}
	case gatewayv1.TLSProtocolType:
		if passesThrough(l) {
			return []gatewayv1.Kind{gatewayv1.Kind(snapshot.TLSRoute)}
		}
		return []gatewayv1.Kind{gatewayv1.Kind(snapshot.TLSRoute), gatewayv1.Kind(snapshot.TCPRoute)}
	case gatewayv1.TCPProtocolType:
		return []gatewayv1.Kind{gatewayv1.Kind(snapshot.TCPRoute)}
	case gatewayv1.UDPProtocolType:
		return []gatewayv1.Kind{gatewayv1.Kind(snapshot.UDPRoute)}
	}
	return nil
}

func passesThrough(l *gatewayv1.Listener) bool {
	return l.TLS != nil && l.TLS.Mode != nil && *l.TLS.Mode == gatewayv1.TLSModePassthrough
}

// terminates tells whether TLS ends at the listener.
func terminates(l *gatewayv1.Listener) bool {
	return l.Protocol == gatewayv1.HTTPSProtocolType || l.Protocol == gatewayv1.TLSProtocolType && !passesThrough(l)
}

// termsOf reads a listener.
func termsOf(l *gatewayv1.Listener) terms {
	t := terms{host: token.AnyHost, passthrough: l.Protocol == gatewayv1.TLSProtocolType && passesThrough(l)}
	can := kindsOf(l)
	if can == nil {
		t.refused = problemOf(gatewayv1.ListenerReasonUnsupportedProtocol, "protocol %.60q is not known; use HTTP, HTTPS, TLS, TCP or UDP", l.Protocol)
		return t
	}
	t.kinds = can
	if l.AllowedRoutes != nil && len(l.AllowedRoutes.Kinds) > 0 {
		t.kinds = nil
		for _, k := range l.AllowedRoutes.Kinds {
			if (k.Group == nil || *k.Group == group) && slices.Contains(can, k.Kind) {
				if !slices.Contains(t.kinds, k.Kind) {
					t.kinds = append(t.kinds, k.Kind)
				}
				continue
			}
			t.unknown = append(t.unknown, kindText(k.Group, &k.Kind))
		}
	}
	if l.Hostname != nil && l.Protocol != gatewayv1.TCPProtocolType && l.Protocol != gatewayv1.UDPProtocolType {
		host, err := token.RuleHost(string(*l.Hostname))
		if err != nil {
			t.refused = problemOf(gatewayv1.ListenerReasonUnsupportedValue, "hostname %.260q is not valid: %v", *l.Hostname, err)
			return t
		}
		t.host = host
	}
	t.refused = cmp.Or(checkMode(l), checkSelector(l))
	if l.Port < 1 || l.Port > 65535 {
		t.refused = problemOf(gatewayv1.ListenerReasonPortUnavailable, "%d is not a port from 1 to 65535", l.Port)
	}
	return t
}

// checkMode checks tls.mode. That nothing but TLS has it is checked by the API server.
func checkMode(l *gatewayv1.Listener) *problem {
	if l.TLS == nil || l.TLS.Mode == nil || *l.TLS.Mode == "" {
		return nil
	}
	mode := *l.TLS.Mode
	if mode == gatewayv1.TLSModeTerminate || mode == gatewayv1.TLSModePassthrough && l.Protocol != gatewayv1.HTTPSProtocolType {
		return nil
	}
	return problemOf(gatewayv1.ListenerReasonUnsupportedValue, "a listener of protocol %s can't have the TLS mode %.60q", l.Protocol, mode)
}

// checkSelector checks the selector of namespaces. One that can't be read selects none.
func checkSelector(l *gatewayv1.Listener) *problem {
	if l.AllowedRoutes == nil || l.AllowedRoutes.Namespaces == nil || l.AllowedRoutes.Namespaces.Selector == nil {
		return nil
	}
	if _, err := metav1.LabelSelectorAsSelector(l.AllowedRoutes.Namespaces.Selector); err != nil {
		return problemOf(gatewayv1.ListenerReasonUnsupportedValue, "allowedRoutes.namespaces.selector can't be read: %v", err)
	}
	return nil
}

// allowsRoutes tells whether the listener of an object in namespace home takes routes of a
// namespace.
func allowsRoutes(v *snapshot.View, l *gatewayv1.Listener, home, namespace string) bool {
	from, selector := gatewayv1.NamespacesFromSame, (*metav1.LabelSelector)(nil)
	if l.AllowedRoutes != nil && l.AllowedRoutes.Namespaces != nil {
		if l.AllowedRoutes.Namespaces.From != nil {
			from = *l.AllowedRoutes.Namespaces.From
		}
		selector = l.AllowedRoutes.Namespaces.Selector
	}
	return selects(v, from, selector, [2]string{home, namespace})
}

// selects tells whether a namespace (the second one) is among those that an object in a
// namespace (the first one) selects.
func selects(v *snapshot.View, from gatewayv1.FromNamespaces, selector *metav1.LabelSelector, namespaces [2]string) bool {
	switch from {
	case gatewayv1.NamespacesFromAll:
		return true
	case gatewayv1.NamespacesFromSame:
		return namespaces[0] == namespaces[1]
	case gatewayv1.NamespacesFromSelector:
		if selector == nil {
			return false
		}
		by, err := metav1.LabelSelectorAsSelector(selector)
		return err == nil && by.Matches(namespaceLabels(v, namespaces[1]))
	}
	return false
}

// namespaceLabels are the labels of a namespace, with the one that each namespace has; a
// folder of manifests need not hold the namespaces.
func namespaceLabels(v *snapshot.View, name string) labels.Set {
	set := labels.Set{}
	if object := v.Namespace(name); object != nil {
		for key, text := range object.Labels {
			set[key] = text
		}
	}
	set["kubernetes.io/metadata.name"] = name
	return set
}
