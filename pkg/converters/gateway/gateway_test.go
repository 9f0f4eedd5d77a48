package gateway

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
)

// pair is a certificate and its key, which can stand for an authority, too.
func pair(t testing.TB) (certificate, key string) {
	t.Helper()
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"a.example.com"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, signer.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(signer)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
}

func indent(text string) string {
	return "|\n    " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n    ")
}

func secretOfPair(t testing.TB, namespace, name string) string {
	certificate, key := pair(t)
	return "kind: Secret\nmetadata: {namespace: " + namespace + ", name: " + name + "}\nstringData:\n  tls.crt: " + indent(certificate) + "\n  tls.key: " + indent(key)
}

func authority(t testing.TB, namespace, name string) string {
	certificate, _ := pair(t)
	return "kind: ConfigMap\nmetadata: {namespace: " + namespace + ", name: " + name + "}\ndata:\n  ca.crt: " + indent(certificate)
}

// gatewayOf is Gateway infra/gw with the given spec, beside its class.
func gatewayOf(spec string) string {
	return "kind: Gateway\nmetadata: {namespace: infra, name: gw, generation: 7, creationTimestamp: \"2026-01-01T00:00:00Z\"}\nspec:\n  gatewayClassName: sluice\n" + spec
}

// What the conditions of a listener come to.
const allGood = "Accepted True Accepted\nProgrammed True Programmed\nResolvedRefs True ResolvedRefs\nConflicted False NoConflicts"

func unresolved(reason string) string {
	return "Accepted True Accepted\nProgrammed False Invalid\nResolvedRefs False " + reason + "\nConflicted False NoConflicts"
}

func partly(reason string) string {
	return "Accepted True Accepted\nProgrammed True Programmed\nResolvedRefs False " + reason + "\nConflicted False NoConflicts"
}

func refused(reason string) string {
	return "Accepted False " + reason + "\nProgrammed False Invalid\nResolvedRefs True ResolvedRefs\nConflicted False NoConflicts"
}

func conflictOf(reason string) string {
	return "Accepted False " + reason + "\nProgrammed False " + reason + "\nResolvedRefs True ResolvedRefs\nConflicted True " + reason
}

func https(refs string) string {
	return "  listeners:\n  - {name: s, port: 443, protocol: HTTPS, tls: {certificateRefs: [" + refs + "]}}"
}

// granting is a ReferenceGrant of namespace other for one of namespace infra.
func granting(from, to, name string) string {
	if name != "" {
		name = ", name: " + name
	}
	return "kind: ReferenceGrant\nmetadata: {namespace: other, name: g}\nspec:\n  from: [{group: gateway.networking.k8s.io, kind: " + from +
		", namespace: infra}]\n  to: [{group: \"\", kind: " + to + name + "}]"
}

// gatewayCase is a Gateway and what is said of it.
type gatewayCase struct {
	spec      string
	others    []string
	gateway   string   // conditions
	listeners []string // conditions
	kinds     string   // supportedKinds of the first listener; empty: those of HTTP
}

func (c *gatewayCase) test(t *testing.T) {
	t.Helper()
	secrets := []string{
		secretOfPair(t, "infra", "cert"), secretOfPair(t, "other", "cert"),
		"kind: Secret\nmetadata: {namespace: infra, name: empty}", authority(t, "infra", "ca"), authority(t, "other", "ca"),
	}
	s := load(t, slices.Concat(secrets, c.others, []string{gatewayOf(c.spec)})...)
	f := ConvertGateway(s.View(), ours, gatewayKey("gw"))
	status, _ := f.Placed(Place{Addresses: []string{"10.0.0.1"}})
	if c.gateway != "" {
		got := sortedLines(said(status.Conditions))
		if want := sortedLines(c.gateway); got != want {
			t.Errorf("the Gateway: %s", gocmp.Diff(want, got))
		}
	}
	if len(status.Listeners) != len(c.listeners) {
		t.Fatalf("%d listeners, want %d", len(status.Listeners), len(c.listeners))
	}
	generationOf(t, 7, status.Conditions)
	for i, want := range c.listeners {
		if got := said(status.Listeners[i].Conditions); got != want {
			t.Errorf("listener %d: %s", i, gocmp.Diff(want, got))
		}
		if f.Listeners[i].Serves != holds(status.Listeners[i].Conditions, gatewayv1.ListenerConditionProgrammed) {
			t.Errorf("listener %d serves: %v", i, f.Listeners[i].Serves)
		}
		generationOf(t, 7, status.Listeners[i].Conditions)
	}
	var kinds []string
	for _, kind := range status.Listeners[0].SupportedKinds {
		kinds = append(kinds, string(kind.Kind))
	}
	if got, want := cmp.Or(strings.Join(kinds, " "), "none"), cmp.Or(c.kinds, "HTTPRoute GRPCRoute"); got != want || status.Listeners[0].SupportedKinds == nil {
		t.Errorf("supported kinds %q, want %q", got, want)
	}
}

