package gateway

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
)

// routeIn is a route apps/r of the given kind, to one port of Service apps/web.
func routeIn(kind snapshot.Kind, spec string) string {
	return "kind: " + string(kind) + "\nmetadata: {namespace: apps, name: r, generation: 3}\nspec:\n" + spec +
		"\n  rules: [{backendRefs: [{name: web, port: 80}]}]"
}

const webService = "kind: Service\nmetadata: {namespace: apps, name: web}\nspec: {ports: [{port: 80}, {port: 53, protocol: UDP}]}"

func TestAttachment(t *testing.T) {
	const all = "allowedRoutes: {namespaces: {from: All}}"
	cases := map[string]struct {
		kind   snapshot.Kind // HTTPRoute
		gw     string        // spec
		others []string
		route  string
		want   string // conditions
		at     string // listeners with hosts
	}{
		"all listeners that take it": {
			gw:    "  listeners: [{name: a, port: 80, protocol: HTTP, " + all + "}, {name: b, port: 81, protocol: HTTP, " + all + "}, {name: c, port: 82, protocol: TCP, " + all + "}]",
			route: "  parentRefs: [{name: gw, namespace: infra}]", want: "Accepted True Accepted", at: "a * b *",
		},
		"by name":        {gw: "  listeners: [{name: a, port: 80, protocol: HTTP, " + all + "}, {name: b, port: 81, protocol: HTTP, " + all + "}]", route: "  parentRefs: [{name: gw, namespace: infra, sectionName: b}]", want: "Accepted True Accepted", at: "b *"},
		"by port":        {gw: "  listeners: [{name: a, port: 80, protocol: HTTP, " + all + "}, {name: b, port: 81, protocol: HTTP, " + all + "}]", route: "  parentRefs: [{name: gw, namespace: infra, port: 81}]", want: "Accepted True Accepted", at: "b *"},
		"no such name":   {gw: "  listeners: [{name: a, port: 80, protocol: HTTP, " + all + "}]", route: "  parentRefs: [{name: gw, namespace: infra, sectionName: b}]", want: "Accepted False NoMatchingParent"},
		"no such port":   {gw: "  listeners: [{name: a, port: 80, protocol: HTTP, " + all + "}]", route: "  parentRefs: [{name: gw, namespace: infra, port: 81}]", want: "Accepted False NoMatchingParent"},
		"name, not port": {gw: "  listeners: [{name: a, port: 80, protocol: HTTP, " + all + "}]", route: "  parentRefs: [{name: gw, namespace: infra, sectionName: a, port: 81}]", want: "Accepted False NoMatchingParent"},
		"port, not name": {gw: "  listeners: [{name: a, port: 80, protocol: HTTP}]", route: "  parentRefs: [{name: gw, namespace: infra, sectionName: b, port: 80}]", want: "Accepted False NoMatchingParent"},
		"another kind":   {gw: "  listeners: [{name: a, port: 443, protocol: TLS, tls: {mode: Passthrough}, " + all + "}]", route: "  parentRefs: [{name: gw, namespace: infra}]", want: "Accepted False NotAllowedByListeners"},
		"kinds":          {gw: "  listeners: [{name: a, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: All}, kinds: [{kind: GRPCRoute}]}}]", route: "  parentRefs: [{name: gw, namespace: infra}]", want: "Accepted False NotAllowedByListeners"},
		"same namespace": {gw: "  listeners: [{name: a, port: 80, protocol: HTTP}]", route: "  parentRefs: [{name: gw, namespace: infra}]", want: "Accepted False NotAllowedByListeners"},
		"selected": {
			gw:     "  listeners: [{name: a, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: Selector, selector: {matchLabels: {team: x}}}}}]",
			others: []string{"kind: Namespace\nmetadata: {name: apps, labels: {team: x}}"},
			route:  "  parentRefs: [{name: gw, namespace: infra}]", want: "Accepted True Accepted", at: "a *",
		},
		"not selected": {
			gw:     "  listeners: [{name: a, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: Selector, selector: {matchLabels: {team: x}}}}}]",
			others: []string{"kind: Namespace\nmetadata: {name: apps, labels: {team: y}}"},
			route:  "  parentRefs: [{name: gw, namespace: infra}]", want: "Accepted False NotAllowedByListeners",
		},
		"selected by the namespace's name, which no manifest holds": {
			gw:    "  listeners: [{name: a, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: Selector, selector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: [apps]}]}}}}]",
			route: "  parentRefs: [{name: gw, namespace: infra}]", want: "Accepted True Accepted", at: "a *",
		},
		"hosts": {
			gw:    "  listeners: [{name: a, port: 80, protocol: HTTP, hostname: very.specific.com, " + all + "}, {name: b, port: 80, protocol: HTTP, hostname: \"*.wildcard.io\", " + all + "}, {name: c, port: 80, protocol: HTTP, " + all + "}]",
			route: "  parentRefs: [{name: gw, namespace: infra}]\n  hostnames: [\"*.specific.com\", wildcard.io, foo.bar.wildcard.io, \"*.bar.wildcard.io\"]",
			want:  "Accepted True Accepted",
			at:    "a very.specific.com b *.bar.wildcard.io,foo.bar.wildcard.io c *.bar.wildcard.io,*.specific.com,foo.bar.wildcard.io,wildcard.io",
		},
		"no host in common": {
			gw:    "  listeners: [{name: a, port: 80, protocol: HTTP, hostname: \"*.wildcard.io\", " + all + "}]",
			route: "  parentRefs: [{name: gw, namespace: infra}]\n  hostnames: [wildcard.io, xwildcard.io]", want: "Accepted False NoMatchingListenerHostname",
		},
		"hosts that are none do not open all": {
			gw:    "  listeners: [{name: a, port: 80, protocol: HTTP, " + all + "}]",
			route: "  parentRefs: [{name: gw, namespace: infra}]\n  hostnames: [10.0.0.1, \"a\\nb\"]", want: "Accepted False NoMatchingListenerHostname",
		},
		"a listener without its certificate": {
			gw:    "  listeners: [{name: a, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: gone}]}, " + all + "}]",
			route: "  parentRefs: [{name: gw, namespace: infra}]", want: "Accepted True Accepted", at: "a *",
		},
		"two ways to one listener": {
			gw:    "  listeners: [{name: a, port: 80, protocol: HTTP, " + all + "}]",
			route: "  parentRefs: [{name: gw, namespace: infra, port: 80}, {name: gw, namespace: infra, sectionName: a}]", want: "Accepted True Accepted\nAccepted True Accepted", at: "a *",
		},
		"a foreign parent":        {gw: "  listeners: [{name: a, port: 80, protocol: HTTP, " + all + "}]", route: "  parentRefs: [{name: gw, namespace: infra}, {name: elsewhere}, {group: \"\", kind: Service, name: web}]", want: "Accepted True Accepted", at: "a *"},
		"a parent that is none":   {gw: "  listeners: [{name: a, port: 80, protocol: HTTP, " + all + "}]", route: "  parentRefs: [{name: gw}]"},
		"a listener for anything": {kind: snapshot.TLSRoute, gw: "  listeners: [{name: a, port: 443, protocol: TLS, tls: {mode: Passthrough}, " + all + "}]", route: "  parentRefs: [{name: gw, namespace: infra}]\n  hostnames: [a.com]", want: "Accepted True Accepted", at: "a a.com"},
		"a TLSRoute to HTTPS":     {kind: snapshot.TLSRoute, gw: "  listeners: [{name: a, port: 443, protocol: HTTPS, " + all + "}]", route: "  parentRefs: [{name: gw, namespace: infra}]\n  hostnames: [a.com]", want: "Accepted False NotAllowedByListeners"},
		"a TCPRoute to HTTP":      {kind: snapshot.TCPRoute, gw: "  listeners: [{name: a, port: 80, protocol: HTTP, " + all + "}]", route: "  parentRefs: [{name: gw, namespace: infra}]", want: "Accepted False NotAllowedByListeners"},
		"a TCPRoute to TCP":       {kind: snapshot.TCPRoute, gw: "  listeners: [{name: a, port: 80, protocol: TCP, " + all + "}]", route: "  parentRefs: [{name: gw, namespace: infra}]", want: "Accepted True Accepted", at: "a *"},
		"a TCPRoute to TLS": {
			kind: snapshot.TCPRoute, gw: "  listeners: [{name: a, port: 443, protocol: TLS, hostname: a.com, tls: {mode: Terminate}, " + all + "}]",
			route: "  parentRefs: [{name: gw, namespace: infra}]", want: "Accepted True Accepted", at: "a a.com",
		},
		"a UDPRoute to TLS": {kind: snapshot.UDPRoute, gw: "  listeners: [{name: a, port: 443, protocol: TLS, tls: {mode: Passthrough}, " + all + "}]", route: "  parentRefs: [{name: gw, namespace: infra}]", want: "Accepted False NotAllowedByListeners"},
		"a GRPCRoute":       {kind: snapshot.GRPCRoute, gw: "  listeners: [{name: a, port: 80, protocol: HTTP, " + all + "}]", route: "  parentRefs: [{name: gw, namespace: infra}]\n  hostnames: [a.com]", want: "Accepted True Accepted", at: "a a.com"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			kind := c.kind
			if kind == "" {
				kind = snapshot.HTTPRoute
			}
			s := load(t, slices.Concat(c.others, []string{webService, gatewayOf(c.gw), routeIn(kind, c.route)})...)
			f := ConvertRoute(s.View(), ours, snapshot.Key{Kind: kind, Namespace: "apps", Name: "r"})
			var conditions []string
			for _, p := range f.Parents {
				generationOf(t, 3, p.Conditions)
				resolved := p.Conditions[1]
				if resolved.Type != "ResolvedRefs" || (kind == snapshot.UDPRoute) != (resolved.Status == "False") {
					t.Errorf("references: %s", said(p.Conditions)) // the reason is another one than for Accepted; port 80 is TCP's
				}
				conditions = append(conditions, said(p.Conditions[:1]))
				if p.ControllerName != "sluice-proxy.github.io/controller" || *p.ParentRef.Group != "gateway.networking.k8s.io" || *p.ParentRef.Kind != "Gateway" {
					t.Errorf("entry %+v", p)
				}
			}
			if got := strings.Join(conditions, "\n"); got != c.want {
				t.Errorf("conditions %q, want %q", got, c.want)
			}
			var at []string
			for _, a := range f.Attachments {
				at = append(at, a.Listener.Name, strings.Join(a.Hosts, ","))
			}
			if got := strings.Join(at, " "); got != c.at {
				t.Errorf("attached at %q, want %q", got, c.at)
			}
			if f.Mine != (c.want != "") {
				t.Errorf("it is mine: %v", f.Mine)
			}
		})
	}
}

