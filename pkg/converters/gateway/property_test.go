package gateway

import (
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/token"
)

// texts are what users write where a name, a path or a value belongs.
var texts = []string{
	"", "a", "web", "example.com", "*.example.com", "a.example.com", "*", "/", "/a", "/a/", "a b", "x\ny", "/x\r\ny", "é", "%00", "/%2f/..", "/a?b#c",
	"(", ".*", "[", "http://x", "https://*.x.com:8443", "1h", "-1s", "%[src]", "\"'\\", "\x7f", "\xff", "ConfigMap", "Service", "gateway.networking.k8s.io", "gw", "infra",
}

// fill sets the fields of a value at random, to what users write.
func fill(t *rapid.T, v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Pointer:
		if depth < 12 && rapid.IntRange(0, 2).Draw(t, "pointer") > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(t, v.Elem(), depth+1)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[metav1.LabelSelector]() {
			return
		}
		for i := range v.NumField() {
			fill(t, v.Field(i), depth+1)
		}
	case reflect.Slice:
		n := rapid.IntRange(0, 2).Draw(t, "length")
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			fill(t, v.Index(i), depth+1)
		}
	case reflect.String:
		v.SetString(word(t, v.Type()))
	case reflect.Int, reflect.Int32:
		v.SetInt(int64(rapid.SampledFrom([]int{-1, 0, 1, 80, 443, 500, 65535, 70000, 1_000_001}).Draw(t, "number")))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	}
}

// filtered is a rule with one filter and nothing else that could be wrong.
func filtered(t *rapid.T) gatewayv1.HTTPRouteRule {
	f := gatewayv1.HTTPRouteFilter{}
	of := reflect.ValueOf(&f).Elem().Field(rapid.IntRange(1, 6).Draw(t, "filter"))
	of.Set(reflect.New(of.Type().Elem()))
	fill(t, of.Elem(), 5)
	switch {
	case f.RequestHeaderModifier != nil:
		f.Type = gatewayv1.HTTPRouteFilterRequestHeaderModifier
	case f.ResponseHeaderModifier != nil:
		f.Type = gatewayv1.HTTPRouteFilterResponseHeaderModifier
	case f.RequestMirror != nil:
		f.Type = gatewayv1.HTTPRouteFilterRequestMirror
	case f.RequestRedirect != nil:
		f.Type = gatewayv1.HTTPRouteFilterRequestRedirect
	case f.URLRewrite != nil:
		f.Type = gatewayv1.HTTPRouteFilterURLRewrite
	default:
		f.Type = gatewayv1.HTTPRouteFilterCORS
	}
	ref := gatewayv1.HTTPBackendRef{}
	ref.Name, ref.Port = "web", new(gatewayv1.PortNumber(80))
	return gatewayv1.HTTPRouteRule{Filters: []gatewayv1.HTTPRouteFilter{f}, BackendRefs: []gatewayv1.HTTPBackendRef{ref}}
}

// word is one that the type knows, mostly.
func word(t *rapid.T, of reflect.Type) string {
	known := map[string][]string{
		"HTTPRouteFilterType":  {"RequestHeaderModifier", "ResponseHeaderModifier", "RequestRedirect", "URLRewrite", "RequestMirror", "CORS", "ExternalAuth"},
		"HTTPPathModifierType": {"ReplaceFullPath", "ReplacePrefixMatch"},
		"PathMatchType":        {"Exact", "PathPrefix", "RegularExpression"},
		"HeaderMatchType":      {"Exact", "RegularExpression"},
		"ProtocolType":         {"HTTP", "HTTPS", "TLS", "TCP", "UDP"},
		"TLSModeType":          {"Terminate", "Passthrough"},
		"FromNamespaces":       {"All", "Same", "Selector", "None"},
		"HTTPMethod":           {"GET", "POST"},
	}[of.Name()]
	if known != nil && rapid.IntRange(0, 5).Draw(t, "known") > 0 {
		return rapid.SampledFrom(known).Draw(t, of.Name())
	}
	return rapid.SampledFrom(texts).Draw(t, "text")
}

