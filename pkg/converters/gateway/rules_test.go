package gateway

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-proxy/sluice/pkg/converters/resolve"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
)

const (
	grpcService = "kind: Service\nmetadata: {namespace: apps, name: old}\nspec: {ports: [{port: 80}]}"
	elsewhere   = "kind: Service\nmetadata: {namespace: other, name: far}\nspec: {ports: [{port: 80}]}"
	farGrant    = "kind: ReferenceGrant\nmetadata: {namespace: other, name: g}\nspec: {from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: apps}], to: [{group: \"\", kind: Service, name: far}]}"
)

// route is the fragment of route apps/r with the given rules on a Gateway with one listener of
// its kind.
func route(t *testing.T, kind snapshot.Kind, rules string, others ...string) RouteFragment {
	t.Helper()
	listener := map[snapshot.Kind]string{
		snapshot.HTTPRoute: "protocol: HTTP", snapshot.GRPCRoute: "protocol: HTTP", snapshot.TLSRoute: "protocol: TLS, tls: {mode: Passthrough}",
		snapshot.TCPRoute: "protocol: TCP", snapshot.UDPRoute: "protocol: UDP",
	}[kind]
	s := load(t, slices.Concat(others, []string{
		webService, grpcService, elsewhere, gatewayOf("  listeners: [{name: a, port: 80, " + listener + ", allowedRoutes: {namespaces: {from: All}}}]"),
		"kind: " + string(kind) + "\nmetadata: {namespace: apps, name: r, generation: 3}\nspec:\n  parentRefs: [{name: gw, namespace: infra}]\n  rules:\n" + rules,
	})...)
	return ConvertRoute(s.View(), ours, snapshot.Key{Kind: kind, Namespace: "apps", Name: "r"})
}

// rulesText writes what a route brings to its first listener: for each rule its matches and its
// targets with weights.
func rulesText(f RouteFragment) string {
	if len(f.Attachments) == 0 {
		return "nothing"
	}
	var lines []string
	for _, r := range f.Attachments[0].Rules {
		var words []string
		for _, m := range r.Matches {
			word := m.Method + [...]string{"^", "=", "~"}[m.How] + m.Path
			for _, h := range m.Headers {
				word += " " + h.Name + map[bool]string{false: "=", true: "~"}[h.Pattern] + h.Value
			}
			for _, q := range m.Query {
				word += " ?" + q.Name + map[bool]string{false: "=", true: "~"}[q.Pattern] + q.Value
			}
			words = append(words, word)
		}
		var targets []string
		for _, target := range r.Targets {
			b := target.Backend
			word := fmt.Sprintf("%d*%s/%s:%s", target.Weight, b.Namespace, b.Service, b.Port)
			if b.Deny != 0 {
				word = fmt.Sprintf("%d*%d", target.Weight, b.Deny)
			}
			targets = append(targets, word)
		}
		lines = append(lines, strings.Join(words, ", ")+" -> "+strings.Join(targets, " "))
	}
	return strings.Join(lines, "\n")
}

const (
	fine     = "Accepted True Accepted\nResolvedRefs True ResolvedRefs"
	dropped  = fine + "\nPartiallyInvalid True UnsupportedValue"
	unusable = "Accepted False UnsupportedValue\nResolvedRefs True ResolvedRefs"
)

type ruleCase struct {
	rules  string
	others []string
	want   string
	status string // fine, where empty
}

func (c *ruleCase) run(t *testing.T, kind snapshot.Kind) {
	t.Helper()
	f := route(t, kind, c.rules, c.others...)
	if got := rulesText(f); got != c.want {
		t.Error(cmp.Diff(c.want, got))
	}
	want := c.status
	if want == "" {
		want = fine
	}
	if got := said(f.Parents[0].Conditions); got != want {
		t.Errorf("status: %s", cmp.Diff(want, got))
	}
	generationOf(t, 3, f.Parents[0].Conditions)
	if strings.Contains(want, "UnsupportedValue") && len(f.Findings) == 0 {
		t.Error("nothing is said of it")
	}
}

