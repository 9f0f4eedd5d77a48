package resolve

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// policyFor is a BackendTLSPolicy of a day in 2026 for Service web, or for one of its ports.
func policyFor(name string, day int, section string, authorities ...string) *gatewayv1.BackendTLSPolicy {
	p := &gatewayv1.BackendTLSPolicy{ObjectMeta: meta(name)}
	p.CreationTimestamp = metav1.Date(2026, 1, day, 0, 0, 0, 0, time.UTC)
	target := gatewayv1.LocalPolicyTargetReferenceWithSectionName{LocalPolicyTargetReference: gatewayv1.LocalPolicyTargetReference{Kind: "Service", Name: "web"}}
	if section != "" {
		target.SectionName = new(gatewayv1.SectionName(section))
	}
	p.Spec.TargetRefs = append(p.Spec.TargetRefs, target)
	p.Spec.Validation.Hostname = gatewayv1.PreciseHostname(name + ".example.com")
	for _, authority := range authorities {
		p.Spec.Validation.CACertificateRefs = append(p.Spec.Validation.CACertificateRefs, gatewayv1.LocalObjectReference{Kind: "ConfigMap", Name: gatewayv1.ObjectName(authority)})
	}
	if len(authorities) == 0 {
		p.Spec.Validation.WellKnownCACertificates = new(gatewayv1.WellKnownCACertificatesSystem)
	}
	return p
}

func TestPolicyFor(t *testing.T) {
	whole1, whole2 := policyFor("whole1", 1, ""), policyFor("whole2", 2, "")
	port2, port3 := policyFor("port2", 2, "https"), policyFor("port3", 3, "https")
	cases := map[string]struct {
		policies []*gatewayv1.BackendTLSPolicy
		want     *gatewayv1.BackendTLSPolicy
	}{
		"none":                        {nil, nil},
		"the port before the Service": {[]*gatewayv1.BackendTLSPolicy{whole1, port3}, port3},
		"the older one":               {[]*gatewayv1.BackendTLSPolicy{whole2, whole1}, whole1},
		"the older one for the port":  {[]*gatewayv1.BackendTLSPolicy{port3, port2, whole1}, port2},
		"by name":                     {[]*gatewayv1.BackendTLSPolicy{policyFor("b", 1, ""), whole1}, nil},
		"of another port":             {[]*gatewayv1.BackendTLSPolicy{policyFor("x", 1, "other")}, nil},
	}
	b := cases["by name"]
	b.want = b.policies[0]
	cases["by name"] = b
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := PolicyFor(c.policies, "web", "https"); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
			backwards := slices.Clone(c.policies)
			slices.Reverse(backwards)
			if got := PolicyFor(backwards, "web", "https"); got != c.want {
				t.Errorf("in another order: %v, want %v", got, c.want)
			}
		})
	}
}

