package memo

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
)

// parsed reads an object.
func parsed[T any](t interface{ Fatal(...any) }, text string) *T {
	object := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), object); err != nil {
		t.Fatal(err)
	}
	return object
}

// gatewayObject draws an object of a world in which Gateways and routes collide.
func (u *universe) gatewayObject() any {
	switch u.pick("kind", "route", "route", "route", "grpc", "tls", "tcp", "udp", "udp", "set", "grant", "policy", "authority", "gateway", "gateway", "class", "Service", "EndpointSlice", "Secret", "Ingress") {
	case "route":
		route := parsed[gatewayv1.HTTPRoute](u.t, u.route())
		route.ObjectMeta = u.meta("a")
		return route
	case "grpc":
		route := parsed[gatewayv1.GRPCRoute](u.t, "spec: {parentRefs: [{name: x}], hostnames: ["+u.pick("host", "a.example.com", "'*.example.com'")+"], rules: [{backendRefs: [{name: x, port: 80}]}]}")
		route.ObjectMeta = u.meta("a")
		return route
	case "udp":
		route := parsed[gatewayv1.UDPRoute](u.t, "spec: {parentRefs: [{name: '"+u.pick("parent", "x", "y")+"'}], rules: [{backendRefs: [{name: x, port: 80, weight: "+u.pick("weight", "1", "2", "0")+
			"}, {name: '"+u.pick("other", "x", "y", "z")+"', port: "+u.pick("to", "80", "81")+"}]}]}")
		route.ObjectMeta = u.meta("a")
		return route
	case "tls":
		route := parsed[gatewayv1.TLSRoute](u.t, "spec: {parentRefs: ["+u.parentOf()+"], hostnames: ["+u.pick("hosts", "", "a.example.com", "'*.example.com'", "a.example.com, b.sub.example.com")+"], rules: ["+u.connections()+"]}")
		route.ObjectMeta = u.meta("a")
		return route
	case "tcp":
		route := parsed[gatewayv1.TCPRoute](u.t, "spec: {parentRefs: ["+u.parentOf()+"], rules: ["+u.connections()+"]}")
		route.ObjectMeta = u.meta("a")
		return route
	case "set":
		set := parsed[gatewayv1.ListenerSet](u.t, "spec: {parentRef: {name: '"+u.pick("parent", "x", "y")+"'}, listeners: ["+u.listeners()+"]}")
		set.ObjectMeta = u.meta("a")
		return set
	case "grant":
		grant := parsed[gatewayv1.ReferenceGrant](u.t, "spec: {from: [{group: gateway.networking.k8s.io, kind: "+u.pick("from", "TCPRoute", "TLSRoute")+", namespace: a}], to: [{group: '', kind: Service}]}")
		grant.ObjectMeta = u.meta("b")
		return grant
	case "policy":
		p := parsed[gatewayv1.BackendTLSPolicy](u.t, "spec: {targetRefs: [{group: '', kind: Service, name: '"+u.pick("target", "x", "y", "z")+"'}], validation: {hostname: a.example.com, "+
			u.pick("authority", "wellKnownCACertificates: System", "caCertificateRefs: [{group: '', kind: ConfigMap, name: gone}]", "caCertificateRefs: [{group: '', kind: ConfigMap, name: x}]")+"}}")
		p.ObjectMeta = u.meta("a")
		return p
	case "authority":
		return u.authority()
	case "gateway":
		gw := parsed[gatewayv1.Gateway](u.t, "spec: {gatewayClassName: "+u.pick("class", "sluice", "sluice", "other")+u.pick("sets", "", ", allowedListeners: {namespaces: {from: Same}}")+u.pick("address", "", "", ", addresses: [{value: 10.0.0.1}]", ", addresses: [{value: 10.0.0.9}]")+u.gatewayTLS()+", listeners: ["+u.listeners()+"]}")
		gw.ObjectMeta = u.meta("a")
		return gw
	case "class":
		c := parsed[gatewayv1.GatewayClass](u.t, "spec: {controllerName: "+u.pick("controller", controller, "example.com/other")+"}")
		c.Name = u.pick("class", "sluice", "other")
		return c
	case "Ingress":
		return u.ingress()
	case "Secret":
		return secret(u.pick("secret", "x", "y"), rapid.SampledFrom(u.pairs).Draw(u.t, "pair"))
	case "EndpointSlice":
		slice := endpoints("x", u.pick("of", "x", "y"), u.pick("address", "10.1.0.1", "10.1.0.2"))
		if u.chance("datagrams", 2) {
			slice.Ports[0].Protocol = new(corev1.ProtocolUDP)
		}
		return slice
	}
	s := service(u.pick("service", "x", "y"))
	if u.chance("datagrams", 2) {
		datagrams := s.Spec.Ports[0]
		datagrams.Protocol = corev1.ProtocolUDP
		s.Spec.Ports = append(s.Spec.Ports, datagrams)
	}
	u.annotate(s.Annotations)
	return s
}

// authority signs certificates of clients and servers, or is none.
func (u *universe) authority() *corev1.ConfigMap {
	m := &corev1.ConfigMap{ObjectMeta: u.meta("a"), Data: map[string]string{"ca.crt": rapid.SampledFrom(u.pairs).Draw(u.t, "pair")["tls.crt"]}}
	if m.Name = "x"; u.chance("empty", 3) {
		m.Data = nil
	}
	return m
}