func TestListeners(t *testing.T) {
	for name, c := range map[string]gatewayCase{
		"one listener for HTTP": {
			spec:      "  listeners: [{name: h, port: 80, protocol: HTTP}]",
			gateway:   "Accepted True Accepted\nProgrammed True Programmed\nResolvedRefs True ResolvedRefs",
			listeners: []string{allGood},
		},
		"a protocol that is not known": {
			spec:      "  listeners: [{name: h, port: 80, protocol: example.com/x}]",
			gateway:   "Accepted False ListenersNotValid\nProgrammed False Invalid\nResolvedRefs True ResolvedRefs",
			listeners: []string{refused("UnsupportedProtocol")}, kinds: "none",
		},
		"some listeners are good": {
			spec:      "  listeners: [{name: h, port: 80, protocol: HTTP}, {name: x, port: 81, protocol: example.com/x}]",
			gateway:   "Accepted True ListenersNotValid\nProgrammed True Programmed\nResolvedRefs True ResolvedRefs",
			listeners: []string{allGood, refused("UnsupportedProtocol")},
		},
		"a port that is none":     {spec: "  listeners: [{name: h, port: 70000, protocol: HTTP}]", listeners: []string{refused("PortUnavailable")}},
		"a hostname that is none": {spec: "  listeners: [{name: h, port: 80, protocol: HTTP, hostname: 10.0.0.1}]", listeners: []string{refused("UnsupportedValue")}},
		"HTTPS does not pass through": {
			spec:      "  listeners: [{name: h, port: 443, protocol: HTTPS, tls: {mode: Passthrough}}]",
			listeners: []string{refused("UnsupportedValue")},
		},
		"a selector that can't be read": {
			spec:      "  listeners: [{name: h, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: Selector, selector: {matchLabels: {\"a b\": c}}}}}]",
			listeners: []string{refused("UnsupportedValue")},
		},
		"one name twice": {
			spec:      "  listeners: [{name: h, port: 80, protocol: HTTP}, {name: h, port: 81, protocol: HTTP}]",
			listeners: []string{allGood, refused("UnsupportedValue")},
		},
		"only kinds of routes that do not fit": {
			spec:      "  listeners: [{name: h, port: 80, protocol: HTTP, allowedRoutes: {kinds: [{kind: InvalidRoute}]}}]",
			gateway:   "Accepted False ListenersNotValid\nProgrammed False Invalid\nResolvedRefs False ListenersNotResolved",
			listeners: []string{unresolved("InvalidRouteKinds")}, kinds: "none",
		},
		"one kind of routes that fits": {
			spec:      "  listeners: [{name: h, port: 80, protocol: HTTP, allowedRoutes: {kinds: [{kind: InvalidRoute}, {kind: HTTPRoute}]}}]",
			listeners: []string{partly("InvalidRouteKinds")}, kinds: "HTTPRoute",
		},
		"passthrough takes TLSRoutes, and TCPRoutes not": {
			spec:      "  listeners: [{name: h, port: 443, protocol: TLS, tls: {mode: Passthrough}, allowedRoutes: {kinds: [{kind: TCPRoute}, {kind: TLSRoute}]}}]",
			listeners: []string{partly("InvalidRouteKinds")}, kinds: "TLSRoute",
		},
		"terminated TLS takes TLSRoutes and TCPRoutes": {
			spec:      "  listeners: [{name: h, port: 443, protocol: TLS, tls: {mode: Terminate, certificateRefs: [{name: cert}]}}]",
			listeners: []string{allGood}, kinds: "TLSRoute TCPRoute",
		},
		"TCP and UDP share a port number": {
			spec:      "  listeners: [{name: t, port: 53, protocol: TCP}, {name: u, port: 53, protocol: UDP}]",
			listeners: []string{allGood, allGood}, kinds: "TCPRoute",
		},
	} {
		t.Run(name, c.test)
	}
}

