package resolve

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/token"
)

// PolicyFor is the BackendTLSPolicy that counts for a port of a Service; nil: none does. One
// for the port counts before one for the whole Service, then the older one, then the first by
// name. Whether it can be honoured makes no difference: otherwise a mistake in it would hand the
// Service to another one.
func PolicyFor(policies []*gatewayv1.BackendTLSPolicy, service, port string) *gatewayv1.BackendTLSPolicy {
	var best *gatewayv1.BackendTLSPolicy
	bestOwn := false
	for _, p := range policies {
		own, targets := targetsPort(p, service, port)
		if targets && (best == nil || own && !bestOwn || own == bestOwn && precedes(p, best)) {
			best, bestOwn = p, own
		}
	}
	return best
}

// PolicyBefore is the policy that has a target before the given one does; nil: none. Two policies
// have a target in common where they name the same Service, and the same port or both none.
func PolicyBefore(policies []*gatewayv1.BackendTLSPolicy, p *gatewayv1.BackendTLSPolicy, target *gatewayv1.LocalPolicyTargetReferenceWithSectionName) *gatewayv1.BackendTLSPolicy {
	for _, other := range policies {
		if other.Name == p.Name || !precedes(other, p) {
			continue
		}
		for _, t := range other.Spec.TargetRefs {
			if TargetsService(&t) && t.Name == target.Name && sectionOf(&t) == sectionOf(target) {
				return other
			}
		}
	}
	return nil
}

func sectionOf(t *gatewayv1.LocalPolicyTargetReferenceWithSectionName) string {
	if t.SectionName == nil {
		return ""
	}
	return string(*t.SectionName)
}

// targetsPort tells whether a policy is for a port of a Service, and whether it names the port.
func targetsPort(p *gatewayv1.BackendTLSPolicy, service, port string) (own, targets bool) {
	for _, t := range p.Spec.TargetRefs {
		if !TargetsService(&t) || string(t.Name) != service {
			continue
		}
		switch sectionOf(&t) {
		case "":
			targets = true
		case port:
			own, targets = true, true
		}
	}
	return own, targets
}

// TargetsService tells whether a target of a policy is a Service.
func TargetsService(t *gatewayv1.LocalPolicyTargetReferenceWithSectionName) bool {
	return t.Group == "" && t.Kind == gatewayv1.Kind(snapshot.Service)
}

func precedes(a, b *gatewayv1.BackendTLSPolicy) bool {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name)) < 0
}

// PolicyTerms are what a BackendTLSPolicy asks for, and why it can't be had.
type PolicyTerms struct {
	Host        string
	System      bool           // the authorities of the system that HAProxy runs on
	Authorities []snapshot.Key // that can be used
	// Unresolved is why a reference to an authority is broken; Refused why the policy can't be
	// honoured at all: then nothing may be sent to the servers.
	Unresolved *Flaw
	Refused    *Flaw
}

// Flaw is a reason, in the word that a condition has for it, and a message.
type Flaw struct{ Reason, Message string }