func TestMatches(t *testing.T) {
	const to = "backendRefs: [{name: web, port: 80}]"
	for name, c := range map[string]ruleCase{
		"no matches are all":     {rules: "  - {" + to + "}", want: "^/ -> 1*apps/web:80"},
		"paths":                  {rules: "  - {matches: [{path: {value: /a/}}, {path: {type: Exact, value: /b/}}, {path: {type: RegularExpression, value: \"/v[0-9]+\"}}, {path: {value: /}}], " + to + "}", want: "^/a, =/b/, ~/v[0-9]+, ^/ -> 1*apps/web:80"},
		"a path is normalised":   {rules: "  - {matches: [{path: {value: \"/%61dmin//x\"}}], " + to + "}", want: "^/admin/x -> 1*apps/web:80"},
		"headers":                {rules: "  - {matches: [{headers: [{name: X-B, value: \"one, two\"}, {name: x-a, value: a.*, type: RegularExpression}, {name: x-b, value: later}]}], " + to + "}", want: "^/ x-a~a.* x-b=one, two -> 1*apps/web:80"},
		"query parameters":       {rules: "  - {matches: [{queryParams: [{name: B, value: x}, {name: b, value: \"2\"}, {name: B, value: later}, {name: a, value: \"%61\"}]}], " + to + "}", want: "^/ ?B=x ?a=%61 ?b=2 -> 1*apps/web:80"},
		"a method":               {rules: "  - {matches: [{method: PATCH, path: {value: /x}}], " + to + "}", want: "PATCH^/x -> 1*apps/web:80"},
		"an invalid expression":  {rules: "  - {matches: [{path: {type: RegularExpression, value: \"*.example.com\"}}], " + to + "}", want: "nothing", status: unusable},
		"looking ahead":          {rules: "  - {matches: [{headers: [{name: a, type: RegularExpression, value: \"(?=x)\"}]}], " + to + "}", want: "nothing", status: unusable},
		"a long expression":      {rules: "  - {matches: [{headers: [{name: a, type: RegularExpression, value: " + strings.Repeat("a", 2000) + "}]}], " + to + "}", want: "nothing", status: unusable},
		"many repetitions":       {rules: "  - {matches: [{headers: [{name: a, type: RegularExpression, value: \"(a{900}){900}\"}]}], " + to + "}", want: "nothing", status: unusable},
		"the other rules go on":  {rules: "  - {matches: [{path: {type: RegularExpression, value: \"(\"}}], " + to + "}\n  - {" + to + "}", want: "^/ -> 1*apps/web:80", status: dropped},
		"a line break":           {rules: "  - {matches: [{headers: [{name: a, value: \"x\\ny\"}]}], " + to + "}\n  - {" + to + "}", want: "^/ -> 1*apps/web:80", status: dropped},
		"a header that is none":  {rules: "  - {matches: [{headers: [{name: \"a b\", value: x}]}], " + to + "}\n  - {" + to + "}", want: "^/ -> 1*apps/web:80", status: dropped},
		"a path that is none":    {rules: "  - {matches: [{path: {value: x}}], " + to + "}\n  - {" + to + "}", want: "^/ -> 1*apps/web:80", status: dropped},
		"a type that is unknown": {rules: "  - {matches: [{path: {type: Glob, value: /x}}], " + to + "}\n  - {" + to + "}", want: "^/ -> 1*apps/web:80", status: dropped},
		"an unknown method":      {rules: "  - {matches: [{method: \"GET /x\"}], " + to + "}\n  - {" + to + "}", want: "^/ -> 1*apps/web:80", status: dropped},
	} {
		t.Run(name, func(t *testing.T) { c.run(t, snapshot.HTTPRoute) })
	}
}