// TestReferencesOfTheGatewayAPI: what such a reference asks of servers.
func TestReferencesOfTheGatewayAPI(t *testing.T) {
	pair, client := newTestPair(t, nil), newTestPair(t, nil)
	authority := &corev1.ConfigMap{ObjectMeta: meta("ca"), Data: map[string]string{"ca.crt": pair.certificate}}
	empty := &corev1.ConfigMap{ObjectMeta: meta("empty")}
	file := Authorities(view(t, authority), []snapshot.Key{{Kind: snapshot.ConfigMap, Namespace: "default", Name: "ca"}})
	verified := model.ServerOptions{SSL: true, Verify: true, CAFile: file.Name, SNI: "str(p.example.com)"}
	with := func(o model.ServerOptions, change func(*model.ServerOptions)) model.ServerOptions {
		change(&o)
		return o
	}
	speaking := func(protocol string) *corev1.Service {
		s := service(port(443, "https"))
		s.Spec.Ports[0].AppProtocol = &protocol
		return s
	}
	plain := service(port(443, "https"))
	certificate := Certificate(view(t, secret{"shown", map[string]string{"tls.crt": client.certificate, "tls.key": client.key}}), secretKey("shown"), noon).Certificate
	cases := map[string]struct {
		gateway GatewayRef
		tcp     bool
		objects []any
		want    model.ServerOptions
		deny    int
		codes   string
	}{
		"plain":                           {objects: []any{plain}},
		"gRPC":                            {gateway: GatewayRef{H2: true}, objects: []any{plain}, want: model.ServerOptions{Proto: "h2"}},
		"HTTP/2 in plain text":            {objects: []any{speaking("kubernetes.io/h2c")}, want: model.ServerOptions{Proto: "h2"}},
		"websockets":                      {objects: []any{speaking("kubernetes.io/ws")}},
		"a name of others":                {objects: []any{speaking("HTTPS")}},
		"a protocol that is unknown":      {objects: []any{speaking("kubernetes.io/h5")}, deny: 500, codes: "BackendInvalid"},
		"websockets over TLS, unverified": {objects: []any{speaking("kubernetes.io/wss")}, deny: 500, codes: "BackendInvalid"},
		"websockets over TLS":             {objects: []any{speaking("kubernetes.io/wss"), authority, policyFor("p", 1, "", "ca")}, want: verified},
		"a missing Service":               {deny: 500, codes: "ServiceMissing"},
		"a missing port":                  {objects: []any{service(port(80, "https"))}, deny: 500, codes: "ServicePortMissing"},
		"a policy":                        {objects: []any{plain, authority, policyFor("p", 1, "", "ca")}, want: verified},
		"a policy with an authority that is missing beside": {objects: []any{plain, authority, policyFor("p", 1, "", "gone", "ca")}, want: verified},
		"a policy of the system":                            {objects: []any{plain, policyFor("p", 1, "")}, want: with(verified, func(o *model.ServerOptions) { o.CAFile = model.SystemCA })},
		"a policy for gRPC":                                 {gateway: GatewayRef{H2: true}, objects: []any{plain, authority, policyFor("p", 1, "", "ca")}, want: with(verified, func(o *model.ServerOptions) { o.ALPN = "h2" })},
		"a policy for connections":                          {tcp: true, objects: []any{plain, authority, policyFor("p", 1, "", "ca")}, want: verified},
		"TLS that is passed through":                        {gateway: GatewayRef{Passthrough: true}, tcp: true, objects: []any{plain, authority, policyFor("p", 1, "", "ca")}},
		"a policy without its authority":                    {objects: []any{plain, policyFor("p", 1, "", "gone")}, deny: 500, codes: "BackendInvalid"},
		"a policy with an empty authority":                  {objects: []any{plain, empty, policyFor("p", 1, "", "empty")}, deny: 500, codes: "BackendInvalid"},
		"the older policy, though it can't be honoured":     {objects: []any{plain, authority, policyFor("a", 1, "", "gone"), policyFor("p", 2, "", "ca")}, deny: 500, codes: "BackendInvalid"},
		"a policy for connections without its authority":    {tcp: true, objects: []any{plain, policyFor("p", 1, "", "gone")}, deny: 503, codes: "BackendInvalid"},
		"a client certificate, without TLS":                 {gateway: GatewayRef{ClientCertificate: secretKey("shown")}, objects: []any{plain}},
		"a client certificate": {
			gateway: GatewayRef{ClientCertificate: secretKey("shown")},
			objects: []any{plain, authority, policyFor("p", 1, "", "ca"), secret{"shown", map[string]string{"tls.crt": client.certificate, "tls.key": client.key}}},
			want:    with(verified, func(o *model.ServerOptions) { o.CertFile = certificate.Name }),
		},
		"a client certificate that is missing": {gateway: GatewayRef{ClientCertificate: secretKey("gone")}, objects: []any{plain, authority, policyFor("p", 1, "", "ca")}, want: verified},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			v := view(t, append(c.objects, slice("web-1", new("https"), new(int32(8443)), endpoint("10.0.0.1")))...)
			ref := BackendRef{Namespace: "default", Service: "web", Port: "443", TCP: c.tcp, Gateway: &c.gateway, Origin: model.Origin{Kind: "HTTPRoute", Name: "r", Field: "spec"}}
			f := Backend(v, globals(t, nil), ref)
			if d := cmp.Diff(c.want, f.Backend.Options); d != "" {
				t.Error(d)
			}
			shape := f.Backend.Profile.Shape
			if shape.Deny != c.deny || shape.TCP != c.tcp {
				t.Errorf("denies %d, want %d", shape.Deny, c.deny)
			}
			if (len(f.Backend.Servers) == 0) != (c.deny != 0) {
				t.Errorf("%d servers", len(f.Backend.Servers))
			}
			if got := codes(f.Findings); got != c.codes {
				t.Errorf("findings %v, want %s", f.Findings, c.codes)
			}
			for _, finding := range f.Findings {
				if finding.Code == report.BackendInvalid && finding.Object != ref.Origin {
					t.Errorf("blames %v", finding.Object)
				}
			}
			if want := c.want.CAFile != "" && c.want.CAFile != model.SystemCA; (len(f.CAFiles) == 1) != want {
				t.Errorf("%d files of authorities", len(f.CAFiles))
			}
			if (len(f.Certificates) == 1) != (c.want.CertFile != "") {
				t.Errorf("%d client certificates", len(f.Certificates))
			}
			if c.gateway.Passthrough == slices.Contains(v.Noted(), snapshot.Key{Kind: snapshot.BackendTLSPolicies, Namespace: "default", Name: "web"}) && len(c.objects) > 0 && c.deny == 0 {
				t.Errorf("noted %v", v.Noted())
			}
		})
	}
}