// ReadPolicy reads a policy and looks its authorities up.
func ReadPolicy(v *snapshot.View, p *gatewayv1.BackendTLSPolicy) PolicyTerms {
	var t PolicyTerms
	validation := &p.Spec.Validation
	host, err := token.RuleHost(string(validation.Hostname))
	if err != nil || host == token.AnyHost || strings.HasPrefix(host, "*") {
		t.Refused = &Flaw{string(gatewayv1.PolicyReasonInvalid), fmt.Sprintf("hostname %.260q is not valid", validation.Hostname)}
		return t
	}
	t.Host = host
	if why := namesOther(validation.SubjectAltNames, host); why != "" {
		t.Refused = &Flaw{string(gatewayv1.PolicyReasonInvalid), why}
	}
	if len(validation.CACertificateRefs) == 0 {
		t.System = validation.WellKnownCACertificates != nil && *validation.WellKnownCACertificates == gatewayv1.WellKnownCACertificatesSystem
		if !t.System {
			t.Refused = &Flaw{string(gatewayv1.PolicyReasonInvalid), "it names no authority; use caCertificateRefs, or System for wellKnownCACertificates"}
		}
		return t
	}
	for _, ref := range validation.CACertificateRefs {
		key := snapshot.Key{Kind: snapshot.Kind(ref.Kind), Namespace: p.Namespace, Name: string(ref.Name)}
		reason, why := string(gatewayv1.BackendTLSPolicyReasonInvalidKind), ""
		if ref.Group != "" || key.Kind != snapshot.ConfigMap && key.Kind != snapshot.Secret {
			why = fmt.Sprintf("an authority of kind %.60q is not known; name a ConfigMap or a Secret", ref.Kind)
		} else {
			reason, why = string(gatewayv1.BackendTLSPolicyReasonInvalidCACertificateRef), CheckAuthority(v, key)
		}
		if why == "" {
			t.Authorities = append(t.Authorities, key)
		} else if t.Unresolved == nil {
			t.Unresolved = &Flaw{reason, why}
		}
	}
	if len(t.Authorities) == 0 {
		t.Refused = &Flaw{string(gatewayv1.BackendTLSPolicyReasonNoValidCACertificate), "no authority can be used: " + t.Unresolved.Message}
	}
	return t
}

// namesOther says why the names that a certificate may have can't be verified: HAProxy compares
// it with the name that it sends, and with that alone.
func namesOther(names []gatewayv1.SubjectAltName, host string) string {
	if len(names) == 0 || len(names) == 1 && names[0].Type == gatewayv1.HostnameSubjectAltNameType && strings.EqualFold(string(names[0].Hostname), host) {
		return ""
	}
	return "HAProxy verifies the name that it sends and no other; let subjectAltNames be the hostname, or leave it out"
}

// routeTerms are what follows from a reference of the Gateway API and from the Service's port
// that it names.
type routeTerms struct {
	h2      bool // servers speak HTTP/2
	policy  *PolicyTerms
	ca      *model.Certificate // of policy; nil: the system's
	client  snapshot.Key       // certificate that servers are shown over TLS
	refused *Flaw              // why every request is answered 500; Reason is empty
	missing bool               // it is the Service or its port that is missing
}

// PortState is what can be said of the port of a reference.
type PortState uint8

// The states.
const (
	PortUsable   PortState = iota
	PortMissing            // the Service does not have it
	PortProtocol           // its appProtocol is not supported
)

// CheckPort looks at the port that a reference of the Gateway API names.
func CheckPort(v *snapshot.View, service *corev1.Service, ref *BackendRef) PortState {
	if service.Spec.Type == corev1.ServiceTypeExternalName && len(service.Spec.Ports) == 0 {
		return PortUsable
	}
	port := servicePort(service, ref.Port, ref.protocol())
	if port == nil {
		return PortMissing
	}
	if _, ok := speaks(port); !ok {
		return PortProtocol
	}
	if port.AppProtocol != nil && *port.AppProtocol == protocolWSS && PolicyFor(v.BackendTLSPolicies(service.Namespace, service.Name), service.Name, port.Name) == nil {
		return PortProtocol
	}
	return PortUsable
}

// What Kubernetes defines for appProtocol beside the names of IANA.
const (
	protocolPrefix = "kubernetes.io/"
	protocolH2C    = "kubernetes.io/h2c"
	protocolWS     = "kubernetes.io/ws"
	protocolWSS    = "kubernetes.io/wss"
)

// speaks tells whether servers speak HTTP/2 without having been asked, and whether the
// protocol is one that can be spoken. Names that are not Kubernetes' own are hints for others.
func speaks(port *corev1.ServicePort) (h2, ok bool) {
	if port.AppProtocol == nil {
		return false, true
	}
	switch text := *port.AppProtocol; {
	case text == protocolH2C:
		return true, true
	case text == protocolWS || text == protocolWSS:
		return false, true
	default:
		return false, !strings.HasPrefix(text, protocolPrefix)
	}
}