// setOf is a ListenerSet of Gateway infra/gw.
func setOf(name, created, listeners string) string {
	namespace, name, _ := strings.Cut(name, "/")
	return "kind: ListenerSet\nmetadata: {namespace: " + namespace + ", name: " + name + ", generation: 5, creationTimestamp: \"" + created + "\"}\n" +
		"spec: {parentRef: {kind: Gateway, group: gateway.networking.k8s.io, name: gw, namespace: infra}, listeners: [" + listeners + "]}"
}

func TestListenerSets(t *testing.T) {
	const own = "  listeners: [{name: own, port: 80, protocol: HTTP, hostname: own.com}]\n"
	const early, late = "2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"
	const good = "Accepted True Accepted\nProgrammed True Programmed"
	type want struct{ set, listeners string }
	cases := map[string]struct {
		gw    string
		sets  []string
		want  map[string]want
		count int32
	}{
		"none is allowed by default": {
			gw: own, sets: []string{setOf("infra/a", early, "{name: x, port: 80, protocol: HTTP, hostname: x.com}")},
			want: map[string]want{"infra/a": {"Accepted False NotAllowed\nProgrammed False NotAllowed", ""}},
		},
		"none is allowed": {
			gw: own + "  allowedListeners: {namespaces: {from: None}}", sets: []string{setOf("infra/a", early, "{name: x, port: 80, protocol: HTTP}")},
			want: map[string]want{"infra/a": {"Accepted False NotAllowed\nProgrammed False NotAllowed", ""}},
		},
		"those of its namespace": {
			gw:   own + "  allowedListeners: {namespaces: {from: Same}}",
			sets: []string{setOf("infra/a", early, "{name: x, port: 80, protocol: HTTP, hostname: x.com}"), setOf("other/b", early, "{name: k, port: 80, protocol: HTTP, hostname: y.com}")},
			want: map[string]want{"infra/a": {good, "x good"}, "other/b": {"Accepted False NotAllowed\nProgrammed False NotAllowed", ""}}, count: 1,
		},
		"those of selected namespaces": {
			gw:   own + "  allowedListeners: {namespaces: {from: Selector, selector: {matchLabels: {kubernetes.io/metadata.name: other}}}}",
			sets: []string{setOf("infra/a", early, "{name: x, port: 80, protocol: HTTP, hostname: x.com}"), setOf("other/b", early, "{name: k, port: 80, protocol: HTTP, hostname: y.com}")},
			want: map[string]want{"infra/a": {"Accepted False NotAllowed\nProgrammed False NotAllowed", ""}, "other/b": {good, "k good"}}, count: 1,
		},
		"the Gateway first, then the older set": {
			gw: own + "  allowedListeners: {namespaces: {from: All}}",
			sets: []string{
				setOf("infra/a", late, "{name: own, port: 80, protocol: HTTP, hostname: own.com}, {name: x, port: 80, protocol: HTTP, hostname: x.com}, {name: z, port: 80, protocol: HTTP, hostname: z.com}"),
				setOf("other/b", early, "{name: x, port: 80, protocol: HTTP, hostname: x.com}"),
			},
			want: map[string]want{
				"infra/a": {"Accepted True ListenersNotValid\nProgrammed True Programmed", "own HostnameConflict x HostnameConflict z good"},
				"other/b": {good, "x good"},
			}, count: 2,
		},
		"equal age: by name": {
			gw: own + "  allowedListeners: {namespaces: {from: All}}",
			sets: []string{
				setOf("infra/b", early, "{name: x, port: 80, protocol: HTTP, hostname: x.com}"), setOf("infra/a", early, "{name: x, port: 80, protocol: HTTP, hostname: x.com}"),
			},
			want: map[string]want{"infra/a": {good, "x good"}, "infra/b": {"Accepted False ListenersNotValid\nProgrammed False ListenersNotValid", "x HostnameConflict"}}, count: 1,
		},
		"protocols": {
			gw: own + "  allowedListeners: {namespaces: {from: All}}", sets: []string{setOf("infra/a", early, "{name: x, port: 80, protocol: TCP}")},
			want: map[string]want{"infra/a": {"Accepted False ListenersNotValid\nProgrammed False ListenersNotValid", "x ProtocolConflict"}},
		},
		"a set of a Gateway that is refused": {
			gw: own + "  addresses: [{type: x/y, value: z}]\n  allowedListeners: {namespaces: {from: All}}", sets: []string{setOf("infra/a", early, "{name: x, port: 81, protocol: TCP}")},
			want: map[string]want{"infra/a": {"Accepted False ParentNotAccepted\nProgrammed False ParentNotAccepted", ""}},
		},
		"a grant is the set's": {
			gw: own + "  allowedListeners: {namespaces: {from: All}}",
			sets: []string{
				setOf("other/a", early, "{name: x, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: cert, namespace: infra}]}}"),
				secretOfPair(t, "infra", "cert"),
				"kind: ReferenceGrant\nmetadata: {namespace: infra, name: g}\nspec: {from: [{group: gateway.networking.k8s.io, kind: Gateway, namespace: other}], to: [{group: \"\", kind: Secret}]}",
			},
			want: map[string]want{"other/a": {"Accepted False ListenersNotValid\nProgrammed False ListenersNotValid", "x RefNotPermitted"}},
		},
		"a set with its grant": {
			gw: own + "  allowedListeners: {namespaces: {from: All}}",
			sets: []string{
				setOf("other/a", early, "{name: x, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: cert, namespace: infra}]}}"),
				secretOfPair(t, "infra", "cert"),
				"kind: ReferenceGrant\nmetadata: {namespace: infra, name: g}\nspec: {from: [{group: gateway.networking.k8s.io, kind: ListenerSet, namespace: other}], to: [{group: \"\", kind: Secret}]}",
			},
			want: map[string]want{"other/a": {good, "x good"}}, count: 1,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := ConvertGateway(load(t, append(c.sets, gatewayOf(c.gw))...).View(), ours, gatewayKey("gw"))
			status, sets := f.Placed(Place{Addresses: []string{"10.0.0.1"}})
			if *status.AttachedListenerSets != c.count {
				t.Errorf("%d sets are attached, want %d", *status.AttachedListenerSets, c.count)
			}
			if len(sets) != len(c.want) {
				t.Errorf("%d sets, want %d", len(sets), len(c.want))
			}
			for _, set := range sets {
				want := c.want[set.Key.Namespace+"/"+set.Key.Name]
				generationOf(t, 5, set.Status.Conditions)
				if got := said(set.Status.Conditions); got != want.set {
					t.Errorf("%s: %q, want %q", set.Key, got, want.set)
				}
				var listeners []string
				for _, l := range set.Status.Listeners {
					generationOf(t, 5, l.Conditions)
					listeners = append(listeners, string(l.Name), worst(l.Conditions))
				}
				if got := strings.Join(listeners, " "); got != want.listeners {
					t.Errorf("%s: %q, want %q", set.Key, got, want.listeners)
				}
			}
			if len(status.Listeners) != 1 {
				t.Errorf("the Gateway's status has %d listeners, only its own belong there", len(status.Listeners))
			}
		})
	}
}

