package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/tests/harness"
)

// gatewayOf is a class with a Gateway of it; the listeners are in YAML.
func gatewayOf(listeners string) string {
	return `---
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: sluice}
spec: {controllerName: sluice-proxy.github.io/controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gw, namespace: test}
spec: {gatewayClassName: sluice, listeners: [` + listeners + `]}
`
}

// routeOf is an HTTPRoute; hosts and rules are in YAML.
func routeOf(name, hosts, rules string) string {
	return fmt.Sprintf(`---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: %s, namespace: test, creationTimestamp: "2026-01-01T00:00:00Z"}
spec: {parentRefs: [{name: gw}], hostnames: [%s], rules: [%s]}
`, name, hosts, rules)
}

// to is backendRefs of Services.
func to(services ...string) string {
	refs := make([]string, len(services))
	for i, s := range services {
		name, weight, _ := strings.Cut(s, "*")
		refs[i] = "{name: " + name + ", port: 80, weight: " + weight + "}"
		if weight == "" {
			refs[i] = "{name: " + name + ", port: 80}"
		}
	}
	return "backendRefs: [" + strings.Join(refs, ", ") + "]"
}

// servicesOf are a Service with a pod of its name for each name.
func servicesOf(t *testing.T, names ...string) string {
	text := ""
	for _, name := range names {
		text += harness.Service(name) + harness.Slice(name, harness.NewPod(t, name))
	}
	return text
}

// asked is a request through a Gateway, and who shall answer.
type asked struct {
	method, host, path string
	headers            []string
	want               string // name of the pod, or a status
}

func (a asked) check(address string) error {
	method := a.method
	if method == "" {
		method = "GET"
	}
	answer, err := harness.Request(address, method, a.host, a.path, a.headers...)
	if err != nil {
		return err
	}
	got := fmt.Sprint(answer.Status)
	if answer.Status == 200 && method != "HEAD" {
		seen, err := answer.Read()
		if err != nil {
			return err
		}
		got = seen.Pod
	}
	if got != a.want {
		return fmt.Errorf("%s %s%s %v: %s, want %s", method, a.host, a.path, a.headers, got, a.want)
	}
	return nil
}

func TestHTTPRoutes(t *testing.T) {
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		address := harness.FreeAddress(t)
		listener := func(name, host string) string {
			return fmt.Sprintf("{name: %s, port: %s, protocol: HTTP, hostname: %q}", name, portOf(address), host)
		}
		rule := func(match, service string) string { return "{matches: [" + match + "], " + to(service) + "}" }
		c := start(t, binary, map[string]string{
			"services.yaml": servicesOf(t, "one", "two", "three", "four"),
			"gateway.yaml":  gatewayOf(listener("wide", "*.example.com") + "," + listener("narrow", "*.in.example.com") + "," + listener("exact", "exact.example.com")),
			"paths.yaml": routeOf("paths", "paths.example.com", strings.Join([]string{
				rule("{path: {type: Exact, value: /exact}}", "one"),
				rule("{path: {type: PathPrefix, value: /pre}}", "two"),
				rule("{path: {type: PathPrefix, value: /pre/longer/}}", "three"),
				rule(`{path: {type: RegularExpression, value: "/v[0-9]+(/x)?"}}`, "four"),
			}, ",")),
			"conditions.yaml": routeOf("conditions", "if.example.com", strings.Join([]string{
				rule("{path: {type: PathPrefix, value: /}}", "one"),
				rule("{headers: [{name: X-Kind, value: 'a, b'}]}", "two"),
				rule("{headers: [{name: X-Kind, value: 'a, b'}, {name: other, value: '1'}]}", "three"),
				rule("{queryParams: [{name: q, value: 'x y'}]}", "four"),
				rule("{method: POST}", "three"),
				rule("{path: {type: PathPrefix, value: /deep}, headers: [{name: x-re, type: RegularExpression, value: 'v[0-9]'}]}", "four"),
			}, ",")),
			"hosts.yaml": routeOf("hosts", `"*.example.com"`, rule("{path: {type: PathPrefix, value: /}}", "one")) +
				routeOf("inner", `"*.in.example.com"`, rule("{path: {type: PathPrefix, value: /in}}", "two")) +
				routeOf("deep", `"*.a.b.c.d.e.f.g.h.example.com"`, rule("{path: {type: PathPrefix, value: /}}", "four")) +
				routeOf("fall", "a.fall.example.com", rule("{path: {type: PathPrefix, value: /x}}", "three")),
		}, "--gateway-addresses", "127.0.0.1")
		for _, a := range []asked{
			{host: "paths.example.com", path: "/exact", want: "one"},
			{host: "paths.example.com:8080", path: "/%65xact?q=1", want: "one"},
			{host: "paths.example.com", path: "/exact/", want: "404"},
			{host: "PATHS.example.com", path: "/pre", want: "two"},
			{host: "paths.example.com", path: "/pre/x", want: "two"},
			{host: "paths.example.com", path: "/prefix", want: "404"},
			{host: "paths.example.com", path: "/pre/longer", want: "three"},
			{host: "paths.example.com", path: "/pre//longer/x", want: "three"},
			{host: "paths.example.com", path: "/v12", want: "four"},
			{host: "paths.example.com", path: "/v1/x", want: "four"},
			{host: "paths.example.com", path: "/xv1y", want: "404"},
			{host: "if.example.com", path: "/", want: "one"},
			{host: "if.example.com", path: "/", headers: []string{"X-KIND", "a, b"}, want: "two"},
			{host: "if.example.com", path: "/", headers: []string{"X-Kind", "a"}, want: "one"},
			{host: "if.example.com", path: "/sub", headers: []string{"x-kind", "a, b", "Other", "1"}, want: "three"},
			{host: "if.example.com", path: "/?q=x%20y&q=z", want: "four"},
			{host: "if.example.com", path: "/?q=z&q=x+y", want: "one"},
			{host: "if.example.com", path: "/?Q=x%20y", want: "one"},
			{method: "POST", host: "if.example.com", path: "/", headers: []string{"x-kind", "a, b"}, want: "three"},
			{host: "if.example.com", path: "/deep/er", headers: []string{"x-re", "v7"}, want: "four"},
			{host: "if.example.com", path: "/deep/er", headers: []string{"x-re", "v77"}, want: "one"},
			{host: "if.example.com", path: "/deep", headers: []string{"x-kind", "a, b"}, want: "two"},
			{host: "other.example.com", path: "/", want: "one"},
			{host: "several.labels.example.com", path: "/", want: "one"},
			{host: "x.y.a.b.c.d.e.f.g.h.example.com", path: "/", want: "four"},
			{host: "a.b.c.d.e.f.g.h.example.com", path: "/", want: "one"},
			{host: "example.com", path: "/", want: "404"},
			{host: "x.in.example.com", path: "/in", want: "two"},
			{host: "x.in.example.com", path: "/", want: "one"}, // of that listener: the route fits it, too
			{host: "a.fall.example.com", path: "/x", want: "three"},
			{host: "a.fall.example.com", path: "/", want: "404"}, // no fall through to the wider host
			{host: "b.fall.example.com", path: "/", want: "one"},
			{host: "exact.example.com", path: "/", want: "one"},
			{host: "other.org", path: "/", want: "404"},
		} {
			must(t, func() error { return a.check(address) })
		}

		// The first Service that is missing is no reload.
		reloads := c.Metric("sluice_reloads_total", "")
		change(t, c, map[string]string{"late.yaml": routeOf("late", "late.example.com", rule("{path: {type: PathPrefix, value: /}}", "none"))})
		must(t, func() error { return asked{host: "late.example.com", path: "/", want: "500"}.check(address) })
		if got := c.Metric("sluice_reloads_total", ""); strings.Contains(binary, "3.4") && got != reloads {
			t.Errorf("%v reloads for a Service that is missing: %v", got-reloads, c.State().Reloads)
		}
	})
}

