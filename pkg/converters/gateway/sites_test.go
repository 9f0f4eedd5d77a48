package gateway

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
)

// The port of a Location is the listener's, or the scheme's, and left out where the scheme has
// it anyway.
func TestRedirectPort(t *testing.T) {
	for _, c := range []struct {
		scheme   string
		port     int
		listener int
		tls      bool
		want     int
	}{
		{listener: 80}, {listener: 443, tls: true}, {listener: 8080, want: 8080}, {listener: 8443, tls: true, want: 8443},
		{listener: 443, want: 443}, {listener: 80, tls: true, want: 80},
		{scheme: "https", listener: 80}, {scheme: "https", listener: 8080}, {scheme: "http", listener: 8443, tls: true},
		{scheme: "https", port: 443, listener: 80}, {scheme: "https", port: 8443, listener: 80, want: 8443}, {scheme: "http", port: 443, listener: 80, want: 443},
		{port: 80, listener: 8080}, {port: 8080, listener: 80, want: 8080}, {port: 443, listener: 8443, tls: true}, {port: 80, listener: 443, tls: true, want: 80},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			if got := redirectPort(c.scheme, c.port, site{port: c.listener, tls: c.tls}); got != c.want {
				t.Errorf("port %d, want %d", got, c.want)
			}
		})
	}
}

const httpRoute = "kind: HTTPRoute\nmetadata: {namespace: apps, name: r, annotations: {sluice-proxy.github.io/timeout-server: 9s}}\nspec:\n  parentRefs: [{name: gw, namespace: infra}]\n  rules:\n"

func TestRulesOfTwoListeners(t *testing.T) {
	const listeners = "  listeners: [{name: a, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}, {name: b, port: 8080, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}]"
	key := snapshot.Key{Kind: snapshot.HTTPRoute, Namespace: "apps", Name: "r"}
	t.Run("are the same", func(t *testing.T) {
		f := ConvertRoute(load(t, webService, gatewayOf(listeners), httpRoute+"  - backendRefs: [{name: web, port: 80}]").View(), ours, key)
		if len(f.Attachments) != 2 || &f.Attachments[0].Rules[0] != &f.Attachments[1].Rules[0] {
			t.Errorf("%+v", f.Attachments)
		}
	})
	t.Run("but for the port of a redirect", func(t *testing.T) {
		f := ConvertRoute(load(t, gatewayOf(listeners), httpRoute+"  - filters: [{type: RequestRedirect, requestRedirect: {hostname: a.com}}]").View(), ours, key)
		for i, want := range []int{0, 8080} {
			if got := f.Attachments[i].Rules[0].Targets[0].Backend.Gateway.Filters.Redirect.Port; got != want {
				t.Errorf("listener %d: port %d, want %d", i, got, want)
			}
		}
	})
}

