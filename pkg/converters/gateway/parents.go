package gateway

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/settings"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/token"
)

// parent is what a parentRef leads to: a Gateway of this controller, or a ListenerSet that
// names one.
type parent struct {
	gateway   *gatewayv1.Gateway
	key       snapshot.Key // of the Gateway
	set       snapshot.Key // zero: the Gateway itself is the parent
	listeners []gatewayv1.Listener
	layers    []settings.Layer // that all routes of the Gateway have
	client    snapshot.Key     // certificate for servers
	refused   *problem         // why nothing can be attached to it
}

// home is the namespace of the object whose listeners these are.
func (p *parent) home() string {
	if p.set != (snapshot.Key{}) {
		return p.set.Namespace
	}
	return p.key.Namespace
}

// parentOf follows a parentRef; nil where it leads to nothing of this controller's.
func (c *routeConverter) parentOf(ref *gatewayv1.ParentReference) *parent {
	if ref.Group != nil && *ref.Group != group {
		return nil
	}
	namespace := within(ref.Namespace, c.key.Namespace)
	kind := gatewayv1.Kind(snapshot.Gateway)
	if ref.Kind != nil {
		kind = *ref.Kind
	}
	switch kind {
	case gatewayv1.Kind(snapshot.Gateway):
		p := c.gatewayOf(namespace, string(ref.Name))
		if p != nil {
			p.listeners = p.gateway.Spec.Listeners
		}
		return p
	case gatewayv1.Kind(snapshot.ListenerSet):
		return c.setOf(namespace, string(ref.Name))
	}
	return nil
}

func (c *routeConverter) gatewayOf(namespace, name string) *parent {
	gw := c.v.Gateway(namespace, name)
	if gw == nil {
		return nil
	}
	class := c.class.of(c.v, gw)
	if class == nil {
		return nil
	}
	p := &parent{gateway: gw, key: snapshot.Key{Kind: snapshot.Gateway, Namespace: namespace, Name: name}, layers: layersOf(c.v, class, gw)}
	if key, wrong := clientCertificate(c.v, gw); wrong == nil {
		p.client = key
	}
	return p
}

func (c *routeConverter) setOf(namespace, name string) *parent {
	set := c.v.ListenerSet(namespace, name)
	if set == nil || !namesGateway(set.Spec.ParentRef) {
		return nil
	}
	p := c.gatewayOf(within(set.Spec.ParentRef.Namespace, namespace), string(set.Spec.ParentRef.Name))
	if p == nil {
		return nil
	}
	p.set = snapshot.Key{Kind: snapshot.ListenerSet, Namespace: namespace, Name: name}
	if !allowsSet(c.v, p.gateway, namespace) {
		p.refused = problemOf(gatewayv1.RouteReasonNoMatchingParent, "ListenerSet %s is not attached to its Gateway, which does not allow it", name)
		return p
	}
	for i := range set.Spec.Listeners {
		p.listeners = append(p.listeners, gatewayv1.Listener(set.Spec.Listeners[i]))
	}
	return p
}

// place is a listener that the route is attached to.
type place struct {
	parent   *parent
	listener *gatewayv1.Listener
	hosts    []string
}

// places are the listeners of a parent that take the route, or why there are none. Only the
// listeners' own words count: one that conflicts, or whose certificate is missing, has its
// routes attached, too (ListenerStatus.attachedRoutes).
func (c *routeConverter) places(p *parent, ref *gatewayv1.ParentReference) ([]place, *problem) {
	if p.refused != nil {
		return nil, p.refused
	}
	var named, allowed int
	var list []place
	for i := range p.listeners {
		l := &p.listeners[i]
		if ref.SectionName != nil && *ref.SectionName != "" && *ref.SectionName != l.Name || ref.Port != nil && *ref.Port != l.Port {
			continue
		}
		named++
		t := termsOf(l)
		if !slices.Contains(t.kinds, gatewayv1.Kind(c.key.Kind)) || !allowsRoutes(c.v, l, p.home(), c.key.Namespace) {
			continue
		}
		allowed++
		if hosts := c.hostsOn(l, &t); len(hosts) > 0 {
			list = append(list, place{parent: p, listener: l, hosts: hosts})
		}
	}
	switch {
	case len(list) > 0:
		return list, nil
	case named == 0:
		return nil, problemOf(gatewayv1.RouteReasonNoMatchingParent, "no listener of %s %s has %s", kindOfParent(p), ref.Name, wanted(ref))
	case allowed == 0:
		return nil, problemOf(gatewayv1.RouteReasonNotAllowedByListeners, "no listener allows a %s of namespace %s", c.key.Kind, c.key.Namespace)
	}
	return nil, problemOf(gatewayv1.RouteReasonNoMatchingListenerHostname, "no hostname of the route fits one of a listener")
}

