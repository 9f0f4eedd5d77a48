package files

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
)

// TestGatewayDefaults: what a manifest leaves out is filled in as the API server would.
func TestGatewayDefaults(t *testing.T) {
	for name, test := range map[string]struct{ kind, given, completed string }{
		"a Gateway": {
			"Gateway", `{spec: {gatewayClassName: c, addresses: [{value: 192.0.2.1}], allowedListeners: {}, listeners: [
				{name: a, port: 80, protocol: HTTP},
				{name: b, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: s}]}, allowedRoutes: {kinds: [{kind: HTTPRoute}]}}]}}`,
			`{spec: {gatewayClassName: c, addresses: [{type: IPAddress, value: 192.0.2.1}], allowedListeners: {namespaces: {from: None}}, listeners: [
				{name: a, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: Same}}},
				{name: b, port: 443, protocol: HTTPS, tls: {mode: Terminate, certificateRefs: [{group: "", kind: Secret, name: s}]},
				 allowedRoutes: {namespaces: {from: Same}, kinds: [{group: gateway.networking.k8s.io, kind: HTTPRoute}]}}]}}`,
		},
		"a route without rules": {
			"HTTPRoute", `{spec: {parentRefs: [{name: g}]}}`,
			`{spec: {parentRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: g}], rules: [{matches: [{path: {type: PathPrefix, value: /}}]}]}}`,
		},
		"rules": {
			"HTTPRoute", `{spec: {rules: [{retry: {codes: [500], attempts: 2}, matches: [{path: {value: /a}, headers: [{name: h, value: v}], queryParams: [{name: q, value: v}]}],
				filters: [{type: RequestRedirect, requestRedirect: {scheme: https}}, {type: RequestMirror, requestMirror: {backendRef: {name: m, port: 80}, fraction: {numerator: 5}}}, {type: CORS, cors: {}}],
				backendRefs: [{name: a, port: 80}, {name: b, port: 80, weight: 0}]}]}}`,
			`{spec: {rules: [{retry: {codes: [500], attempts: 2}, matches: [{path: {type: PathPrefix, value: /a}, headers: [{type: Exact, name: h, value: v}], queryParams: [{type: Exact, name: q, value: v}]}],
				filters: [{type: RequestRedirect, requestRedirect: {scheme: https, statusCode: 302}},
				 {type: RequestMirror, requestMirror: {backendRef: {group: "", kind: Service, name: m, port: 80}, fraction: {numerator: 5, denominator: 100}}}, {type: CORS, cors: {maxAge: 5}}],
				backendRefs: [{group: "", kind: Service, name: a, port: 80, weight: 1}, {group: "", kind: Service, name: b, port: 80, weight: 0}]}]}}`,
		},
		"a ListenerSet": {
			"ListenerSet", `{spec: {parentRef: {name: g}, listeners: [{name: a, port: 80, protocol: HTTP}]}}`,
			`{spec: {parentRef: {group: gateway.networking.k8s.io, kind: Gateway, name: g}, listeners: [{name: a, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: Same}}}]}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			k, ok := kindOf(test.kind)
			if !ok {
				t.Fatal("the kind is not read")
			}
			read := func(text string) any {
				raw, err := yaml.YAMLToJSON([]byte(text))
				if err != nil {
					t.Fatal(err)
				}
				object, strict, err := k.decode(raw, keyOf(test.kind))
				if err != nil || len(strict) > 0 {
					t.Fatal(err, strict)
				}
				return object
			}
			text, err := json.Marshal(read(test.given))
			if err != nil {
				t.Fatal(err)
			}
			// What is written out whole is the same when it is read.
			want, err := json.Marshal(read(test.completed))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(text)); diff != "" {
				t.Error(diff)
			}
			var given, shown map[string]any
			if err := yaml.Unmarshal([]byte(test.completed), &given); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(text, &shown); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(given["spec"], shown["spec"]); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func keyOf(kind string) snapshot.Key {
	return snapshot.Key{Kind: snapshot.Kind(kind), Namespace: "a", Name: "x"}
}

// TestGatewayVersions: those that the CRDs serve are read, and nothing else.
func TestGatewayVersions(t *testing.T) {
	for apiVersion, want := range map[string]bool{
		"gateway.networking.k8s.io/v1": true, "gateway.networking.k8s.io/v1beta1": true, "gateway.networking.k8s.io/v1alpha2": false,
		"example.com/v1": false, "v1": false,
	} {
		if k, _ := kindOf("ReferenceGrant"); k.reads(apiVersion) != want {
			t.Errorf("ReferenceGrant of %s is read: %v", apiVersion, !want)
		}
	}
}