func TestSettingsAndCertificateOfTheGateway(t *testing.T) {
	gw := strings.Replace(gatewayOf("  tls: {backend: {clientCertificateRef: {name: cert}}}\n  infrastructure: {parametersRef: {group: \"\", kind: ConfigMap, name: options}}\n"+
		"  listeners: [{name: a, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}]"),
		"name: gw,", "name: gw, annotations: {sluice-proxy.github.io/timeout-server: 5s, example.com/x: y},", 1)
	s := load(t, webService, gw, "kind: ConfigMap\nmetadata: {namespace: infra, name: options}\ndata: {timeout-connect: 2s}",
		httpRoute+"  - backendRefs: [{name: web, port: 80}]\n    filters: [{type: RequestMirror, requestMirror: {backendRef: {name: web, port: 80}}}]")
	f := ConvertRoute(s.View(), ours, snapshot.Key{Kind: snapshot.HTTPRoute, Namespace: "apps", Name: "r"})
	ref := f.Attachments[0].Rules[0].Targets[0].Backend
	var got []string
	for _, layer := range ref.Layers {
		got = append(got, fmt.Sprint(layer.Origin.Kind, layer.Raw))
	}
	want := []string{"ConfigMap map[timeout-connect:2s]", "Gateway map[timeout-server:5s]", "HTTPRoute map[timeout-server:9s]"}
	for i := range want {
		want[i] = strings.Replace(want[i], " ", "", 1)
	}
	for i := range got {
		got[i] = strings.Replace(got[i], " ", "", 1)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	secret := snapshot.Key{Kind: snapshot.Secret, Namespace: "infra", Name: "cert"}
	if ref.Gateway.ClientCertificate != secret || ref.Gateway.Filters.Mirrors[0].Backend.Gateway.ClientCertificate != secret {
		t.Errorf("%+v", ref.Gateway)
	}
	if ref.Gateway.Filters.Mirrors[0].Backend.Layers != nil {
		t.Error("a copy of a request must not meet what protects the route")
	}
}

func TestEachPrefixIsReplacedByItself(t *testing.T) {
	f := route(t, snapshot.HTTPRoute, "  - matches: [{path: {value: /a}}, {path: {value: /b}, method: GET}, {path: {value: /a}, method: PUT}]\n"+
		"    filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /x}}}]\n    backendRefs: [{name: web, port: 80}]")
	if got, want := rulesText(f), "^/a, PUT^/a -> 1*apps/web:80\nGET^/b -> 1*apps/web:80"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for i, want := range []string{"/a", "/b"} {
		if got := f.Attachments[0].Rules[i].Targets[0].Backend.Gateway.Filters.RewritePath; got.Prefix != want || got.Path != "/x" {
			t.Errorf("%+v, want %s", got, want)
		}
	}
}

func TestRefused(t *testing.T) {
	day := func(n int) time.Time { return time.Date(2026, 1, n, 0, 0, 0, 0, time.UTC) }
	key := func(kind snapshot.Kind, name string) snapshot.Key {
		return snapshot.Key{Kind: kind, Namespace: "apps", Name: name}
	}
	h, g := key(snapshot.HTTPRoute, "h"), key(snapshot.GRPCRoute, "g")
	cases := map[string]struct {
		contenders []Contender
		want       []snapshot.Key
	}{
		"nobody":                 {nil, nil},
		"one kind":               {[]Contender{{h, day(1)}, {key(snapshot.HTTPRoute, "i"), day(2)}}, nil},
		"the older one has it":   {[]Contender{{g, day(2)}, {h, day(1)}}, []snapshot.Key{g}},
		"of equal age, the name": {[]Contender{{h, day(1)}, {g, day(1)}}, []snapshot.Key{h}},
		"with all of its kind":   {[]Contender{{g, day(1)}, {h, day(2)}, {key(snapshot.GRPCRoute, "z"), day(3)}, {key(snapshot.HTTPRoute, "a"), day(4)}}, []snapshot.Key{key(snapshot.HTTPRoute, "a"), h}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Refused(c.contenders); !slices.Equal(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

func TestWithout(t *testing.T) {
	id := func(name string) ListenerID { return ListenerID{Gateway: gatewayKey("gw"), Name: name} }
	const listener = "protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}"
	s := load(t, webService, gatewayOf("  listeners: [{name: a, port: 80, "+listener+", {name: b, port: 81, "+listener+"]"),
		"kind: HTTPRoute\nmetadata: {namespace: apps, name: r, generation: 3}\nspec:\n  parentRefs: [{name: gw, namespace: infra, sectionName: a}, {name: gw, namespace: infra}]\n  hostnames: [x.com, z.com]\n"+
			"  rules: [{backendRefs: [{name: web, port: 80}]}]")
	f := ConvertRoute(s.View(), ours, snapshot.Key{Kind: snapshot.HTTPRoute, Namespace: "apps", Name: "r"})
	cases := map[string]struct {
		refused map[ListenerID][]string
		at      string
		want    [2]string
	}{
		"nothing":      {nil, "a x.com,z.com b x.com,z.com", [2]string{fine, fine}},
		"one host":     {map[ListenerID][]string{id("a"): {"x.com"}}, "a z.com b x.com,z.com", [2]string{fine, fine}},
		"one listener": {map[ListenerID][]string{id("a"): {"x.com", "z.com"}}, "b x.com,z.com", [2]string{"Accepted False HostnameConflict\nResolvedRefs True ResolvedRefs", fine}},
		"all":          {map[ListenerID][]string{id("a"): {"x.com", "z.com"}, id("b"): {"x.com", "z.com"}}, "", [2]string{"Accepted False HostnameConflict\nResolvedRefs True ResolvedRefs", "Accepted False HostnameConflict\nResolvedRefs True ResolvedRefs"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := f.Without(c.refused)
			var at []string
			for _, a := range got.Attachments {
				at = append(at, a.Listener.Name, strings.Join(a.Hosts, ","))
			}
			if text := strings.Join(at, " "); text != c.at {
				t.Errorf("attached at %q, want %q", text, c.at)
			}
			for i, p := range got.Parents {
				generationOf(t, 3, p.Conditions)
				if said(p.Conditions) != c.want[i] {
					t.Errorf("parent %d: %q, want %q", i, said(p.Conditions), c.want[i])
				}
			}
			if len(f.Attachments) != 2 || len(f.Attachments[0].Hosts) != 2 || said(f.Parents[0].Conditions) != fine {
				t.Error("the fragment itself was changed")
			}
		})
	}
}

func TestDenied(t *testing.T) {
	f := route(t, snapshot.TCPRoute, "  - backendRefs: [{name: web, port: 80}, {name: old, port: 80}]")
	denied := f.Denied(503)
	if got := rulesText(denied); got != " -> 1*503" || !denied.Attachments[0].Rules[0].Targets[0].Backend.TCP {
		t.Error(got)
	}
	if got := rulesText(f); got != " -> 1*apps/web:80 1*apps/old:80" {
		t.Errorf("the fragment itself was changed: %s", got)
	}
}

func TestClass(t *testing.T) {
	parameters := func(ref string) string {
		return "kind: GatewayClass\nmetadata: {name: p, generation: 4}\nspec: {controllerName: sluice-proxy.github.io/controller, parametersRef: {" + ref + "}}"
	}
	const options = "kind: ConfigMap\nmetadata: {namespace: sys, name: options}"
	for name, c := range map[string]struct{ manifest, want string }{
		"parameters":                   {parameters("group: \"\", kind: ConfigMap, name: options, namespace: sys"), "Accepted True Accepted"},
		"parameters that do not exist": {parameters("group: \"\", kind: ConfigMap, name: gone, namespace: sys"), "Accepted False InvalidParameters"},
		"parameters of another kind":   {parameters("group: x, kind: ConfigMap, name: options, namespace: sys"), "Accepted False InvalidParameters"},
		"parameters of no namespace":   {parameters("group: \"\", kind: ConfigMap, name: options"), "Accepted False InvalidParameters"},
		"no parameters":                {"kind: GatewayClass\nmetadata: {name: p, generation: 4}\nspec: {controllerName: sluice-proxy.github.io/controller}", "Accepted True Accepted"},
		"another controller's":         {"kind: GatewayClass\nmetadata: {name: p, generation: 4}\nspec: {controllerName: example.com/x}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := ConvertClass(load(t, options, c.manifest).View(), ours, snapshot.Key{Kind: snapshot.GatewayClass, Name: "p"})
			if got := said(f.Status.Conditions); got != c.want || f.Mine != (c.want != "") {
				t.Errorf("%q, want %q", got, c.want)
			}
			generationOf(t, 4, f.Status.Conditions)
			if f.Mine && !slices.IsSortedFunc(f.Status.SupportedFeatures, func(a, b gatewayv1.SupportedFeature) int { return strings.Compare(string(a.Name), string(b.Name)) }) {
				t.Errorf("%v is not sorted", f.Status.SupportedFeatures)
			}
		})
	}
}
