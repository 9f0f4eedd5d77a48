package gateway

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/resolve"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
)

// ConvertGateway turns the Gateway of the given key, with all ListenerSets that name it, into
// its fragment; the zero Fragment if there is none, or if it is of a foreign class.
func ConvertGateway(v *snapshot.View, class Class, key snapshot.Key) Fragment {
	gw := v.Gateway(key.Namespace, key.Name)
	if gw == nil {
		return Fragment{}
	}
	if class.of(v, gw) == nil {
		return Fragment{}
	}
	c := &converter{v: v, gw: gw, key: key, f: Fragment{Mine: true, Created: gw.CreationTimestamp.Time, Generation: gw.Generation, key: key}}
	c.f.Findings = resolve.ForeignAnnotations(key.Origin(), gw.Annotations)
	c.addresses()
	c.infrastructure()
	c.own()
	c.sets()
	conflicts(c.entries)
	overlaps(c.entries)
	c.emit()
	c.clientCertificate()
	c.validationMode()
	summarise(&c.f.Status, c.f.Sets)
	observed(c.f.Status.Conditions, gw.Generation)
	c.f.Findings = report.Sort(c.f.Findings)
	return c.f
}

// converter collects the fragment of one Gateway.
type converter struct {
	v       *snapshot.View
	gw      *gatewayv1.Gateway
	key     snapshot.Key
	entries []*entry    // in the order of precedence
	members []memberSet // in the order of precedence
	refused *problem    // why the whole Gateway is
	f       Fragment
}

// memberSet is a ListenerSet that names the Gateway.
type memberSet struct {
	object  *gatewayv1.ListenerSet
	key     snapshot.Key
	entries []*entry // none where it is refused
	refused *problem
}

// refuse refuses the whole Gateway, for the first reason.
func (c *converter) refuse(field string, why *problem) {
	c.report(report.ListenerInvalid, c.key, field, why.message)
	if c.refused != nil {
		return
	}
	c.refused = why
	c.f.Status.Conditions = put(c.f.Status.Conditions, condition(gatewayv1.GatewayConditionAccepted, metav1.ConditionFalse, why.reason, why.message))
}

func (c *converter) report(code report.Code, object snapshot.Key, field, message string) {
	origin := object.Origin()
	origin.Field = field
	c.f.Findings = append(c.f.Findings, report.New(code, origin, "%s", message))
}

// addresses reads what the Gateway asks for. A type that is not known refuses the Gateway;
// whether an address can be had is the fold's answer.
func (c *converter) addresses() {
	c.f.AnyAddress = len(c.gw.Spec.Addresses) == 0
	for i, a := range c.gw.Spec.Addresses {
		if a.Type != nil && *a.Type != gatewayv1.IPAddressType {
			c.refuse(fmt.Sprintf("spec.addresses[%d].type", i), problemOf(gatewayv1.GatewayReasonUnsupportedAddress,
				"addresses of type %.60q can't be given; use IPAddress", *a.Type))
			continue
		}
		if a.Value == "" {
			c.f.AnyAddress = true
			continue
		}
		text := a.Value
		if addr, err := netip.ParseAddr(text); err == nil {
			text = addr.Unmap().String()
		}
		if !slices.Contains(c.f.Addresses, text) {
			c.f.Addresses = append(c.f.Addresses, text)
		}
	}
}

// infrastructure reads what the Gateway says of what is made for it.
func (c *converter) infrastructure() {
	infra := c.gw.Spec.Infrastructure
	if infra == nil {
		return
	}
	if infra.ParametersRef != nil {
		if _, wrong := parameters(c.v, *infra.ParametersRef, c.gw.Namespace); wrong != nil {
			c.refuse("spec.infrastructure.parametersRef", wrong)
		}
	}
	c.f.Labels = plainMap(infra.Labels)
	c.f.Annotations = plainMap(infra.Annotations)
}

func plainMap[K, V ~string](from map[K]V) map[string]string {
	if len(from) == 0 {
		return nil
	}
	to := make(map[string]string, len(from))
	for key, text := range from {
		to[string(key)] = string(text)
	}
	return to
}