func TestCertificates(t *testing.T) {
	for name, c := range map[string]gatewayCase{
		"a certificate":            {spec: https("{name: cert}"), listeners: []string{allGood}},
		"no certificate is named":  {spec: https(""), listeners: []string{unresolved("InvalidCertificateRef")}},
		"a missing certificate":    {spec: https("{name: gone}"), listeners: []string{unresolved("InvalidCertificateRef")}},
		"an empty Secret":          {spec: https("{name: empty}"), listeners: []string{unresolved("InvalidCertificateRef")}},
		"a certificate's kind":     {spec: https("{name: cert, kind: ConfigMap}"), listeners: []string{unresolved("InvalidCertificateRef")}},
		"a certificate's group":    {spec: https("{name: cert, group: example.com}"), listeners: []string{unresolved("InvalidCertificateRef")}},
		"one of two is missing":    {spec: https("{name: gone}, {name: cert}"), listeners: []string{partly("InvalidCertificateRef")}},
		"no grant":                 {spec: https("{name: cert, namespace: other}"), listeners: []string{unresolved("RefNotPermitted")}},
		"no grant, nothing exists": {spec: https("{name: gone, namespace: other}"), listeners: []string{unresolved("RefNotPermitted")}},
		"a grant for all":          {spec: https("{name: cert, namespace: other}"), others: []string{granting("Gateway", "Secret", "")}, listeners: []string{allGood}},
		"a grant for it":           {spec: https("{name: cert, namespace: other}"), others: []string{granting("Gateway", "Secret", "cert")}, listeners: []string{allGood}},
		"a grant for another":      {spec: https("{name: cert, namespace: other}"), others: []string{granting("Gateway", "Secret", "x")}, listeners: []string{unresolved("RefNotPermitted")}},
		"a grant from another":     {spec: https("{name: cert, namespace: other}"), others: []string{granting("ListenerSet", "Secret", "")}, listeners: []string{unresolved("RefNotPermitted")}},
		"a grant to another kind":  {spec: https("{name: cert, namespace: other}"), others: []string{granting("Gateway", "Service", "")}, listeners: []string{unresolved("RefNotPermitted")}},
	} {
		t.Run(name, c.test)
	}
}

