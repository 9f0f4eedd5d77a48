package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/tests/harness"
)

// connectionRoute is a TLSRoute or TCPRoute to a listener; hosts and refs are in YAML.
func connectionRoute(kind, name, section, hosts, refs string) string {
	if hosts != "" {
		hosts = "hostnames: [" + hosts + "], "
	}
	return fmt.Sprintf(`---
apiVersion: gateway.networking.k8s.io/v1
kind: %s
metadata: {name: %s, namespace: test, creationTimestamp: "2026-01-01T00:00:00Z"}
spec: {parentRefs: [{name: gw, sectionName: %s}], %srules: [{%s}]}
`, kind, name, section, hosts, refs)
}

// saw tells whether a request gets to a pod, and the pod sees what it shall.
func saw(ask harness.Ask, pod string, fits func(harness.Seen) bool) func() error {
	return func() error {
		answer, err := ask.Do()
		if err != nil {
			return err
		}
		seen, err := answer.Read()
		if err == nil && (seen.Pod != pod || !fits(seen)) {
			err = fmt.Errorf("%+v, want pod %s", seen, pod)
		}
		return err
	}
}

// One port serves HTTPS, TLS that ends at the listener and TLS that is passed through; a route
// for a further name is live without a reload where HAProxy can do without.
func TestNamesOnOnePort(t *testing.T) {
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		address := harness.FreeAddress(t)
		port := portOf(address)
		secured := ", tls: {certificateRefs: [{name: cert}]}}"
		c := start(t, binary, map[string]string{
			"services.yaml": servicesOf(t, "web", "mail") + harness.Service("db") + harness.Slice("db", harness.NewTLSPod(t, "db")) +
				harness.NewAuthority(t, "ca").Issue(t, "*.example.com").TLSSecret("cert"),
			"gateway.yaml": gatewayOf("{name: web, port: " + port + ", protocol: HTTPS, hostname: '*.example.com'" + secured + ", " +
				"{name: mail, port: " + port + ", protocol: TLS, hostname: mail.example.com" + secured + ", " +
				"{name: db, port: " + port + ", protocol: TLS, hostname: '*.db.example.com', tls: {mode: Passthrough}}"),
			"routes.yaml": routeOf("web", "", "{"+to("web")+"}") + connectionRoute("TLSRoute", "mail", "mail", "", to("mail")) +
				connectionRoute("TLSRoute", "one", "db", "one.db.example.com", to("db")),
		}, "--gateway-addresses", "127.0.0.1")
		ask := func(name, host string) harness.Ask {
			return harness.Ask{Address: address, ServerName: name, Host: host, Path: "/"}
		}
		must(t, saw(ask("one.db.example.com", "any"), "db", func(s harness.Seen) bool { return s.TLS && s.ServerName == "one.db.example.com" }))
		must(t, saw(ask("mail.example.com", "any"), "mail", func(s harness.Seen) bool { return !s.TLS && s.Headers.Get("X-Forwarded-For") == "" }))
		must(t, saw(ask("www.example.com", "www.example.com"), "web", func(s harness.Seen) bool { return s.Headers.Get("X-Forwarded-For") == "127.0.0.1" }))
		must(t, func() error {
			answer, err := ask("www.example.com", "one.db.example.com").Do()
			if err == nil && answer.Status != 421 {
				err = fmt.Errorf("a host of another listener: %d, want 421", answer.Status)
			}
			return err
		})
		for _, nobody := range []string{"two.db.example.com", "www.example.org"} {
			must(t, closed(ask(nobody, nobody)))
		}
		must(t, closed(harness.Ask{Address: address, Host: "www.example.com", Path: "/"}))

		reloads := c.Metric("sluice_reloads_total", "")
		change(t, c, map[string]string{"two.yaml": connectionRoute("TLSRoute", "two", "db", "two.db.example.com", to("db"))})
		must(t, saw(ask("two.db.example.com", "any"), "db", func(s harness.Seen) bool { return s.TLS }))
		change(t, c, map[string]string{"two.yaml": connectionRoute("TLSRoute", "two", "db", "two.db.example.com", to("gone"))})
		must(t, closed(ask("two.db.example.com", "any")))
		if got := c.Metric("sluice_reloads_total", ""); strings.Contains(binary, "3.4") && got != reloads {
			t.Errorf("%v reloads for routes: %v", got-reloads, c.State().Reloads)
		}
	})
}

// The share of a Service that is missing has its connections closed, until it is there.
func TestSharesOfConnections(t *testing.T) {
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		address := harness.FreeAddress(t)
		c := start(t, binary, map[string]string{
			"services.yaml": servicesOf(t, "one", "two"),
			"gateway.yaml":  gatewayOf("{name: tcp, port: " + portOf(address) + ", protocol: TCP}"),
			"route.yaml":    connectionRoute("TCPRoute", "shares", "tcp", "", to("one*3", "missing*1", "two*0")),
		}, "--gateway-addresses", "127.0.0.1")
		share := func(want map[string]int) error {
			got := map[string]int{}
			for range 200 {
				who := "closed"
				if answer, err := (harness.Ask{Address: address, Path: "/"}).Do(); err == nil {
					seen, err := answer.Read()
					if err != nil {
						return err
					}
					who = seen.Pod
				}
				got[who]++
			}
			for who, n := range got {
				if want[who] == 0 || n < want[who]-30 || n > want[who]+30 {
					return fmt.Errorf("%v, want %v", got, want)
				}
			}
			return nil
		}
		must(t, func() error { return share(map[string]int{"one": 150, "closed": 50}) })
		reloads := c.Metric("sluice_reloads_total", "")
		change(t, c, map[string]string{"missing.yaml": servicesOf(t, "missing")})
		must(t, func() error { return share(map[string]int{"one": 150, "missing": 50}) })
		change(t, c, map[string]string{"route.yaml": connectionRoute("TCPRoute", "shares", "tcp", "", to("one*1", "two*9"))})
		must(t, func() error { return share(map[string]int{"one": 20, "two": 180}) })
		if got := c.Metric("sluice_reloads_total", ""); strings.Contains(binary, "3.4") && got != reloads {
			t.Errorf("%v reloads for servers and weights: %v", got-reloads, c.State().Reloads)
		}
	})
}
