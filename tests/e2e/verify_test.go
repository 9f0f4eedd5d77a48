package e2e

import (
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/tests/harness"
)

// gatewayTLS adds spec.tls to a Gateway of gatewayOf.
func gatewayTLS(gateway, spec string) string {
	return strings.Replace(gateway, "gatewayClassName: sluice,", "gatewayClassName: sluice, tls: {"+spec+"},", 1)
}

// A BackendTLSPolicy counts, whatever becomes of the authority that it names, and with no event
// on the policy: nothing is sent to a server that is not verified. A Gateway's certificate is
// shown.
func TestServersOfAPolicy(t *testing.T) {
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		address := harness.FreeAddress(t)
		trusted, other := harness.NewAuthority(t, "trusted"), harness.NewAuthority(t, "other")
		pod := harness.NewPodWith(t, "web", harness.PodOptions{TLS: true, AskClient: true, Certificate: trusted.Issue(t, "web.example.com")})
		c := start(t, binary, map[string]string{
			"services.yaml": harness.Service("web") + harness.Slice("web", pod) + harness.NewAuthority(t, "ca").Issue(t, "gateway").TLSSecret("shown"),
			"gateway.yaml":  gatewayTLS(gatewayOf("{name: http, port: "+portOf(address)+", protocol: HTTP}"), "backend: {clientCertificateRef: {name: shown}}"),
			"route.yaml":    routeOf("web", "", "{"+to("web")+"}"),
			"policy.yaml": `---
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {name: web, namespace: test}
spec:
  targetRefs: [{group: "", kind: Service, name: web}]
  validation: {hostname: web.example.com, caCertificateRefs: [{group: "", kind: ConfigMap, name: ca}]}
`,
		}, "--gateway-addresses", "127.0.0.1")
		ask := harness.Ask{Address: address, Host: "any.example.com", Path: "/"}
		verified := saw(ask, "web", func(s harness.Seen) bool { return s.TLS && s.ServerName == "web.example.com" && s.Client == "gateway" })

		must(t, status(ask, 500, nil))
		change(t, c, map[string]string{"ca.yaml": trusted.Authority("ca")})
		must(t, verified)
		hits := pod.Hits()
		change(t, c, map[string]string{"ca.yaml": other.Authority("ca")})
		must(t, status(ask, 503, nil))
		change(t, c, map[string]string{"ca.yaml": strings.Replace(other.Authority("ca"), "CERTIFICATE", "NOTHING", -1)})
		must(t, status(ask, 500, nil))
		if got := pod.Hits(); got != hits {
			t.Errorf("%d requests got to a server that was not verified", got-hits)
		}
		change(t, c, map[string]string{"ca.yaml": trusted.Authority("ca")})
		must(t, verified)
		before := c.State().Wanted
		c.Remove("ca.yaml")
		applied(t, c, before)
		must(t, status(ask, 500, nil))
	})
}

// A Gateway on the port of Ingresses asks the clients of its names for certificates, and no other
// name, nor none, leads around that. With AllowInsecureFallback every client gets in.
func TestClientsOfAGateway(t *testing.T) {
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		clients := harness.NewAuthority(t, "clients")
		known, unknown := clients.Issue(t, "known"), harness.NewAuthority(t, "others").Issue(t, "unknown")
		c := harness.NewController(t, binary, map[string]string{
			"services.yaml": servicesOf(t, "web") + harness.NewAuthority(t, "ca").Issue(t, "*.example.com").TLSSecret("cert") + clients.Authority("clients"),
			"route.yaml":    routeOf("web", "", "{"+to("web")+"}"),
			"ingress.yaml":  harness.Class + strings.Replace(harness.Ingress("open", "open.example.com", "web"), "spec:", "spec:\n  tls: [{hosts: [open.example.com], secretName: cert}]", 1),
		})
		free := harness.FreeAddress(t)
		listener := func(name, port string) string {
			return "{name: " + name + ", port: " + port + ", protocol: HTTPS, hostname: in.example.com, tls: {certificateRefs: [{name: cert}]}}"
		}
		validation := func(mode string) string {
			return "validation: {" + mode + "caCertificateRefs: [{group: '', kind: ConfigMap, name: clients}]}"
		}
		gateway := gatewayOf(listener("strict", portOf(c.HTTPS)) + ", " + listener("loose", portOf(free)))
		perPort := ", perPort: [{port: " + portOf(free) + ", tls: {" + validation("mode: AllowInsecureFallback, ") + "}}]"
		c.Write("gateway.yaml", gatewayTLS(gateway, "frontend: {default: {"+validation("")+"}"+perPort+"}"))
		c.Start()

		const in, open = "in.example.com", "open.example.com"
		ask := func(address, name, host string, shown *harness.Pair) harness.Ask {
			return harness.Ask{Address: address, ServerName: name, Shown: shown, Host: host, Path: "/"}
		}
		must(t, status(ask(c.HTTPS, in, in, known), 200, nil))
		must(t, closed(ask(c.HTTPS, in, in, unknown)))
		must(t, closed(ask(c.HTTPS, in, in, nil)))
		must(t, status(ask(c.HTTPS, open, open, nil), 200, nil))
		must(t, status(ask(c.HTTPS, open, in, known), 421, nil))
		must(t, closed(ask(c.HTTPS, "127.0.0.1", in, known)))
		for _, shown := range []*harness.Pair{known, unknown, nil} {
			must(t, status(ask(free, in, in, shown), 200, nil))
		}

		// What was opened without a certificate is closed when one is asked for.
		change(t, c, map[string]string{"gateway.yaml": gateway})
		must(t, status(ask(c.HTTPS, open, in, nil), 200, nil))
		change(t, c, map[string]string{"gateway.yaml": gatewayTLS(gateway, "frontend: {default: {"+validation("")+"}}")})
		must(t, status(ask(c.HTTPS, open, in, nil), 421, nil))
		must(t, closed(ask(c.HTTPS, in, in, nil)))
		must(t, status(ask(free, in, in, known), 200, nil))
		must(t, closed(ask(free, in, in, nil)))

		// Another Gateway on the port that lets everybody in does so for its own names only.
		const loose = "loose.example.com"
		second := strings.Replace(gatewayTLS(gatewayOf(strings.Replace(listener("second", portOf(c.HTTPS)), in, loose, 1)),
			"frontend: {default: {"+validation("mode: AllowInsecureFallback, ")+"}}"), "name: gw,", "name: second,", 1)
		change(t, c, map[string]string{"second.yaml": second[strings.LastIndex(second, "---"):] + strings.Replace(routeOf("second", "", "{"+to("web")+"}"), "name: gw", "name: second", 1)})
		for _, shown := range []*harness.Pair{known, unknown, nil} {
			must(t, status(ask(c.HTTPS, loose, loose, shown), 200, nil))
			must(t, status(ask(c.HTTPS, loose, in, shown), 421, nil))
		}
		must(t, status(ask(c.HTTPS, in, in, known), 200, nil))
		must(t, status(ask(c.HTTPS, in, in, unknown), 421, nil))
		must(t, closed(ask(c.HTTPS, in, in, nil)))
	})
}