// TestWhateverUsersWrite: no object makes the converters panic, and what they hand on is fit for
// keys and values of maps.
func TestWhateverUsersWrite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gw := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: "gw", Generation: 1}}
		fill(t, reflect.ValueOf(&gw.Spec).Elem(), 0)
		gw.Spec.GatewayClassName = "sluice"
		gw.Spec.Listeners = append(gw.Spec.Listeners, gatewayv1.Listener{Name: "h", Port: 80, Protocol: "HTTP"})
		route := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: "r", Generation: 1}}
		fill(t, reflect.ValueOf(&route.Spec).Elem(), 0)
		for range 3 {
			route.Spec.Rules = append(route.Spec.Rules, filtered(t))
		}
		route.Spec.Hostnames = nil
		route.Spec.ParentRefs = append(route.Spec.ParentRefs, gatewayv1.ParentReference{Name: "gw"})
		set := &gatewayv1.ListenerSet{ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: "gw", Generation: 1}}
		fill(t, reflect.ValueOf(&set.Spec).Elem(), 0)
		policy := &gatewayv1.BackendTLSPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: "p", Generation: 1}}
		fill(t, reflect.ValueOf(&policy.Spec).Elem(), 0)
		class := &gatewayv1.GatewayClass{ObjectMeta: metav1.ObjectMeta{Name: "sluice"}, Spec: gatewayv1.GatewayClassSpec{ControllerName: gatewayv1.GatewayController(ours.Controller)}}
		s := snapshot.New()
		keyOf := func(kind snapshot.Kind, name string) snapshot.Key {
			return snapshot.Key{Kind: kind, Namespace: "infra", Name: name}
		}
		s.Apply([]snapshot.Change{
			{Key: keyOf(snapshot.Gateway, "gw"), Object: gw}, {Key: keyOf(snapshot.HTTPRoute, "r"), Object: route}, {Key: keyOf(snapshot.ListenerSet, "gw"), Object: set},
			{Key: keyOf(snapshot.BackendTLSPolicy, "p"), Object: policy}, {Key: snapshot.Key{Kind: snapshot.GatewayClass, Name: "sluice"}, Object: class},
		})
		f := ConvertGateway(s.View(), ours, gatewayKey("gw"))
		if !f.Mine || len(f.Status.Listeners) != len(gw.Spec.Listeners) {
			t.Fatalf("%d listeners of %d have a status", len(f.Status.Listeners), len(gw.Spec.Listeners))
		}
		for _, l := range f.Listeners {
			checkHosts(t, l.Serves, l.Host)
		}
		ConvertPolicy(s.View(), keyOf(snapshot.BackendTLSPolicy, "p"))
		checkRoute(t, ConvertRoute(s.View(), ours, keyOf(snapshot.HTTPRoute, "r")))
	})
}

func checkHosts(t *rapid.T, served bool, hosts ...string) {
	for _, host := range hosts {
		if _, _, err := token.HostKey(host); served && err != nil {
			t.Fatal(err)
		}
	}
}

func checkRoute(t *rapid.T, f RouteFragment) {
	for _, p := range f.Parents {
		if len(p.Conditions) < 2 {
			t.Fatalf("conditions %s", said(p.Conditions))
		}
		for _, c := range p.Conditions {
			if c.ObservedGeneration != 1 || c.Reason == "" || c.Message == "" {
				t.Fatalf("%+v", c)
			}
		}
	}
	for _, a := range f.Attachments {
		checkHosts(t, true, a.Hosts...)
		for _, rule := range a.Rules {
			if len(rule.Matches) == 0 || len(rule.Targets) == 0 {
				t.Fatalf("%+v", rule)
			}
			for _, m := range rule.Matches {
				if _, err := token.ExactKey("a.com", m.Path); m.How != PathPattern && err != nil {
					t.Fatal(err)
				}
			}
			for _, target := range rule.Targets {
				if target.Backend.Gateway == nil {
					continue
				}
				if filters := target.Backend.Gateway.Filters; filters != nil {
					checkTexts(t, reflect.ValueOf(*filters))
				}
			}
		}
	}
}

// checkTexts fails where a text holds what would end a line or a word of HAProxy's.
func checkTexts(t *rapid.T, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			checkTexts(t, v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			checkTexts(t, v.Field(i))
		}
	case reflect.Slice:
		for i := range v.Len() {
			checkTexts(t, v.Index(i))
		}
	case reflect.String:
		if err := token.CheckText(v.String(), ""); err != nil || strings.ContainsAny(v.String(), "\n\r\x00") {
			t.Fatalf("%q: %v", v.String(), err)
		}
	}
}