func (r *BackendRef) protocol() corev1.Protocol {
	if r.Datagrams() {
		return corev1.ProtocolUDP
	}
	return corev1.ProtocolTCP
}

// routeTermsOf looks up what a reference of the Gateway API depends on.
func routeTermsOf(v *snapshot.View, service *corev1.Service, ref *BackendRef) *routeTerms {
	t := &routeTerms{h2: ref.Gateway.H2, client: ref.Gateway.ClientCertificate}
	if ref.Service == "" {
		return t
	}
	if service == nil {
		t.missing, t.refused = true, &Flaw{}
		return t
	}
	switch CheckPort(v, service, ref) {
	case PortMissing:
		t.missing, t.refused = true, &Flaw{}
		return t
	case PortProtocol:
		t.refused = &Flaw{Message: "the appProtocol of the port is not supported; kubernetes.io/h2c and kubernetes.io/ws are, and kubernetes.io/wss with a BackendTLSPolicy"}
		return t
	}
	name := ref.Port
	if port := servicePort(service, ref.Port, ref.protocol()); port != nil {
		name = port.Name
		if h2, _ := speaks(port); h2 && !ref.TCP {
			t.h2 = true
		}
	}
	if ref.Gateway.Passthrough || ref.Gateway.UDP {
		return t
	}
	policy := PolicyFor(v.BackendTLSPolicies(service.Namespace, service.Name), service.Name, name)
	if policy == nil {
		return t
	}
	terms := ReadPolicy(v, policy)
	t.policy = &terms
	if terms.Refused != nil {
		t.refused = &Flaw{Message: fmt.Sprintf("BackendTLSPolicy %s can't be honoured: %s", policy.Name, terms.Refused.Message)}
	} else if !terms.System {
		t.ca = Authorities(v, terms.Authorities)
	}
	return t
}

// blame says why the reference is answered 500, and has it denied.
func (t *routeTerms) blame(v *snapshot.View, service *corev1.Service, ref *BackendRef) []report.Finding {
	if t.refused == nil {
		return nil
	}
	ref.Deny = StatusBroken
	if t.missing {
		return endpointsOf(v, service, *ref, endpointRules{}).findings
	}
	fate := "requests are answered 500"
	if ref.TCP {
		fate = "connections are closed"
	}
	return []report.Finding{report.New(report.BackendInvalid, ref.Origin, "%s: %s", fate, t.refused.Message)}
}

// plain tells whether the reference asks for nothing that changes the backend.
func (t *routeTerms) plain(ref *BackendRef) bool {
	return t == nil || !t.h2 && t.policy == nil && t.refused == nil && ref.Gateway.Filters == nil && t.client == (snapshot.Key{})
}

// route applies the terms to the options of servers. What a policy asks for counts before what
// options say.
func (b *behaviour) route() {
	t := b.terms
	if t == nil {
		return
	}
	if t.policy != nil {
		b.options.SSL, b.options.Verify, b.options.VerifyHost = true, true, ""
		b.options.SNI = "str(" + t.policy.Host + ")"
		b.ca, b.options.CAFile = t.ca, model.SystemCA
		if t.ca != nil {
			b.options.CAFile = t.ca.Name
		}
		if b.options.Proto == "h2" {
			b.options.Proto, b.options.ALPN = "", "h2"
		}
	}
	switch {
	case !t.h2 || b.ref.TCP:
	case b.options.SSL:
		b.options.ALPN = "h2"
	default:
		b.options.Proto = "h2"
	}
	if b.options.SSL && b.client == nil && t.client != (snapshot.Key{}) {
		if secret := b.v.Secret(t.client.Namespace, t.client.Name); secret != nil {
			if pair := pairOf(secret, t.client.Origin()); pair.finding == nil {
				b.client, b.options.CertFile = pair.certificate, pair.certificate.Name
			}
		}
	}
}