// worst is the reason that says most; good where all is well.
func worst(conditions []metav1.Condition) string {
	for _, kind := range []string{"Conflicted", "ResolvedRefs", "Accepted", "Programmed"} {
		for _, c := range conditions {
			if c.Type == kind && (c.Status == "True") == (kind == "Conflicted") {
				return c.Reason
			}
		}
	}
	return "good"
}

func TestARouteOfAListenerSet(t *testing.T) {
	set := setOf("infra/set", "2026-02-01T00:00:00Z", "{name: in-set, port: 80, protocol: HTTP, hostname: set.com, allowedRoutes: {namespaces: {from: All}}}")
	const open = "  listeners: [{name: own, port: 80, protocol: HTTP, hostname: own.com, allowedRoutes: {namespaces: {from: All}}}]\n  allowedListeners: {namespaces: {from: Same}}"
	cases := map[string]struct{ gw, route, want, at string }{
		"the Gateway's are its own":         {open, "  parentRefs: [{name: gw, namespace: infra}]", "Accepted True Accepted", "own"},
		"a set's name is not the Gateway's": {open, "  parentRefs: [{name: gw, namespace: infra, sectionName: in-set}]", "Accepted False NoMatchingParent", ""},
		"the set's":                         {open, "  parentRefs: [{kind: ListenerSet, name: set, namespace: infra}]", "Accepted True Accepted", "in-set"},
		"both": {
			open, "  parentRefs: [{kind: ListenerSet, name: set, namespace: infra, sectionName: in-set}, {name: gw, namespace: infra, sectionName: in-set}]",
			"Accepted True Accepted\nAccepted False NoMatchingParent", "in-set",
		},
		"of a set that is not allowed": {strings.Replace(open, "Same", "None", 1), "  parentRefs: [{kind: ListenerSet, name: set, namespace: infra}]", "Accepted False NoMatchingParent", ""},
		"a set that does not exist":    {open, "  parentRefs: [{kind: ListenerSet, name: gone, namespace: infra}]", "", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := ConvertRoute(load(t, webService, set, gatewayOf(c.gw), routeIn(snapshot.HTTPRoute, c.route)).View(), ours,
				snapshot.Key{Kind: snapshot.HTTPRoute, Namespace: "apps", Name: "r"})
			var conditions, at []string
			for _, p := range f.Parents {
				conditions = append(conditions, said(p.Conditions[:1]))
			}
			for _, a := range f.Attachments {
				at = append(at, a.Listener.Name)
				if (a.Listener.Set.Name == "set") != (a.Listener.Name == "in-set") || a.Listener.Gateway != gatewayKey("gw") {
					t.Errorf("listener %+v", a.Listener)
				}
			}
			if got := strings.Join(conditions, "\n"); got != c.want {
				t.Errorf("conditions %q, want %q", got, c.want)
			}
			if got := strings.Join(at, " "); got != c.at {
				t.Errorf("attached at %q, want %q", got, c.at)
			}
		})
	}
}