// A Service that is missing has its share of the requests answered 500, until it is there, with
// no event on the route and no reload where HAProxy can do without.
func TestWeightsAndMissingServices(t *testing.T) {
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		address := harness.FreeAddress(t)
		route := func(refs ...string) string {
			return routeOf("weights", "w.example.com", "{"+to(refs...)+"}")
		}
		c := start(t, binary, map[string]string{
			"services.yaml": servicesOf(t, "one", "two"),
			"gateway.yaml":  gatewayOf("{name: http, port: " + portOf(address) + ", protocol: HTTP}"),
			"route.yaml":    route("one*3", "missing*1", "two*0"),
		}, "--gateway-addresses", "127.0.0.1")
		share := func(want map[string]int) error {
			got := map[string]int{}
			for range 200 {
				answer, err := harness.Request(address, "GET", "w.example.com", "/")
				if err != nil {
					return err
				}
				who := fmt.Sprint(answer.Status)
				if answer.Status == 200 {
					seen, err := answer.Read()
					if err != nil {
						return err
					}
					who = seen.Pod
				}
				got[who]++
			}
			if len(got) != len(want) {
				return fmt.Errorf("%v, want %v", got, want)
			}
			for who, n := range got {
				if want[who] == 0 || n < want[who]-30 || n > want[who]+30 {
					return fmt.Errorf("%v, want %v", got, want)
				}
			}
			return nil
		}
		must(t, func() error { return share(map[string]int{"one": 150, "500": 50}) })

		routes := c.Metric("sluice_conversions_total", `unit="route"`)
		change(t, c, map[string]string{"missing.yaml": servicesOf(t, "missing")})
		must(t, func() error { return share(map[string]int{"one": 150, "missing": 50}) })
		c.Remove("missing.yaml")
		c.Eventually("its share is answered 500 again", func() error { return share(map[string]int{"one": 150, "500": 50}) })
		if got := c.Metric("sluice_conversions_total", `unit="route"`); got > routes+4 {
			t.Errorf("%v conversions of routes", got-routes)
		}

		reloads := c.Metric("sluice_reloads_total", "")
		change(t, c, map[string]string{"route.yaml": route("one*1", "two*1")})
		must(t, func() error { return share(map[string]int{"one": 100, "two": 100}) })
		change(t, c, map[string]string{"route.yaml": route("one*1", "two*9")})
		must(t, func() error { return share(map[string]int{"one": 20, "two": 180}) })
		if got := c.Metric("sluice_reloads_total", ""); strings.Contains(binary, "3.4") && got != reloads {
			t.Errorf("%v reloads for weights: %v", got-reloads, c.State().Reloads)
		}
	})
}