func TestConflicts(t *testing.T) {
	for name, c := range map[string]gatewayCase{
		"one hostname twice": {
			spec:      "  listeners: [{name: a, port: 80, protocol: HTTP, hostname: A.com}, {name: b, port: 80, protocol: HTTP, hostname: a.com}, {name: c, port: 80, protocol: HTTP}]",
			gateway:   "Accepted True ListenersNotValid\nProgrammed True Programmed\nResolvedRefs True ResolvedRefs",
			listeners: []string{conflictOf("HostnameConflict"), conflictOf("HostnameConflict"), allGood},
		},
		"TCP beside HTTP": {
			spec:      "  listeners: [{name: a, port: 80, protocol: HTTP, hostname: a.com}, {name: b, port: 80, protocol: TCP}]",
			listeners: []string{conflictOf("ProtocolConflict"), conflictOf("ProtocolConflict")},
		},
		"HTTP beside HTTPS": {
			spec:      "  listeners: [{name: a, port: 80, protocol: HTTP}, {name: b, port: 80, protocol: HTTPS, hostname: a.com, tls: {certificateRefs: [{name: cert}]}}]",
			listeners: []string{conflictOf("ProtocolConflict"), conflictOf("ProtocolConflict")},
		},
		"HTTPS beside both modes of TLS": {
			spec: "  listeners: [{name: a, port: 443, protocol: HTTPS, hostname: a.com, tls: {certificateRefs: [{name: cert}]}}," +
				" {name: b, port: 443, protocol: TLS, hostname: b.com, tls: {mode: Passthrough}}, {name: c, port: 443, protocol: TLS, hostname: c.com, tls: {mode: Terminate, certificateRefs: [{name: cert}]}}]",
			listeners: []string{allGood, allGood, allGood},
		},
		"HTTPS and TLS of one name": {
			spec: "  listeners: [{name: a, port: 443, protocol: HTTPS, hostname: a.com, tls: {certificateRefs: [{name: cert}]}}," +
				" {name: b, port: 443, protocol: TLS, hostname: a.com, tls: {mode: Passthrough}}]",
			listeners: []string{conflictOf("ProtocolConflict"), conflictOf("ProtocolConflict")},
		},
		"hostnames of HTTPS that overlap": {
			spec: "  listeners: [{name: a, port: 443, protocol: HTTPS, hostname: a.com, tls: {certificateRefs: [{name: cert}]}}," +
				" {name: b, port: 443, protocol: HTTPS, hostname: b.x.com, tls: {certificateRefs: [{name: cert}]}}," +
				" {name: c, port: 443, protocol: HTTPS, hostname: \"*.com\", tls: {certificateRefs: [{name: cert}]}}, {name: d, port: 444, protocol: HTTPS, tls: {certificateRefs: [{name: cert}]}}]",
			listeners: []string{
				allGood + "\nOverlappingTLSConfig True OverlappingHostnames", allGood + "\nOverlappingTLSConfig True OverlappingHostnames",
				allGood + "\nOverlappingTLSConfig True OverlappingHostnames", allGood,
			},
		},
	} {
		t.Run(name, c.test)
	}
}

func TestGatewaysThatAreRefused(t *testing.T) {
	for name, c := range map[string]gatewayCase{
		"an address of a type that is not known": {
			spec:      "  addresses: [{type: test/fake, value: x}]\n  listeners: [{name: h, port: 80, protocol: HTTP}]",
			gateway:   "Accepted False UnsupportedAddress\nProgrammed False Invalid\nResolvedRefs True ResolvedRefs",
			listeners: []string{"Accepted True Accepted\nProgrammed False Invalid\nResolvedRefs True ResolvedRefs\nConflicted False NoConflicts"},
		},
		"parameters that do not exist": {
			spec:      "  infrastructure: {parametersRef: {group: \"\", kind: ConfigMap, name: gone}}\n  listeners: [{name: h, port: 80, protocol: HTTP}]",
			gateway:   "Accepted False InvalidParameters\nProgrammed False Invalid\nResolvedRefs True ResolvedRefs",
			listeners: []string{"Accepted True Accepted\nProgrammed False Invalid\nResolvedRefs True ResolvedRefs\nConflicted False NoConflicts"},
		},
		"parameters": {
			spec:      "  infrastructure: {parametersRef: {group: \"\", kind: ConfigMap, name: ca}}\n  listeners: [{name: h, port: 80, protocol: HTTP}]",
			gateway:   "Accepted True Accepted\nProgrammed True Programmed\nResolvedRefs True ResolvedRefs",
			listeners: []string{allGood},
		},
	} {
		t.Run(name, c.test)
	}
}