func kindOfParent(p *parent) snapshot.Kind {
	if p.set != (snapshot.Key{}) {
		return p.set.Kind
	}
	return p.key.Kind
}

func wanted(ref *gatewayv1.ParentReference) string {
	var words []string
	if ref.SectionName != nil && *ref.SectionName != "" {
		words = append(words, fmt.Sprintf("the name %s", *ref.SectionName))
	}
	if ref.Port != nil {
		words = append(words, fmt.Sprintf("the port %d", *ref.Port))
	}
	if words == nil {
		return "a name" // it has no listener at all
	}
	return strings.Join(words, " and ")
}

// hostsOn are the hosts that the route has on a listener; none: it can't be attached.
func (c *routeConverter) hostsOn(l *gatewayv1.Listener, t *terms) []string {
	if t.refused != nil && t.refused.reason == string(gatewayv1.ListenerReasonUnsupportedValue) {
		return nil // its hostname says nothing
	}
	if l.Protocol == gatewayv1.TCPProtocolType || l.Protocol == gatewayv1.UDPProtocolType {
		return []string{token.AnyHost}
	}
	if c.named && len(c.hosts) == 0 {
		return nil // none of the hostnames that it names is one
	}
	return common(t.host, c.hosts)
}

// attach finds all places and writes the entries of the status, but for what follows from the
// rules.
func (c *routeConverter) attach(refs []gatewayv1.ParentReference) []attached {
	var list []attached
	for i := range refs {
		ref := &refs[i]
		p := c.parentOf(ref)
		if p == nil {
			continue
		}
		c.f.Mine = true
		places, wrong := c.places(p, ref)
		if wrong != nil {
			c.report(report.RouteNotAttached, fmt.Sprintf("spec.parentRefs[%d]", i), "%s", wrong.message)
		}
		list = append(list, attached{ref: ref, places: places, refused: wrong})
	}
	return list
}

// attached is a parentRef with what it comes to.
type attached struct {
	ref     *gatewayv1.ParentReference
	places  []place
	refused *problem
}

// status is the entry of the status. The rest are what the rules add.
func (a *attached) status(class Class, rest ...metav1.Condition) gatewayv1.RouteParentStatus {
	ref := *a.ref.DeepCopy()
	if ref.Group == nil {
		ref.Group = new(group)
	}
	if ref.Kind == nil {
		ref.Kind = new(gatewayv1.Kind(snapshot.Gateway))
	}
	accepted := condition(gatewayv1.RouteConditionAccepted, metav1.ConditionTrue, gatewayv1.RouteReasonAccepted, "the route is attached")
	if a.refused != nil {
		accepted = condition(gatewayv1.RouteConditionAccepted, metav1.ConditionFalse, a.refused.reason, a.refused.message)
	}
	return gatewayv1.RouteParentStatus{
		ParentRef:      ref,
		ControllerName: gatewayv1.GatewayController(class.Controller),
		Conditions:     append([]metav1.Condition{accepted}, rest...),
	}
}

// compareListeners orders by Gateway, ListenerSet and name.
func compareListeners(a, b ListenerID) int {
	return cmp.Or(snapshot.CompareKeys(a.Gateway, b.Gateway), snapshot.CompareKeys(a.Set, b.Set), cmp.Compare(a.Name, b.Name))
}
