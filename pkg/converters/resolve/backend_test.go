package resolve

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	discoveryv1 "k8s.io/api/discovery/v1"

	corev1 "k8s.io/api/core/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/settings"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

func TestBackendOrigins(t *testing.T) {
	got := ask{ingress: raw{"hsts": "false"}}.resolve(t).Backend.Origins
	want := []model.Origin{{Kind: "Service", Namespace: "default", Name: "web"}, {Kind: "Ingress", Namespace: "default", Name: "site"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestBackendOfAMissingService: what is missing is noted, so that its creation alone puts
// everything right.
func TestBackendOfAMissingService(t *testing.T) {
	v := view(t)
	ref := BackendRef{Namespace: "default", Service: "web", Port: "80", Origin: model.Origin{Kind: "Ingress", Name: "i", Field: "spec.rules[0]"}}
	f := Backend(v, globals(t, nil), ref)
	if f.Backend.Name != "default_web_80" || len(f.Backend.Servers) != 0 || codes(f.Findings) != "ServiceMissing" || f.Findings[0].Object != ref.Origin {
		t.Errorf("%+v", f)
	}
	if !slices.Contains(v.Noted(), snapshot.Key{Kind: snapshot.Service, Namespace: "default", Name: "web"}) {
		t.Errorf("noted %v", v.Noted())
	}
}

func TestBackendNotesItsSecret(t *testing.T) {
	v := view(t, service(port(80, "http")))
	Backend(v, globals(t, nil), ask{ingress: raw{"auth-secret": "users"}}.ref())
	if !slices.Contains(v.Noted(), secretKey("users")) {
		t.Errorf("a Secret that is missing is not noted: %v", v.Noted())
	}
}

func TestBackendThatIsDeniedByItsRoute(t *testing.T) {
	f := Backend(view(t), globals(t, nil), BackendRef{Namespace: "default", Deny: 503})
	if f.Backend.Profile.Shape.Deny != 503 || len(f.Findings) > 0 || !strings.HasPrefix(f.Backend.Name, "default___") {
		t.Errorf("%+v", f.Backend)
	}
}

func TestBackendWithoutAService(t *testing.T) {
	ref := BackendRef{Namespace: "default", Layers: []settings.Layer{{Raw: raw{"redirect-to": "/x"}}}}
	f := Backend(view(t), globals(t, nil), ref)
	if f.Backend.Profile.Shape.Redirect != 302 || len(f.Findings) > 0 || len(f.Backend.Servers) > 0 {
		t.Errorf("%+v %v", f.Backend, f.Findings)
	}
}

func TestBackendWithDNSNamesIsStatic(t *testing.T) {
	s := service()
	s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeExternalName, "db.example.com"
	f := Backend(view(t, s), globals(t, nil), BackendRef{Namespace: "default", Service: "web", Port: "80"})
	if f.Backend.Static == "" || f.Backend.Options.Resolvers != ResolversName || states(f.Backend.Servers) != "db.example.com:80 ready" {
		t.Errorf("%+v", f.Backend)
	}
}

func TestAnnotationsOfTheService(t *testing.T) {
	tests := map[string]struct {
		annotations map[string]string
		ingress     raw
		balance     string
		codes       string
	}{
		"either prefix":         {map[string]string{"haproxy-ingress.github.io/balance-algorithm": "leastconn"}, nil, "leastconn", ""},
		"sluice's own one wins": {map[string]string{"haproxy-ingress.github.io/balance-algorithm": "leastconn", "sluice-proxy.github.io/balance-algorithm": "source"}, nil, "source", ""},
		"over the Ingress, with a word to it": {
			map[string]string{"sluice-proxy.github.io/balance-algorithm": "source"}, raw{"balance-algorithm": "leastconn"}, "source", "OptionConflict"},
		"the same as on the Ingress": {
			map[string]string{"sluice-proxy.github.io/balance-algorithm": "source"}, raw{"balance-algorithm": "source"}, "source", ""},
		"a global option":       {map[string]string{"sluice-proxy.github.io/nbthread": "4"}, nil, "roundrobin", "OptionScope"},
		"an option of the path": {map[string]string{"sluice-proxy.github.io/path-type": "exact"}, nil, "roundrobin", "OptionScope"},
		"an unknown option":     {map[string]string{"sluice-proxy.github.io/balance": "source"}, nil, "roundrobin", "OptionUnknown"},
		"an unreadable value":   {map[string]string{"sluice-proxy.github.io/balance-algorithm": "x"}, nil, "roundrobin", "OptionInvalid"},
		"another's annotation":  {map[string]string{"example.com/balance-algorithm": "x"}, nil, "roundrobin", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := service(port(80, "http"))
			s.Annotations = test.annotations
			f := Backend(view(t, s), globals(t, nil), ask{ingress: test.ingress}.ref())
			if f.Backend.Profile.Shape.Balance != test.balance || codes(f.Findings) != test.codes {
				t.Errorf("%s %v", f.Backend.Profile.Shape.Balance, f.Findings)
			}
		})
	}
}

// TestBackendIsAFunction: the same objects give the same bytes, whatever the order in which
// they came.
func TestBackendIsAFunction(t *testing.T) {
	objects := []any{
		service(port(80, "http")),
		slice("b", new("http"), new(int32(8080)), endpoint("10.0.0.9"), endpoint("10.0.0.1", "!ready")),
		slice("a", new("http"), new(int32(8080)), endpoint("10.0.0.1"), endpoint("10.0.0.10")),
		secret{"users", raw{"auth": "u:" + goodHash}},
	}
	ref := ask{ingress: raw{"auth-secret": "users", "affinity": "cookie", "cors-enable": "true", "cors-allow-origin": "https://b.example,https://a.example"}}.ref()
	first := Backend(view(t, objects...), globals(t, nil), ref)
	slices.Reverse(objects)
	objects[len(objects)-2].(*discoveryv1.EndpointSlice).Name = "z"
	second := Backend(view(t, objects...), globals(t, nil), ref)
	if first.Backend.Digest != second.Backend.Digest || !cmp.Equal(first.Backend, second.Backend, cmp.AllowUnexported(model.Secret{}), cmp.Comparer(func(a, b model.Server) bool { return a == b })) {
		t.Errorf("%+v\n%+v", first.Backend, second.Backend)
	}
}

func TestSlowConnectIsReported(t *testing.T) {
	if f := (ask{ingress: raw{"timeout-connect": "3s"}}).resolve(t); codes(f.Findings) != "OptionRisky" {
		t.Errorf("%v", f.Findings)
	}
	set, _ := settings.Globals(settings.Layer{Raw: raw{"timeout-connect": "2001ms"}})
	if f := Process(set, Bind{}); codes(f.Findings) != "OptionRisky" {
		t.Errorf("%v", f.Findings)
	}
}