// gatewayTLS is what a Gateway asks of clients, and shows to servers.
func (u *universe) gatewayTLS() string {
	const authorities = "caCertificateRefs: [{group: '', kind: ConfigMap, name: x}]"
	return ", tls: {" + u.pick("clients", "", "", "frontend: {default: {validation: {"+authorities+"}}}, ",
		"frontend: {default: {}, perPort: [{port: 443, tls: {validation: {mode: AllowInsecureFallback, "+authorities+"}}}]}, ") +
		u.pick("shown", "", "backend: {clientCertificateRef: {name: x}}") + "}"
}

func (u *universe) listeners() string {
	var list []string
	for _, name := range []string{"one", "two", "three"}[:rapid.IntRange(1, 3).Draw(u.t, "listeners")] {
		text := "{name: " + name + ", port: " + u.pick("port", "80", "8080", "443") + ", hostname: " + u.pick("listener", "'*.example.com'", "a.example.com", "''", "'*.sub.example.com'")
		list = append(list, text+u.pick("protocol", ", protocol: HTTP}", ", protocol: HTTP}", ", protocol: HTTPS, tls: {certificateRefs: [{name: x}]}}",
			", protocol: TLS, tls: {mode: Passthrough}}", ", protocol: TLS, tls: {certificateRefs: [{name: y}]}}", ", protocol: TCP}", ", protocol: UDP}"))
	}
	return strings.Join(list, ", ")
}

func (u *universe) parentOf() string {
	return "{name: '" + u.pick("parent", "x", "y") + "'" + u.pick("section", "", "", ", sectionName: two", ", kind: ListenerSet") + "}"
}

// connections is a rule of routes for connections; a Service of namespace b needs a grant.
func (u *universe) connections() string {
	return "{backendRefs: [{name: x, port: 80, weight: " + u.pick("weight", "1", "2", "0") + "}, {name: '" + u.pick("other", "x", "y", "z") + "', port: 80" + u.pick("namespace", "", ", namespace: b") + "}]}"
}

func (u *universe) route() string {
	text := "spec: {parentRefs: [{name: '" + u.pick("parent", "x", "y") + "'" + u.pick("section", "", "", ", sectionName: two") + "}], hostnames: [" +
		u.pick("hosts", "", "a.example.com", "'*.example.com'", "a.example.com, b.sub.example.com") + "], rules: ["
	for range rapid.IntRange(1, 2).Draw(u.t, "rules") {
		text += "{matches: [{path: " + u.pick("path", "{value: /}", "{value: /foo}", "{type: Exact, value: /foo}", "{type: RegularExpression, value: '/v[0-9]+'}", "{type: RegularExpression, value: '('}") +
			u.pick("match", "", "", ", method: GET", ", headers: [{name: X, value: v}]") + "}], " +
			u.pick("filters", "", "", "filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: X, value: z}]}}], ",
				"filters: [{type: RequestMirror, requestMirror: {percent: 50, backendRef: {name: x, port: 80}}}, {type: RequestMirror, requestMirror: {backendRef: {name: z, port: 80}}}], ") +
			"backendRefs: [{name: x, port: 80, weight: " + u.pick("weight", "1", "2", "0") + "}, {name: '" + u.pick("other", "x", "y", "z") + "', port: 80}]},"
	}
	return strings.TrimSuffix(text, ",") + "]}"
}

// TestGatewaysInAnyOrder: whatever the order of events, the Model, the report and the statuses
// are those from scratch.
func TestGatewaysInAnyOrder(t *testing.T) {
	pairs := newUniversePairs(t)
	rapid.Check(t, func(t *rapid.T) {
		u := &universe{t: t, pairs: pairs}
		w := &world{options: options(), snapshot: snapshot.New(), now: start}
		if u.chance("pool", 2) {
			w.options.GatewayAddresses = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/30")}
		}
		w.memo = New(w.options)
		for _, object := range []any{class("sluice", controller), parsed[gatewayv1.GatewayClass](t, "metadata: {name: sluice}\nspec: {controllerName: "+controller+"}")} {
			w.snapshot.Apply([]snapshot.Change{{Key: keyOf(object), Object: object}})
		}
		w.memo.Update(w.snapshot, everything(w.snapshot), w.now)
		statuses := w.memo.Statuses(nil)
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			object := u.gatewayObject()
			change := snapshot.Change{Key: keyOf(object), Object: bare(object)}
			if u.chance("delete", 4) {
				change.Object = nil
			}
			w.model = w.memo.Update(w.snapshot, w.snapshot.Apply([]snapshot.Change{change}), w.now)
			for key, status := range w.memo.Statuses([]string{"192.0.2.1"}) {
				if statuses[key] = status; status.IsZero() {
					delete(statuses, key)
				}
			}
			scratch := New(w.options)
			fresh := scratch.Update(w.snapshot, everything(w.snapshot), w.now)
			wanted := scratch.Statuses([]string{"192.0.2.1"})
			for key, status := range wanted {
				if status.IsZero() {
					delete(wanted, key)
				}
			}
			if diff := same(fresh, w.model) + cmp.Diff(scratch.Report(), w.memo.Report(), cmpopts.EquateEmpty()) + cmp.Diff(wanted, statuses, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("differs from scratch (-scratch +incremental):\n%s", diff)
			}
		}
	})
}