func TestGRPCMatches(t *testing.T) {
	const to = "backendRefs: [{name: web, port: 80}]"
	for name, c := range map[string]ruleCase{
		"no matches are all":  {rules: "  - {" + to + "}", want: "^/ -> 1*apps/web:80"},
		"service and method":  {rules: "  - {matches: [{method: {service: a.B, method: C}}], " + to + "}", want: "=/a.B/C -> 1*apps/web:80"},
		"a service":           {rules: "  - {matches: [{method: {service: a.B}}], " + to + "}", want: "^/a.B -> 1*apps/web:80"},
		"a method":            {rules: "  - {matches: [{method: {method: C}}], " + to + "}", want: "~/[^/]+/(?:C) -> 1*apps/web:80"},
		"expressions":         {rules: "  - {matches: [{method: {type: RegularExpression, service: \"a|b\", method: C.*}, headers: [{name: V, value: \"1\"}]}], " + to + "}", want: "~/(?:a|b)/(?:C.*) v=1 -> 1*apps/web:80"},
		"a name that is none": {rules: "  - {matches: [{method: {service: \"a/../b\"}}], " + to + "}", want: "nothing", status: unusable},
		"a bad expression":    {rules: "  - {matches: [{method: {type: RegularExpression, method: \")(\"}}], " + to + "}\n  - {" + to + "}", want: "^/ -> 1*apps/web:80", status: dropped},
	} {
		t.Run(name, func(t *testing.T) {
			c.run(t, snapshot.GRPCRoute)
			f := route(t, snapshot.GRPCRoute, c.rules)
			if len(f.Attachments) > 0 && !f.Attachments[0].Rules[0].Targets[0].Backend.Gateway.H2 {
				t.Error("servers of gRPC speak HTTP/2")
			}
		})
	}
}

func TestBackends(t *testing.T) {
	broken := func(reason string) string { return "Accepted True Accepted\nResolvedRefs False " + reason }
	for name, c := range map[string]ruleCase{
		"weights":                  {rules: "  - backendRefs: [{name: web, port: 80, weight: 0}, {name: old, port: 80, weight: 1000000}, {name: old, port: 80}]", want: "^/ -> 0*apps/web:80 1000000*apps/old:80 1*apps/old:80"},
		"no backends":              {rules: "  - {}", want: "^/ -> 1*500"},
		"all weights are 0":        {rules: "  - backendRefs: [{name: web, port: 80, weight: 0}, {name: old, port: 80, weight: 0}]", want: "^/ -> 1*500"},
		"a weight that is none":    {rules: "  - backendRefs: [{name: web, port: 80, weight: -1}, {name: old, port: 80}]", want: "^/ -> 0*apps/web:80 1*apps/old:80"},
		"a missing Service":        {rules: "  - backendRefs: [{name: gone, port: 80, weight: 3}, {name: old, port: 80}]", want: "^/ -> 3*apps/gone:80 1*apps/old:80", status: broken("BackendNotFound")},
		"a missing port":           {rules: "  - backendRefs: [{name: web, port: 81}]", want: "^/ -> 1*apps/web:81", status: broken("BackendNotFound")},
		"a port that is none":      {rules: "  - backendRefs: [{name: web, port: 70000}]", want: "^/ -> 1*500", status: broken("BackendNotFound")},
		"no port":                  {rules: "  - backendRefs: [{name: web}]", want: "^/ -> 1*500", status: broken("BackendNotFound")},
		"a port for datagrams":     {rules: "  - backendRefs: [{name: web, port: 53}]", want: "^/ -> 1*apps/web:53", status: broken("BackendNotFound")},
		"another kind":             {rules: "  - backendRefs: [{kind: NonExistent, name: web, port: 80, weight: 2}, {name: old, port: 80}]", want: "^/ -> 2*500 1*apps/old:80", status: broken("InvalidKind")},
		"another group":            {rules: "  - backendRefs: [{group: example.com, kind: Service, name: web, port: 80}]", want: "^/ -> 1*500", status: broken("InvalidKind")},
		"no grant":                 {rules: "  - backendRefs: [{name: far, namespace: other, port: 80}]", want: "^/ -> 1*500", status: broken("RefNotPermitted")},
		"no grant, nothing exists": {rules: "  - backendRefs: [{name: gone, namespace: other, port: 80}]", want: "^/ -> 1*500", status: broken("RefNotPermitted")},
		"a grant":                  {rules: "  - backendRefs: [{name: far, namespace: other, port: 80}]", others: []string{farGrant}, want: "^/ -> 1*other/far:80"},
		"a grant for another":      {rules: "  - backendRefs: [{name: gone, namespace: other, port: 80}]", others: []string{farGrant}, want: "^/ -> 1*500", status: broken("RefNotPermitted")},
		"a protocol that is unknown": {
			rules: "  - backendRefs: [{name: new, port: 80}]", others: []string{"kind: Service\nmetadata: {namespace: apps, name: new}\nspec: {ports: [{port: 80, appProtocol: kubernetes.io/h5}]}"},
			want: "^/ -> 1*apps/new:80", status: broken("UnsupportedProtocol"),
		},
		"HTTP/2 in plain text": {
			rules: "  - backendRefs: [{name: new, port: 80}]", others: []string{"kind: Service\nmetadata: {namespace: apps, name: new}\nspec: {ports: [{port: 80, appProtocol: kubernetes.io/h2c}]}"},
			want: "^/ -> 1*apps/new:80",
		},
		"a name that is none": {rules: "  - backendRefs: [{name: \"a b\", port: 80}]", want: "^/ -> 1*500", status: broken("BackendNotFound")},
	} {
		t.Run(name, func(t *testing.T) { c.run(t, snapshot.HTTPRoute) })
	}
}