func TestPlaced(t *testing.T) {
	f := ConvertGateway(load(t, gatewayOf("  listeners: [{name: a, port: 80, protocol: HTTP}, {name: b, port: 9090, protocol: HTTP}]")).View(), ours, gatewayKey("gw"))
	id := func(name string) ListenerID { return ListenerID{Gateway: gatewayKey("gw"), Name: name} }
	cases := map[string]struct {
		place     Place
		want      string // Accepted and Programmed
		listeners string
	}{
		"all is well":          {Place{Addresses: []string{"10.0.0.1", "lb.example.com"}}, "Accepted True Accepted\nProgrammed True Programmed", "good good"},
		"no address":           {Place{}, "Accepted True Accepted\nProgrammed False AddressNotAssigned", "good good"},
		"one can't be used":    {Place{Addresses: []string{"10.0.0.1"}, Refused: []string{"192.0.2.1"}}, "Accepted True Accepted\nProgrammed False AddressNotUsable", "good good"},
		"a port that is taken": {Place{Addresses: []string{"10.0.0.1"}, Closed: map[ListenerID]string{id("b"): "it is the admin address"}}, "Accepted True ListenersNotValid\nProgrammed True Programmed", "good PortUnavailable"},
		"all ports are taken":  {Place{Addresses: []string{"10.0.0.1"}, Closed: map[ListenerID]string{id("a"): "x", id("b"): "y"}}, "Accepted False ListenersNotValid\nProgrammed False Invalid", "PortUnavailable PortUnavailable"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.place.Routes = map[ListenerID]int{id("b"): 4}
			status, _ := f.Placed(c.place)
			generationOf(t, 7, status.Conditions, status.Listeners[0].Conditions, status.Listeners[1].Conditions)
			var got []string
			for _, condition := range status.Conditions {
				if condition.Type != string(gatewayv1.GatewayConditionResolvedRefs) {
					got = append(got, said([]metav1.Condition{condition}))
				}
			}
			slices.Sort(got)
			if text := strings.Join(got, "\n"); text != c.want {
				t.Errorf("%q, want %q", text, c.want)
			}
			if text := worst(status.Listeners[0].Conditions) + " " + worst(status.Listeners[1].Conditions); text != c.listeners {
				t.Errorf("%q, want %q", text, c.listeners)
			}
			if status.Listeners[0].AttachedRoutes != 0 || status.Listeners[1].AttachedRoutes != 4 {
				t.Errorf("%d and %d routes", status.Listeners[0].AttachedRoutes, status.Listeners[1].AttachedRoutes)
			}
			for i, a := range status.Addresses {
				if want := []gatewayv1.AddressType{gatewayv1.IPAddressType, gatewayv1.HostnameAddressType}[i]; *a.Type != want || a.Value != c.place.Addresses[i] {
					t.Errorf("address %d: %s %s", i, *a.Type, a.Value)
				}
			}
			if f.Status.Addresses != nil || f.Status.Listeners[1].AttachedRoutes != 0 {
				t.Error("the fragment itself was changed")
			}
		})
	}
}
