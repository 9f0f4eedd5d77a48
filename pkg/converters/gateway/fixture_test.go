package gateway

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

var ours = Class{Controller: "sluice-proxy.github.io/controller"}

const class = `
kind: GatewayClass
metadata: {name: sluice, generation: 1}
spec: {controllerName: sluice-proxy.github.io/controller}
---
kind: GatewayClass
metadata: {name: foreign, generation: 1}
spec: {controllerName: example.com/other}
`

// load is a snapshot with the objects of manifests, and with the two classes.
func load(t testing.TB, manifests ...string) *snapshot.Snapshot {
	t.Helper()
	var changes []snapshot.Change
	for _, document := range strings.Split(class+"\n---\n"+strings.Join(manifests, "\n---\n"), "\n---\n") {
		if strings.TrimSpace(document) == "" {
			continue
		}
		changes = append(changes, object(t, document))
	}
	s := snapshot.New()
	s.Apply(changes)
	return s
}

func object(t testing.TB, document string) snapshot.Change {
	t.Helper()
	var head struct {
		Kind     snapshot.Kind
		Metadata metav1.ObjectMeta
	}
	if err := yaml.Unmarshal([]byte(document), &head); err != nil {
		t.Fatalf("%v in\n%s", err, document)
	}
	key := snapshot.Key{Kind: head.Kind, Namespace: head.Metadata.Namespace, Name: head.Metadata.Name}
	if key.Namespace == "" && key.Kind != snapshot.GatewayClass && key.Kind != snapshot.Namespace {
		t.Fatalf("%s has no namespace", key)
	}
	if key.Kind == snapshot.Secret {
		secret := corev1.Secret{}
		if err := yaml.UnmarshalStrict([]byte(document), &secret); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		data := &snapshot.SecretData{Type: string(secret.Type), Data: map[string]model.Secret{}}
		for name, text := range secret.StringData {
			data.Data[name] = model.NewSecret([]byte(text))
		}
		return snapshot.Change{Key: key, Object: data}
	}
	into, known := map[snapshot.Kind]runtime.Object{
		snapshot.GatewayClass: &gatewayv1.GatewayClass{}, snapshot.Gateway: &gatewayv1.Gateway{}, snapshot.ListenerSet: &gatewayv1.ListenerSet{},
		snapshot.HTTPRoute: &gatewayv1.HTTPRoute{}, snapshot.GRPCRoute: &gatewayv1.GRPCRoute{}, snapshot.TLSRoute: &gatewayv1.TLSRoute{},
		snapshot.TCPRoute: &gatewayv1.TCPRoute{}, snapshot.UDPRoute: &gatewayv1.UDPRoute{}, snapshot.ReferenceGrant: &gatewayv1.ReferenceGrant{},
		snapshot.BackendTLSPolicy: &gatewayv1.BackendTLSPolicy{}, snapshot.Service: &corev1.Service{}, snapshot.ConfigMap: &corev1.ConfigMap{},
		snapshot.Namespace: &corev1.Namespace{},
	}[key.Kind]
	if !known {
		t.Fatalf("no kind %s in this test", key.Kind)
	}
	if err := yaml.UnmarshalStrict([]byte(document), into); err != nil {
		t.Fatalf("%v in\n%s", err, document)
	}
	return snapshot.Change{Key: key, Object: into}
}

// said is a list of conditions as text: type status reason, one a line, without the ones that say
// that all is well.
func said(conditions []metav1.Condition) string {
	var lines []string
	for _, c := range conditions {
		lines = append(lines, fmt.Sprintf("%s %s %s", c.Type, c.Status, c.Reason))
	}
	return strings.Join(lines, "\n")
}

// generationOf fails where a condition has another generation than the wanted one.
func generationOf(t *testing.T, want int64, lists ...[]metav1.Condition) {
	t.Helper()
	for _, list := range lists {
		for _, c := range list {
			if c.ObservedGeneration != want {
				t.Errorf("%s of generation %d, want %d", c.Type, c.ObservedGeneration, want)
			}
			if c.Message == "" {
				t.Errorf("%s says nothing", c.Type)
			}
		}
	}
}

func gatewayKey(name string) snapshot.Key {
	return snapshot.Key{Kind: snapshot.Gateway, Namespace: "infra", Name: name}
}
