package gateway

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/resolve"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// entry is a listener on its way into the fragment.
type entry struct {
	spec     *gatewayv1.Listener
	owner    snapshot.Key // the Gateway or the ListenerSet
	terms    terms
	listener Listener

	accepted *problem // why it is not; nil: it is
	resolved *problem // which reference is broken; nil: none
	conflict *problem
	overlaps []string // hosts of listeners that share names with it
}

// read fills in what the listener's own words, its certificates and the Gateway's validation
// of clients come to.
func (c *converter) read(l *gatewayv1.Listener, owner snapshot.Key, origin model.Origin) *entry {
	e := &entry{spec: l, owner: owner, terms: termsOf(l)}
	e.accepted = e.terms.refused
	e.listener = Listener{
		ID: ListenerID{Gateway: c.key, Name: string(l.Name)}, Port: int(l.Port), Protocol: l.Protocol,
		Host: e.terms.host, Passthrough: e.terms.passthrough, Origin: origin,
	}
	if owner.Kind == snapshot.ListenerSet {
		e.listener.ID.Set = owner
	}
	if len(e.terms.unknown) > 0 {
		e.resolved = problemOf(gatewayv1.ListenerReasonInvalidRouteKinds, "routes of kind %s can't be attached to a listener of protocol %s",
			strings.Join(e.terms.unknown, ", "), l.Protocol)
	}
	if e.accepted != nil {
		return e
	}
	if terminates(l) {
		c.certificates(e)
	}
	if l.Protocol == gatewayv1.HTTPSProtocolType {
		c.clientAuth(e)
	}
	return e
}

// certificates are those that can be used; a broken reference costs only itself.
func (c *converter) certificates(e *entry) {
	var refs []gatewayv1.SecretObjectReference
	if e.spec.TLS != nil {
		refs = e.spec.TLS.CertificateRefs
	}
	if len(refs) == 0 {
		e.unresolved(problemOf(gatewayv1.ListenerReasonInvalidCertificateRef, "tls.certificateRefs names no certificate"))
	}
	for _, ref := range refs {
		key, wrong := secretOf(c.v, e.owner, &ref)
		if wrong == nil {
			if why := resolve.CheckCertificate(c.v, key); why != "" {
				wrong = problemOf(gatewayv1.ListenerReasonInvalidCertificateRef, "%s", why)
			}
		}
		if wrong != nil {
			e.unresolved(wrong)
			continue
		}
		if !slices.Contains(e.listener.Secrets, key) {
			e.listener.Secrets = append(e.listener.Secrets, key)
		}
	}
}

// unresolved notes a broken reference; the first one is told.
func (e *entry) unresolved(why *problem) {
	if e.resolved == nil {
		e.resolved = why
	}
}

// secretOf is the Secret that an object names, where it may.
func secretOf(v *snapshot.View, owner snapshot.Key, ref *gatewayv1.SecretObjectReference) (snapshot.Key, *problem) {
	kind, known := reference(ref.Group, ref.Kind, snapshot.Secret)
	if !known {
		return snapshot.Key{}, problemOf(gatewayv1.ListenerReasonInvalidCertificateRef, "a certificate of kind %q is not known; name a Secret", kindText(ref.Group, ref.Kind))
	}
	key := snapshot.Key{Kind: kind, Namespace: within(ref.Namespace, owner.Namespace), Name: string(ref.Name)}
	if !permitted(v, owner, key) {
		return snapshot.Key{}, notPermitted(key)
	}
	return key, nil
}

// clientAuth is the validation of clients of the listener's port. Without any authority that
// can be used, nobody is let in.
func (c *converter) clientAuth(e *entry) {
	validation := validationOf(c.gw, e.spec.Port)
	if validation == nil {
		return
	}
	auth := &ClientAuth{Fallback: validation.Mode == gatewayv1.AllowInsecureFallback}
	for _, ref := range validation.CACertificateRefs {
		key, wrong := authorityOf(c.v, c.key, &ref)
		if wrong != nil {
			e.unresolved(wrong)
			continue
		}
		auth.Authorities = append(auth.Authorities, key)
	}
	if len(auth.Authorities) == 0 {
		e.accepted = problemOf(gatewayv1.ListenerReasonNoValidCACertificate, "no authority can be used that signs the certificates of clients")
		if e.resolved != nil {
			e.accepted.message += ": " + e.resolved.message
		}
		return
	}
	e.listener.ClientAuth = auth
}

