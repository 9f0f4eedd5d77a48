package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/converters/source"
)

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

// world is a Source that follows the API server of a test, with a snapshot as the loop has.
type world struct {
	*Source
	t        *testing.T
	server   *apiServer
	batches  chan source.Batch
	snapshot *snapshot.Snapshot
	last     source.Batch
	seen     []snapshot.Change // since mark was called
	settled  []snapshot.Key
}

func configFor(t *testing.T, url string) Config {
	t.Helper()
	rc := &rest.Config{Host: url, QPS: -1}
	k, err := kubernetes.NewForConfig(rc)
	if err != nil {
		t.Fatal(err)
	}
	m, err := metadata.NewForConfig(rc)
	if err != nil {
		t.Fatal(err)
	}
	return Config{Kubernetes: k, Metadata: m, Log: slog.New(slog.DiscardHandler)}
}

// hasty tries again almost at once.
func hasty() pace {
	p := defaultPace()
	p.backoff = wait.Backoff{Duration: 5 * time.Millisecond, Factor: 2, Steps: 3, Cap: 20 * time.Millisecond}
	p.grace = 30 * time.Millisecond
	p.discover = 10 * time.Millisecond
	return p
}

// follow starts a Source; change may alter its configuration.
func follow(t *testing.T, server *apiServer, change func(*Config)) *world {
	t.Helper()
	config := configFor(t, server.http.URL)
	if change != nil {
		change(&config)
	}
	w := &world{Source: New(config), t: t, server: server, batches: make(chan source.Batch), snapshot: snapshot.New()}
	w.pace = hasty()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := w.Run(ctx, w.batches); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	return w
}

// next takes one batch.
func (w *world) next() {
	w.t.Helper()
	select {
	case b := <-w.batches:
		w.snapshot.Apply(b.Changes)
		w.last, w.seen, w.settled = b, append(w.seen, b.Changes...), append(w.settled, b.Settled...)
	case <-time.After(patience):
		w.t.Fatalf("no batch came; trouble %q, findings %v", w.last.Trouble, w.last.Findings)
	}
}

// until takes batches until something is so.
func (w *world) until(so func() bool) {
	w.t.Helper()
	for !so() {
		w.next()
	}
}

func (w *world) synced() {
	w.t.Helper()
	w.until(func() bool { return w.last.Synced })
}

// has waits for the presence, or the absence, of objects.
func (w *world) has(present bool, keys ...snapshot.Key) {
	w.t.Helper()
	w.until(func() bool {
		return !slices.ContainsFunc(keys, func(k snapshot.Key) bool { return (w.snapshot.Object(k) != nil) != present })
	})
}

// barrier creates a Service and takes batches until it comes: what happened to Services
// before is in them, too.
func (w *world) barrier(name string) {
	w.t.Helper()
	w.server.put(service(name))
	w.has(true, key(snapshot.Service, name))
}

func key(kind snapshot.Kind, name string) snapshot.Key {
	namespace := "shop"
	if before, after, ok := strings.Cut(name, "/"); ok {
		namespace, name = before, after
	}
	if kind == snapshot.IngressClass || kind == snapshot.GatewayClass || kind == snapshot.Namespace {
		namespace = ""
	}
	return snapshot.Key{Kind: kind, Namespace: namespace, Name: name}
}

func metaOf(name string) metav1.ObjectMeta {
	k := key("", name)
	return metav1.ObjectMeta{
		Namespace: k.Namespace, Name: k.Name, Labels: map[string]string{"team": "a"},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`)}},
		Annotations:   map[string]string{corev1.LastAppliedConfigAnnotation: "{}", "note": "kept"},
	}
}

func ingress(name, host string) *networkingv1.Ingress {
	return &networkingv1.Ingress{
		ObjectMeta: metaOf(name),
		Spec:       networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{Host: host}}},
		Status:     networkingv1.IngressStatus{LoadBalancer: networkingv1.IngressLoadBalancerStatus{Ingress: []networkingv1.IngressLoadBalancerIngress{{IP: "192.0.2.1"}}}},
	}
}

func class(name string) *networkingv1.IngressClass {
	c := &networkingv1.IngressClass{ObjectMeta: metaOf(name), Spec: networkingv1.IngressClassSpec{Controller: "x/y"}}
	c.Namespace = ""
	return c
}

func service(name string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metaOf(name), Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeClusterIP, Ports: []corev1.ServicePort{{Port: 80}}, Selector: map[string]string{"app": name},
	}}
}

func endpointSlice(name, of string, addresses ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{ObjectMeta: metaOf(name), AddressType: discoveryv1.AddressTypeIPv4}
	s.Labels[discoveryv1.LabelServiceName] = of
	for _, address := range addresses {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{address}, NodeName: new("node"), Zone: new("zone"),
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: "pod", UID: "7d1f"},
		})
	}
	return s
}

func secret(name, value string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metaOf(name), Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"auth": []byte(value)}}
}

func configMap(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metaOf(name), Data: map[string]string{"timeout-client": value}}
}

// secretValue is what a Secret of the snapshot holds.
func (w *world) secretValue(name string) string {
	if data, ok := w.snapshot.Object(key(snapshot.Secret, name)).(*snapshot.SecretData); ok {
		return data.Data["auth"].Reveal()
	}
	return ""
}

func changedKeys(changes []snapshot.Change) string {
	var keys []string
	for _, c := range changes {
		keys = append(keys, c.Key.String())
	}
	return fmt.Sprint(keys)
}

// roundTripper is a way to the server that a test can cut.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
