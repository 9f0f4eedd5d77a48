package memo

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
)

// TestAuthoritiesComeAndGo: servers and statuses follow the authority that a policy names, in any
// direction, with no event on the policy, and nothing else is converted.
func TestAuthoritiesComeAndGo(t *testing.T) {
	named := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "a", Name: name}
	}
	authority := func(name, text string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: named(name), Data: map[string]string{"ca.crt": text}}
	}
	gatewayClass := parsed[gatewayv1.GatewayClass](t, "metadata: {name: sluice}\nspec: {controllerName: "+controller+"}")
	gw := parsed[gatewayv1.Gateway](t, "spec: {gatewayClassName: sluice, listeners: [{name: http, port: 80, protocol: HTTP}]}")
	route := parsed[gatewayv1.HTTPRoute](t, "spec: {parentRefs: [{name: gw}], rules: [{backendRefs: [{name: s1, port: 80}, {name: s2, port: 80}]}]}")
	policy := parsed[gatewayv1.BackendTLSPolicy](t, "spec: {targetRefs: [{group: '', kind: Service, name: s1}], validation: {hostname: s1.example.com, caCertificateRefs: [{group: '', kind: ConfigMap, name: ca}]}}")
	gw.ObjectMeta, route.ObjectMeta, policy.ObjectMeta = named("gw"), named("route"), named("policy")
	one, two := newPair(t, start.AddDate(1, 0, 0), "one"), newPair(t, start.AddDate(1, 0, 0), "two")

	w := newWorld(t, gatewayClass, gw, route, policy, service("s1"), service("s2"), endpoints("s1-x", "s1", "10.0.0.1"), endpoints("s2-x", "s2", "10.0.0.2"))
	verified := func() (file, reason string) {
		for b := range w.model.Backends.All {
			if strings.HasPrefix(b.Name, "a_s1_80") && len(b.Servers) > 0 {
				file = b.Options.CAFile
			}
		}
		status := w.memo.Statuses(nil)[snapshot.Key{Kind: snapshot.BackendTLSPolicy, Namespace: "a", Name: "policy"}]
		if len(status.Ancestors) == 1 {
			reason = status.Ancestors[0].Conditions[0].Reason
		}
		return file, reason
	}
	if file, reason := verified(); file != "" || reason != "NoValidCACertificate" {
		t.Errorf("without the authority: file %q, %s", file, reason)
	}
	last := ""
	for _, step := range []struct {
		name string
		do   func()
		want string
	}{
		{"it comes", func() { w.put(authority("ca", one["tls.crt"])) }, "Accepted"},
		{"it changes", func() { w.put(authority("ca", two["tls.crt"])) }, "Accepted"},
		{"it breaks", func() { w.put(authority("ca", "none")) }, "NoValidCACertificate"},
		{"it is put right", func() { w.put(authority("ca", one["tls.crt"])) }, "Accepted"},
		{"it goes", func() { w.remove(authority("ca", "")) }, "NoValidCACertificate"},
	} {
		if diff := cmp.Diff(map[string]int{"backend": 1, "policy": 1}, w.conversions(step.do)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", step.name, diff)
		}
		file, reason := verified()
		if reason != step.want || (file != "") != (reason == "Accepted") || file != "" && file == last {
			t.Errorf("%s: file %q, %s", step.name, file, reason)
		}
		last = file
		w.equalsScratch()
	}
	if diff := cmp.Diff(map[string]int{}, w.conversions(func() { w.put(authority("other", one["tls.crt"])) })); diff != "" {
		t.Errorf("an authority of nobody: (-want +got)\n%s", diff)
	}
}