func TestBackendForDatagrams(t *testing.T) {
	s := service(port(53, "tcp"), corev1.ServicePort{Port: 53, Name: "udp", Protocol: corev1.ProtocolUDP})
	e := slice("web-1", new("udp"), new(int32(5353)), endpoint("10.0.0.1"))
	e.Ports[0].Protocol = new(corev1.ProtocolUDP)
	e.Ports = append(e.Ports, discoveryv1.EndpointPort{Name: new("tcp"), Port: new(int32(53)), Protocol: new(corev1.ProtocolTCP)})
	ref := BackendRef{Namespace: "default", Service: "web", Port: "53", TCP: true, Gateway: &GatewayRef{UDP: true}}
	f := Backend(view(t, s, e), globals(t, nil), ref)
	if got := states(f.Backend.Servers); got != "10.0.0.1:5353 ready" || len(f.Findings) > 0 {
		t.Errorf("%s %v", got, f.Findings)
	}
	ref.Gateway.UDP = false
	if got := states(Backend(view(t, s, e), globals(t, nil), ref).Backend.Servers); got != "10.0.0.1:53 ready" {
		t.Errorf("for connections: %s", got)
	}
}

func TestHeadersThen(t *testing.T) {
	v := func(name, text string) []HeaderValue { return []HeaderValue{{name, text}} }
	cases := map[string]struct{ first, next, want Headers }{
		"set after set":    {Headers{Set: v("a", "1")}, Headers{Set: v("a", "2")}, Headers{Set: v("a", "2")}},
		"set after add":    {Headers{Add: v("a", "1")}, Headers{Set: v("a", "2")}, Headers{Set: v("a", "2")}},
		"add after set":    {Headers{Set: v("a", "1")}, Headers{Add: v("a", "2")}, Headers{Set: v("a", "1"), Add: v("a", "2")}},
		"add after remove": {Headers{Remove: []string{"a"}}, Headers{Add: v("a", "2")}, Headers{Set: v("a", "2")}},
		"remove after all": {Headers{Set: v("a", "1"), Add: v("a", "2")}, Headers{Remove: []string{"a"}}, Headers{Remove: []string{"a"}}},
		"others stay":      {Headers{Set: v("a", "1")}, Headers{Set: v("b", "2")}, Headers{Set: []HeaderValue{{"a", "1"}, {"b", "2"}}}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := c.first.Then(c.next)
			if len(got.Add) == 0 {
				got.Add = nil
			}
			if len(got.Set) == 0 {
				got.Set = nil
			}
			if len(got.Remove) == 0 {
				got.Remove = nil
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestAServerIsVerifiedByAPolicy: HAProxy answers 503 where the certificate of a server is not the one
// that the policy asks for, with the name that it sends as the name that it verifies.
func TestAServerIsVerifiedByAPolicy(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	pair := testPairAt(t, nil, time.Now())
	certificate, err := tls.X509KeyPair([]byte(pair.certificate), []byte(pair.key))
	if err != nil {
		t.Fatal(err)
	}
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.StartTLS()
	t.Cleanup(server.Close)
	authority := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(authority, []byte(pair.certificate), 0o600); err != nil {
		t.Fatal(err)
	}
	versions(t, func(t *testing.T, binary string) {
		for options, want := range map[string]int{
			"ca-file " + authority + " sni str(b.example)":         200,
			"ca-file " + authority + " sni str(x.a.example)":       200,
			"ca-file " + authority + " sni str(other.example)":     503,
			"ca-file " + model.SystemCA + " sni str(b.example)":    503,
			"ca-file " + authority + " sni str(b.example) alpn h2": 503, // the server does not speak it
		} {
			client := running(t, binary, "frontend f\n    bind unix@%DIR%/s\n    default_backend b\nbackend b\n    server s "+
				server.Listener.Addr().String()+" ssl verify required "+options+"\n")
			answer, err := client.Get("http://x/")
			if err != nil {
				t.Fatal(err)
			}
			_ = answer.Body.Close()
			if answer.StatusCode != want {
				t.Errorf("%s: %d, want %d", options, answer.StatusCode, want)
			}
		}
	})
}