func TestConnections(t *testing.T) {
	for _, kind := range []snapshot.Kind{snapshot.TLSRoute, snapshot.TCPRoute, snapshot.UDPRoute} {
		t.Run(string(kind), func(t *testing.T) {
			port := map[bool]string{false: "80", true: "53"}[kind == snapshot.UDPRoute]
			f := route(t, kind, "  - {name: main, backendRefs: [{name: web, port: "+port+", weight: 2}, {name: gone, port: 1}, {kind: X, name: x, port: 1}]}")
			if got, want := rulesText(f), " -> 2*apps/web:"+port+" 1*apps/gone:1 1*500"; got != want {
				t.Errorf("%q, want %q", got, want)
			}
			rule := f.Attachments[0].Rules[0]
			b := rule.Targets[0].Backend
			if rule.Name != "main" || !b.TCP || !rule.Targets[2].Backend.TCP || b.Gateway.UDP != (kind == snapshot.UDPRoute) || b.Gateway.Passthrough != (kind == snapshot.TLSRoute) {
				t.Errorf("%+v %+v", rule, b.Gateway)
			}
			if got := said(f.Parents[0].Conditions); got != "Accepted True Accepted\nResolvedRefs False BackendNotFound" {
				t.Error(got)
			}
		})
	}
}

// A route notes the Services that it looks for, found or missing; one that it may not name it
// does not look for.
func TestARouteNotesItsServices(t *testing.T) {
	s := load(t, webService, gatewayOf("  listeners: [{name: a, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}]"),
		"kind: HTTPRoute\nmetadata: {namespace: apps, name: r}\nspec:\n  parentRefs: [{name: gw, namespace: infra}]\n  rules: [{backendRefs: [{name: gone, port: 80}, {name: far, namespace: other, port: 80}]}]")
	v := s.View()
	ConvertRoute(v, ours, snapshot.Key{Kind: snapshot.HTTPRoute, Namespace: "apps", Name: "r"})
	noted := v.Noted()
	for key, want := range map[snapshot.Key]bool{
		{Kind: snapshot.Service, Namespace: "apps", Name: "gone"}: true,
		{Kind: snapshot.Service, Namespace: "other", Name: "far"}: false,
		{Kind: snapshot.ReferenceGrants, Namespace: "other"}:      true,
		{Kind: snapshot.GatewayClass, Name: "sluice"}:             true,
		gatewayKey("gw"): true,
	} {
		if slices.Contains(noted, key) != want {
			t.Errorf("%s is noted: %v", key, !want)
		}
	}
}

