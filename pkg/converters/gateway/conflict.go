package gateway

import (
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
)

// conflicts finds listeners between which a connection could not choose. Among the Gateway's
// own none wins. A listener of a ListenerSet yields to the Gateway's and to those of sets
// that stand before its own.
func conflicts(entries []*entry) {
	for i, e := range entries {
		if e.terms.refused != nil {
			continue
		}
		for _, earlier := range entries[:i] {
			if earlier.terms.refused != nil || earlier.conflict != nil && earlier.owner.Kind == snapshot.ListenerSet {
				continue
			}
			reason := conflict(e.spec, earlier.spec, e.terms.host == earlier.terms.host)
			if reason == "" {
				continue
			}
			e.conflicted(reason, earlier)
			if e.owner.Kind == snapshot.Gateway {
				earlier.conflicted(reason, e)
			}
		}
	}
}

func (e *entry) conflicted(reason gatewayv1.ListenerConditionReason, other *entry) {
	if e.conflict != nil {
		return
	}
	// Names of another namespace's objects are not told.
	name := "another listener"
	if other.owner.Namespace == e.owner.Namespace {
		name = "listener " + string(other.spec.Name) + " of " + string(other.owner.Kind) + " " + other.owner.Name
	}
	if reason == gatewayv1.ListenerReasonHostnameConflict {
		e.conflict = problemOf(reason, "%s has the same port and hostname", name)
		return
	}
	e.conflict = problemOf(reason, "%s has the same port and protocol %s", name, other.spec.Protocol)
}

// conflict is the reason why two listeners can't both be served; empty: they can. HTTPS and
// TLS share a port, told apart by the name that clients ask for.
func conflict(a, b *gatewayv1.Listener, sameHost bool) gatewayv1.ListenerConditionReason {
	datagrams := a.Protocol == gatewayv1.UDPProtocolType
	switch {
	case a.Port != b.Port || datagrams != (b.Protocol == gatewayv1.UDPProtocolType):
		return ""
	case a.Protocol == b.Protocol && sameHost:
		return gatewayv1.ListenerReasonHostnameConflict
	case a.Protocol == b.Protocol:
		return ""
	case speaksTLS(a) && speaksTLS(b) && !sameHost:
		return ""
	}
	return gatewayv1.ListenerReasonProtocolConflict
}

func speaksTLS(l *gatewayv1.Listener) bool {
	return l.Protocol == gatewayv1.HTTPSProtocolType || l.Protocol == gatewayv1.TLSProtocolType
}

// overlaps finds listeners for TLS on one port whose names overlap: a client may use one
// connection for both.
func overlaps(entries []*entry) {
	for i, e := range entries {
		for _, other := range entries[:i] {
			if e.spec.Port != other.spec.Port || !e.standing() || !other.standing() {
				continue
			}
			if _, both := intersect(e.terms.host, other.terms.host); both {
				e.overlaps = append(e.overlaps, other.terms.host)
				other.overlaps = append(other.overlaps, e.terms.host)
			}
		}
	}
}

func (e *entry) standing() bool {
	return speaksTLS(e.spec) && e.terms.refused == nil && e.conflict == nil
}