func TestValidationOfClients(t *testing.T) {
	for name, c := range map[string]gatewayCase{
		"clients are validated": {
			spec:      "  tls: {frontend: {default: {validation: {caCertificateRefs: [{group: \"\", kind: ConfigMap, name: ca}]}}}}\n" + https("{name: cert}"),
			gateway:   "Accepted True Accepted\nProgrammed True Programmed\nResolvedRefs True ResolvedRefs",
			listeners: []string{allGood},
		},
		"clients are let in nevertheless": {
			spec:      "  tls: {frontend: {default: {validation: {mode: AllowInsecureFallback, caCertificateRefs: [{group: \"\", kind: ConfigMap, name: ca}]}}}}\n" + https("{name: cert}"),
			gateway:   "Accepted True Accepted\nProgrammed True Programmed\nResolvedRefs True ResolvedRefs\nInsecureFrontendValidationMode True ConfigurationChanged",
			listeners: []string{allGood},
		},
		"an authority that does not exist": {
			spec:      "  tls: {frontend: {default: {validation: {caCertificateRefs: [{group: \"\", kind: ConfigMap, name: gone}]}}}}\n" + https("{name: cert}"),
			gateway:   "Accepted False ListenersNotValid\nProgrammed False Invalid\nResolvedRefs False ListenersNotResolved",
			listeners: []string{"Accepted False NoValidCACertificate\nProgrammed False Invalid\nResolvedRefs False InvalidCACertificateRef\nConflicted False NoConflicts"},
		},
		"an authority of a kind that is not known": {
			spec:      "  tls: {frontend: {default: {validation: {caCertificateRefs: [{group: \"\", kind: Service, name: ca}]}}}}\n" + https("{name: cert}"),
			listeners: []string{"Accepted False NoValidCACertificate\nProgrammed False Invalid\nResolvedRefs False InvalidCACertificateKind\nConflicted False NoConflicts"},
		},
		"an authority without a grant": {
			spec:      "  tls: {frontend: {default: {validation: {caCertificateRefs: [{group: \"\", kind: ConfigMap, name: ca, namespace: other}]}}}}\n" + https("{name: cert}"),
			listeners: []string{"Accepted False NoValidCACertificate\nProgrammed False Invalid\nResolvedRefs False RefNotPermitted\nConflicted False NoConflicts"},
		},
		"one of two authorities": {
			spec:      "  tls: {frontend: {default: {validation: {caCertificateRefs: [{group: \"\", kind: ConfigMap, name: gone}, {group: \"\", kind: ConfigMap, name: ca}]}}}}\n" + https("{name: cert}"),
			listeners: []string{partly("InvalidCACertificateRef")},
		},
		"a port has its own validation, HTTP none": {
			spec: "  tls: {frontend: {default: {validation: {caCertificateRefs: [{group: \"\", kind: ConfigMap, name: gone}]}}," +
				" perPort: [{port: 443, tls: {validation: {caCertificateRefs: [{group: \"\", kind: ConfigMap, name: ca}]}}}]}}\n" + https("{name: cert}") + "\n  - {name: h, port: 80, protocol: HTTP}",
			listeners: []string{allGood, allGood},
		},
	} {
		t.Run(name, c.test)
	}
}

func TestClientCertificateForServers(t *testing.T) {
	for name, c := range map[string]gatewayCase{
		"a client certificate": {
			spec:      "  tls: {backend: {clientCertificateRef: {name: cert}}}\n  listeners: [{name: h, port: 80, protocol: HTTP}]",
			gateway:   "Accepted True Accepted\nProgrammed True Programmed\nResolvedRefs True ResolvedRefs",
			listeners: []string{allGood},
		},
		"a client certificate that does not exist": {
			spec:      "  tls: {backend: {clientCertificateRef: {name: gone}}}\n  listeners: [{name: h, port: 80, protocol: HTTP}]",
			gateway:   "Accepted True Accepted\nProgrammed True Programmed\nResolvedRefs False InvalidClientCertificateRef",
			listeners: []string{allGood},
		},
		"a client certificate of another kind": {
			spec:      "  tls: {backend: {clientCertificateRef: {name: cert, kind: WrongKind, group: \"\"}}}\n  listeners: [{name: h, port: 80, protocol: HTTP}]",
			gateway:   "Accepted True Accepted\nProgrammed True Programmed\nResolvedRefs False InvalidClientCertificateRef",
			listeners: []string{allGood},
		},
		"a client certificate without a grant": {
			spec:      "  tls: {backend: {clientCertificateRef: {name: cert, namespace: other}}}\n  listeners: [{name: h, port: 80, protocol: HTTP}]",
			gateway:   "Accepted True Accepted\nProgrammed True Programmed\nResolvedRefs False RefNotPermitted",
			listeners: []string{allGood},
		},
	} {
		t.Run(name, c.test)
	}
}