// own reads the Gateway's listeners.
func (c *converter) own() {
	for i := range c.gw.Spec.Listeners {
		origin := c.key.Origin()
		origin.Field = fmt.Sprintf("spec.listeners[%d]", i)
		c.entries = append(c.entries, c.read(&c.gw.Spec.Listeners[i], c.key, origin))
	}
	namedTwice(c.entries)
}

// namedTwice refuses listeners of one object whose name an earlier one has: routes could not
// tell them apart.
func namedTwice(entries []*entry) {
	for i, e := range entries {
		for _, earlier := range entries[:i] {
			if earlier.spec.Name == e.spec.Name {
				e.terms.refused = problemOf(gatewayv1.ListenerReasonUnsupportedValue, "another listener has the name, too")
				e.accepted = e.terms.refused
			}
		}
	}
}

// sets reads the listeners of the ListenerSets that may be attached: older ones first, then by
// namespace and name.
func (c *converter) sets() {
	objects := c.v.ListenerSets(c.key.Namespace, c.key.Name)
	slices.SortStableFunc(objects, func(a, b *gatewayv1.ListenerSet) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for _, object := range objects {
		if !namesGateway(object.Spec.ParentRef) {
			continue
		}
		m := memberSet{object: object, key: snapshot.Key{Kind: snapshot.ListenerSet, Namespace: object.Namespace, Name: object.Name}}
		switch {
		case !allowsSet(c.v, c.gw, object.Namespace):
			m.refused = problemOf(gatewayv1.ListenerSetReasonNotAllowed, "Gateway %s does not allow ListenerSets of namespace %s (spec.allowedListeners)", c.key.Name, object.Namespace)
		case c.refused != nil:
			m.refused = problemOf(gatewayv1.ListenerSetReasonParentNotAccepted, "Gateway %s is not accepted", c.key.Name)
		default:
			for i := range object.Spec.Listeners {
				origin := m.key.Origin()
				origin.Field = fmt.Sprintf("spec.listeners[%d]", i)
				l := gatewayv1.Listener(object.Spec.Listeners[i])
				m.entries = append(m.entries, c.read(&l, m.key, origin))
			}
			namedTwice(m.entries)
			c.entries = append(c.entries, m.entries...)
		}
		c.members = append(c.members, m)
	}
}

func namesGateway(ref gatewayv1.ParentGatewayReference) bool {
	return (ref.Group == nil || *ref.Group == group) && (ref.Kind == nil || *ref.Kind == gatewayv1.Kind(snapshot.Gateway))
}

// allowsSet tells whether a Gateway takes ListenerSets of a namespace; by default it takes
// none.
func allowsSet(v *snapshot.View, gw *gatewayv1.Gateway, namespace string) bool {
	allowed := gw.Spec.AllowedListeners
	if allowed == nil || allowed.Namespaces == nil || allowed.Namespaces.From == nil {
		return false
	}
	return selects(v, *allowed.Namespaces.From, allowed.Namespaces.Selector, [2]string{gw.Namespace, namespace})
}

// emit writes listeners and statuses.
func (c *converter) emit() {
	why := ""
	if c.refused != nil {
		why = "the Gateway is not accepted: " + c.refused.message
	}
	unresolved := false
	for _, e := range c.entries {
		c.blame(e)
		e.listener.Serves = e.serves() && c.refused == nil
		c.f.Listeners = append(c.f.Listeners, e.listener)
		if e.owner.Kind == snapshot.Gateway {
			c.f.Status.Listeners = append(c.f.Status.Listeners, e.status(c.gw.Generation, why))
			unresolved = unresolved || e.resolved != nil
		}
	}
	for _, m := range c.members {
		c.f.Sets = append(c.f.Sets, m.status())
		if m.refused != nil {
			c.report(report.ListenerInvalid, m.key, "spec.parentRef", m.refused.message)
		}
	}
	resolved := condition(gatewayv1.GatewayConditionResolvedRefs, metav1.ConditionTrue, gatewayv1.GatewayReasonResolvedRefs, "all references are resolved")
	if unresolved {
		resolved = condition(gatewayv1.GatewayConditionResolvedRefs, metav1.ConditionFalse, gatewayv1.GatewayReasonListenersNotResolved, "a listener names what can't be used")
	}
	c.f.Status.Conditions = put(c.f.Status.Conditions, resolved)
}

// blame says what is wrong with a listener.
func (c *converter) blame(e *entry) {
	field := e.listener.Origin.Field
	if e.conflict != nil {
		c.report(report.ListenerConflict, e.owner, field, e.conflict.message)
	} else if e.accepted != nil {
		c.report(report.ListenerInvalid, e.owner, field, e.accepted.message)
	}
	if e.resolved != nil {
		c.report(codeOf(e.resolved), e.owner, field, e.resolved.message)
	}
}

// codeOf is the code of a finding about a broken reference.
func codeOf(p *problem) report.Code {
	if p.reason == string(gatewayv1.ListenerReasonRefNotPermitted) {
		return report.ReferenceNotPermitted
	}
	return report.ListenerInvalid
}

func (m *memberSet) status() SetStatus {
	set := SetStatus{Key: m.key, Generation: m.object.Generation}
	if m.refused != nil {
		set.Status.Conditions = []metav1.Condition{
			condition(gatewayv1.ListenerSetConditionAccepted, metav1.ConditionFalse, m.refused.reason, m.refused.message),
			condition(gatewayv1.ListenerSetConditionProgrammed, metav1.ConditionFalse, m.refused.reason, m.refused.message),
		}
		observed(set.Status.Conditions, set.Generation)
		return set
	}
	for _, e := range m.entries {
		set.Status.Listeners = append(set.Status.Listeners, gatewayv1.ListenerEntryStatus(e.status(set.Generation, "")))
	}
	summariseSet(&set)
	return set
}

// clientCertificate is what servers are shown. One that can't be used is not shown; the
// Gateway is accepted nevertheless.
func (c *converter) clientCertificate() {
	key, wrong := clientCertificate(c.v, c.gw)
	if key == (snapshot.Key{}) && wrong == nil {
		return
	}
	if wrong == nil {
		if why := resolve.CheckCertificate(c.v, key); why != "" {
			wrong = problemOf(gatewayv1.GatewayReasonInvalidClientCertificateRef, "%s", why)
		}
	}
	if wrong == nil {
		c.f.ClientCertificate = key
		return
	}
	c.report(codeOf(wrong), c.key, "spec.tls.backend.clientCertificateRef", wrong.message)
	c.f.Status.Conditions = put(c.f.Status.Conditions, condition(gatewayv1.GatewayConditionResolvedRefs, metav1.ConditionFalse, wrong.reason, wrong.message))
}

// clientCertificate is the Secret that a Gateway names for its servers, where it may; zero:
// none.
func clientCertificate(v *snapshot.View, gw *gatewayv1.Gateway) (snapshot.Key, *problem) {
	if gw.Spec.TLS == nil || gw.Spec.TLS.Backend == nil || gw.Spec.TLS.Backend.ClientCertificateRef == nil {
		return snapshot.Key{}, nil
	}
	owner := snapshot.Key{Kind: snapshot.Gateway, Namespace: gw.Namespace, Name: gw.Name}
	key, wrong := secretOf(v, owner, gw.Spec.TLS.Backend.ClientCertificateRef)
	if wrong != nil && wrong.reason == string(gatewayv1.ListenerReasonInvalidCertificateRef) {
		wrong.reason = string(gatewayv1.GatewayReasonInvalidClientCertificateRef)
	}
	return key, wrong
}

// validationMode warns of clients that are let in whatever their certificate is.
func (c *converter) validationMode() {
	if c.gw.Spec.TLS == nil || c.gw.Spec.TLS.Frontend == nil {
		return
	}
	front := c.gw.Spec.TLS.Frontend
	insecure := isInsecure(front.Default.Validation)
	for i := range front.PerPort {
		insecure = insecure || isInsecure(front.PerPort[i].TLS.Validation)
	}
	if insecure {
		c.f.Status.Conditions = put(c.f.Status.Conditions, condition(gatewayv1.GatewayConditionInsecureFrontendValidationMode, metav1.ConditionTrue,
			gatewayv1.GatewayReasonConfigurationChanged, "clients are let in without a valid certificate (AllowInsecureFallback)"))
	}
}

func isInsecure(validation *gatewayv1.FrontendTLSValidation) bool {
	return validation != nil && validation.Mode == gatewayv1.AllowInsecureFallback
}