func TestFilters(t *testing.T) {
	cases := map[string]struct {
		rule string
		want *resolve.Filters // of the first target
	}{
		"none": {"backendRefs: [{name: web, port: 80}]", nil},
		"headers of rule and backend": {
			"filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: X-A, value: \"1\"}, {name: x-a, value: later}], add: [{name: X-B, value: \"2\"}], remove: [X-C]}}," +
				" {type: ResponseHeaderModifier, responseHeaderModifier: {remove: [server]}}]," +
				" backendRefs: [{name: web, port: 80, filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: x-b, value: \"3\"}], add: [{name: x-c, value: \"4\"}, {name: x-d, value: \"5\"}], remove: [x-a]}}]}]",
			&resolve.Filters{
				Request: resolve.Headers{
					Set: []resolve.HeaderValue{{Name: "x-b", Value: "3"}, {Name: "x-c", Value: "4"}}, Add: []resolve.HeaderValue{{Name: "x-d", Value: "5"}}, Remove: []string{"x-a"},
				},
				Response: resolve.Headers{Remove: []string{"server"}},
			},
		},
		"a rewrite of the prefix": {
			"matches: [{path: {value: /old/}}], filters: [{type: URLRewrite, urlRewrite: {hostname: New.example.com, path: {type: ReplacePrefixMatch, replacePrefixMatch: /new}}}], backendRefs: [{name: web, port: 80}]",
			&resolve.Filters{RewriteHost: "new.example.com", RewritePath: &resolve.PathModifier{Prefix: "/old", Path: "/new"}},
		},
		"a rewrite of the path": {
			"filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplaceFullPath, replaceFullPath: /one}}}], backendRefs: [{name: web, port: 80}]",
			&resolve.Filters{RewritePath: &resolve.PathModifier{Full: true, Path: "/one"}},
		},
		"a redirect": {
			"filters: [{type: RequestRedirect, requestRedirect: {scheme: https, hostname: a.com, statusCode: 301, path: {type: ReplacePrefixMatch, replacePrefixMatch: \"\"}}}]",
			&resolve.Filters{Redirect: &resolve.Redirect{Status: 301, Scheme: "https", Host: "a.com", Path: &resolve.PathModifier{Prefix: "/", Path: "/"}}},
		},
		"cross-origin sharing": {
			"filters: [{type: CORS, cors: {allowOrigins: [\"https://*.A.com:443\", \"http://b.com:8080\"], allowCredentials: true, allowMethods: [GET, PUT], allowHeaders: [X-A], exposeHeaders: [\"*\"]}}], backendRefs: [{name: web, port: 80}]",
			&resolve.Filters{CORS: &resolve.CORSFilter{
				Origins: []string{"https://*.a.com", "http://b.com:8080"}, Methods: []string{"GET", "PUT"}, Headers: []string{"X-A"}, Expose: []string{"*"}, Credentials: true, MaxAge: 5,
			}},
		},
		"timeouts and retries": {
			"timeouts: {request: 1m30s, backendRequest: 500ms}, retry: {codes: [503, 500, 503], attempts: 2}, backendRefs: [{name: web, port: 80}]",
			&resolve.Filters{Timeout: 90e9, TryTimeout: 5e8, Retry: &resolve.Retry{Codes: []int{500, 503}, Attempts: 2}},
		},
		"no timeout": {"timeouts: {request: 0s}, backendRefs: [{name: web, port: 80}]", &resolve.Filters{Timeout: -1}},
		"mirrors": {
			"filters: [{type: RequestMirror, requestMirror: {backendRef: {name: old, port: 80}, percent: 20}}, {type: RequestMirror, requestMirror: {backendRef: {name: gone, port: 80}, fraction: {numerator: 1, denominator: 3}}}," +
				" {type: RequestMirror, requestMirror: {backendRef: {name: old, port: 80}, percent: 0}}], backendRefs: [{name: web, port: 80}]",
			&resolve.Filters{Mirrors: []resolve.Mirror{
				{Backend: resolve.BackendRef{Namespace: "apps", Service: "old", Port: "80", Gateway: &resolve.GatewayRef{}}, Numerator: 20, Denominator: 100},
				{Backend: resolve.BackendRef{Namespace: "apps", Service: "gone", Port: "80", Gateway: &resolve.GatewayRef{}}, Numerator: 1, Denominator: 3},
			}},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := route(t, snapshot.HTTPRoute, "  - {"+c.rule+"}")
			got := f.Attachments[0].Rules[0].Targets[0].Backend.Gateway.Filters
			if got != nil {
				for i := range got.Mirrors {
					got.Mirrors[i].Backend.Origin = c.want.Mirrors[i].Backend.Origin
				}
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestFiltersThatCantBeHonoured(t *testing.T) {
	const to, other = "backendRefs: [{name: web, port: 80}]", "\n  - {matches: [{path: {value: /other}}], backendRefs: [{name: old, port: 80}]}"
	const rest, denied = "^/other -> 1*apps/old:80", "^/ -> 1*500\n^/other -> 1*apps/old:80"
	for name, c := range map[string]ruleCase{
		"a line break in a header":   {rules: "  - {filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: a, value: \"x\\r\\ny: z\"}]}}], " + to + "}" + other, want: rest, status: dropped},
		"a header of the message":    {rules: "  - {filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: Content-Length, value: \"0\"}]}}], " + to + "}" + other, want: rest, status: dropped},
		"a second host":              {rules: "  - {filters: [{type: RequestHeaderModifier, requestHeaderModifier: {add: [{name: Host, value: x}]}}], " + to + "}" + other, want: rest, status: dropped},
		"a filter twice":             {rules: "  - {filters: [{type: URLRewrite, urlRewrite: {hostname: a.com}}, {type: URLRewrite, urlRewrite: {hostname: b.com}}], " + to + "}" + other, want: rest, status: dropped},
		"redirect and rewrite":       {rules: "  - {filters: [{type: URLRewrite, urlRewrite: {hostname: a.com}}, {type: RequestRedirect, requestRedirect: {hostname: b.com}}]}", want: "nothing", status: "Accepted False IncompatibleFilters\nResolvedRefs True ResolvedRefs"},
		"a status that is none":      {rules: "  - {filters: [{type: RequestRedirect, requestRedirect: {statusCode: 418}}]}" + other, want: rest, status: dropped},
		"a scheme that is unknown":   {rules: "  - {filters: [{type: RequestRedirect, requestRedirect: {scheme: javascript}}]}" + other, want: rest, status: dropped},
		"a prefix of another match":  {rules: "  - {matches: [{path: {type: Exact, value: /x}}], filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /y}}}], " + to + "}" + other, want: rest, status: dropped},
		"a filter that says nothing": {rules: "  - {filters: [{type: URLRewrite}], " + to + "}" + other, want: rest, status: dropped},
		"an origin that is none":     {rules: "  - {filters: [{type: CORS, cors: {allowOrigins: [\"https://a.com/x\"]}}], " + to + "}" + other, want: rest, status: dropped},
		"a retry code":               {rules: "  - {retry: {codes: [418]}, " + to + "}" + other, want: rest, status: dropped},
		"backoff":                    {rules: "  - {retry: {codes: [500], backoff: 100ms}, " + to + "}" + other, want: rest, status: dropped},
		"a timeout":                  {rules: "  - {timeouts: {request: soon}, " + to + "}" + other, want: rest, status: dropped},
		"a try longer than all":      {rules: "  - {timeouts: {request: 1s, backendRequest: 2s}, " + to + "}" + other, want: rest, status: dropped},
		"a share of mirrors":         {rules: "  - {filters: [{type: RequestMirror, requestMirror: {backendRef: {name: old, port: 80}, fraction: {numerator: 2, denominator: 1}}}], " + to + "}" + other, want: rest, status: dropped},
		"session persistence":        {rules: "  - {sessionPersistence: {sessionName: a}, " + to + "}" + other, want: rest, status: dropped},
		"authentication elsewhere":   {rules: "  - {filters: [{type: ExternalAuth, externalAuth: {protocol: HTTP, backendRef: {name: old, port: 80}}}], " + to + "}" + other, want: denied, status: dropped},
		"authentication alone":       {rules: "  - {filters: [{type: ExternalAuth, externalAuth: {protocol: HTTP, backendRef: {name: old, port: 80}}}], " + to + "}", want: "^/ -> 1*500", status: dropped},
		"of one backend":             {rules: "  - {backendRefs: [{name: web, port: 80, filters: [{type: ExtensionRef, extensionRef: {group: x, kind: \"Y\", name: z}}]}]}" + other, want: denied, status: dropped},
		"a filter of the future":     {rules: "  - {filters: [{type: Teleport}], " + to + "}" + other, want: denied, status: dropped},
		"a broken mirror": {
			rules: "  - {filters: [{type: RequestMirror, requestMirror: {backendRef: {name: far, namespace: other, port: 80}}}], " + to + "}",
			want:  "^/ -> 1*apps/web:80", status: "Accepted True Accepted\nResolvedRefs False RefNotPermitted",
		},
	} {
		t.Run(name, func(t *testing.T) { c.run(t, snapshot.HTTPRoute) })
	}
}