// validationOf is the frontend validation of a port; nil: there is none.
func validationOf(gw *gatewayv1.Gateway, port gatewayv1.PortNumber) *gatewayv1.FrontendTLSValidation {
	if gw.Spec.TLS == nil || gw.Spec.TLS.Frontend == nil {
		return nil
	}
	for i := range gw.Spec.TLS.Frontend.PerPort {
		if own := &gw.Spec.TLS.Frontend.PerPort[i]; own.Port == port {
			return own.TLS.Validation
		}
	}
	return gw.Spec.TLS.Frontend.Default.Validation
}

func authorityOf(v *snapshot.View, owner snapshot.Key, ref *gatewayv1.ObjectReference) (snapshot.Key, *problem) {
	kind, known := reference(&ref.Group, &ref.Kind, snapshot.ConfigMap, snapshot.Secret)
	if !known {
		return snapshot.Key{}, problemOf(gatewayv1.ListenerReasonInvalidCACertificateKind,
			"an authority of kind %q is not known; name a ConfigMap or a Secret", kindText(&ref.Group, &ref.Kind))
	}
	key := snapshot.Key{Kind: kind, Namespace: within(ref.Namespace, owner.Namespace), Name: string(ref.Name)}
	if !permitted(v, owner, key) {
		return snapshot.Key{}, notPermitted(key)
	}
	if why := resolve.CheckAuthority(v, key); why != "" {
		return snapshot.Key{}, problemOf(gatewayv1.ListenerReasonInvalidCACertificateRef, "%s", why)
	}
	return key, nil
}

// serves tells whether connections can be taken.
func (e *entry) serves() bool {
	return e.accepted == nil && e.conflict == nil && len(e.terms.kinds) > 0 && (!terminates(e.spec) || len(e.listener.Secrets) > 0)
}

// status is the listener's status. Where its object is refused (why is not empty), it serves
// nothing.
func (e *entry) status(generation int64, why string) gatewayv1.ListenerStatus {
	status := gatewayv1.ListenerStatus{Name: e.spec.Name, SupportedKinds: []gatewayv1.RouteGroupKind{}}
	if e.terms.refused == nil || len(e.terms.kinds) > 0 {
		for _, kind := range e.terms.kinds {
			status.SupportedKinds = append(status.SupportedKinds, gatewayv1.RouteGroupKind{Group: new(group), Kind: kind})
		}
	}
	accepted := condition(gatewayv1.ListenerConditionAccepted, metav1.ConditionTrue, gatewayv1.ListenerReasonAccepted, "the listener is accepted")
	programmed := condition(gatewayv1.ListenerConditionProgrammed, metav1.ConditionTrue, gatewayv1.ListenerReasonProgrammed, "the listener is served")
	resolved := condition(gatewayv1.ListenerConditionResolvedRefs, metav1.ConditionTrue, gatewayv1.ListenerReasonResolvedRefs, "all references are resolved")
	conflicted := condition(gatewayv1.ListenerConditionConflicted, metav1.ConditionFalse, gatewayv1.ListenerReasonNoConflicts, "no other listener stands against it")
	invalid := func(reason, message string) {
		programmed = condition(gatewayv1.ListenerConditionProgrammed, metav1.ConditionFalse, reason, message)
	}
	if e.resolved != nil {
		resolved = condition(gatewayv1.ListenerConditionResolvedRefs, metav1.ConditionFalse, e.resolved.reason, e.resolved.message)
	}
	switch {
	case e.conflict != nil:
		accepted = condition(gatewayv1.ListenerConditionAccepted, metav1.ConditionFalse, e.conflict.reason, e.conflict.message)
		conflicted = condition(gatewayv1.ListenerConditionConflicted, metav1.ConditionTrue, e.conflict.reason, e.conflict.message)
		invalid(e.conflict.reason, e.conflict.message)
	case e.accepted != nil:
		accepted = condition(gatewayv1.ListenerConditionAccepted, metav1.ConditionFalse, e.accepted.reason, e.accepted.message)
		invalid(string(gatewayv1.ListenerReasonInvalid), e.accepted.message)
	case !e.serves():
		invalid(string(gatewayv1.ListenerReasonInvalid), e.resolved.message)
	case why != "":
		invalid(string(gatewayv1.ListenerReasonInvalid), why)
	}
	status.Conditions = []metav1.Condition{accepted, programmed, resolved, conflicted}
	if len(e.overlaps) > 0 {
		slices.Sort(e.overlaps)
		message := fmt.Sprintf("the listener shares names with %s; a connection for one of them may carry requests for the other, which are answered 421", names(slices.Compact(e.overlaps)))
		status.Conditions = append(status.Conditions,
			condition(gatewayv1.ListenerConditionOverlappingTLSConfig, metav1.ConditionTrue, gatewayv1.ListenerReasonOverlappingHostnames, message))
	}
	observed(status.Conditions, generation)
	return status
}