func sortedLines(text string) string {
	lines := strings.Split(text, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func TestWhatAListenerIs(t *testing.T) {
	s := load(t, secretOfPair(t, "infra", "cert"), authority(t, "infra", "ca"), gatewayOf(`
  tls: {backend: {clientCertificateRef: {name: cert}}, frontend: {default: {validation: {mode: AllowInsecureFallback, caCertificateRefs: [{group: "", kind: ConfigMap, name: ca}]}}}}
  addresses: [{value: 10.0.0.9}, {type: IPAddress}, {value: "2001:db8:0:0::1"}]
  infrastructure: {labels: {a: b}, annotations: {c: d}}
  listeners:
  - {name: s, port: 443, protocol: HTTPS, hostname: "*.Example.com", tls: {certificateRefs: [{name: cert}, {name: cert}]}}
  - {name: p, port: 8443, protocol: TLS, tls: {mode: Passthrough}}`))
	f := ConvertGateway(s.View(), ours, gatewayKey("gw"))
	cert := snapshot.Key{Kind: snapshot.Secret, Namespace: "infra", Name: "cert"}
	want := []Listener{
		{
			ID: ListenerID{Gateway: gatewayKey("gw"), Name: "s"}, Port: 443, Protocol: "HTTPS", Host: "*.example.com", Secrets: []snapshot.Key{cert},
			ClientAuth: &ClientAuth{Authorities: []snapshot.Key{{Kind: snapshot.ConfigMap, Namespace: "infra", Name: "ca"}}, Fallback: true},
			Serves:     true, Origin: f.Listeners[0].Origin,
		},
		{ID: ListenerID{Gateway: gatewayKey("gw"), Name: "p"}, Port: 8443, Protocol: "TLS", Host: "*", Passthrough: true, Serves: true, Origin: f.Listeners[1].Origin},
	}
	if d := gocmp.Diff(want, f.Listeners); d != "" {
		t.Error(d)
	}
	if got := f.Listeners[1].Origin.String(); got != "Gateway/infra/gw spec.listeners[1]" {
		t.Errorf("origin %s", got)
	}
	if !slices.Equal(f.Addresses, []string{"10.0.0.9", "2001:db8::1"}) || !f.AnyAddress {
		t.Errorf("addresses %v, any: %v", f.Addresses, f.AnyAddress)
	}
	if f.ClientCertificate != cert || f.Labels["a"] != "b" || f.Annotations["c"] != "d" {
		t.Errorf("%v %v %v", f.ClientCertificate, f.Labels, f.Annotations)
	}
}

func TestForeignGateways(t *testing.T) {
	foreign := strings.Replace(gatewayOf("  listeners: [{name: h, port: 80, protocol: HTTP}]"), "Name: sluice", "Name: foreign", 1)
	unknown := strings.Replace(gatewayOf("  listeners: [{name: h, port: 80, protocol: HTTP}]"), "Name: sluice", "Name: gone", 1)
	for name, manifest := range map[string]string{"of a foreign class": foreign, "of a class that does not exist": unknown, "that does not exist": ""} {
		t.Run(name, func(t *testing.T) {
			v := load(t, manifest).View()
			f := ConvertGateway(v, ours, gatewayKey("gw"))
			if f.Mine || f.Status.Conditions != nil || f.Listeners != nil || f.Findings != nil {
				t.Errorf("%+v", f)
			}
			if !slices.Contains(v.Noted(), gatewayKey("gw")) {
				t.Errorf("noted %v", v.Noted())
			}
		})
	}
}
