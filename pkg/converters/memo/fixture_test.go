package memo

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/ingress"
	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/resolve"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// start is when tests begin; certificates of newPair are valid from a day before.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const (
	controller   = "sluice-proxy.github.io/controller"
	annotation   = "sluice-proxy.github.io/"
	ownNamespace = "sluice"
)

func options() Options {
	return Options{
		Class:              ingress.Class{Name: "sluice", Controller: controller, Namespace: ownNamespace},
		ConfigMap:          snapshot.Key{Kind: snapshot.ConfigMap, Namespace: ownNamespace, Name: "global"},
		DefaultCertificate: &model.Certificate{Name: "0default.pem", PEM: model.NewSecret([]byte("default"))},
		Bind:               resolve.Bind{HTTP: []string{"*:80"}, HTTPS: []string{"*:443"}},
	}
}

// world is a snapshot with the Memo that follows it.
type world struct {
	t        testing.TB
	options  Options
	snapshot *snapshot.Snapshot
	memo     *Memo
	model    *model.Model
	now      time.Time
}

func newWorld(t testing.TB, objects ...any) *world {
	w := &world{t: t, options: options(), snapshot: snapshot.New(), now: start}
	w.memo = New(w.options)
	w.put(append([]any{class("sluice", controller)}, objects...)...)
	return w
}

// put applies objects and updates.
func (w *world) put(objects ...any) {
	var changes []snapshot.Change
	for _, object := range objects {
		changes = append(changes, snapshot.Change{Key: keyOf(object), Object: bare(object)})
	}
	w.model = w.memo.Update(w.snapshot, w.snapshot.Apply(changes), w.now)
}

func (w *world) remove(objects ...any) {
	var changes []snapshot.Change
	for _, object := range objects {
		changes = append(changes, snapshot.Change{Key: keyOf(object)})
	}
	w.model = w.memo.Update(w.snapshot, w.snapshot.Apply(changes), w.now)
}

// scratch is a new Memo that is given everything.
func (w *world) scratch() (*model.Model, []report.Finding) {
	m := New(w.options)
	return m.Update(w.snapshot, everything(w.snapshot), w.now), m.Report()
}

// equalsScratch fails where the model is not that from scratch.
func (w *world) equalsScratch() {
	w.t.Helper()
	fresh, _ := w.scratch()
	if diff := same(fresh, w.model); diff != "" {
		w.t.Errorf("differs from scratch (-scratch +incremental)\n%s", diff)
	}
}

func everything(s *snapshot.Snapshot) []snapshot.Key {
	var keys []snapshot.Key
	for _, kind := range []snapshot.Kind{snapshot.ConfigMap, snapshot.Ingress, snapshot.IngressClass, snapshot.Service, snapshot.EndpointSlice, snapshot.Secret,
		snapshot.GatewayClass, snapshot.Gateway, snapshot.HTTPRoute, snapshot.GRPCRoute, snapshot.TLSRoute, snapshot.TCPRoute, snapshot.UDPRoute,
		snapshot.ListenerSet, snapshot.ReferenceGrant, snapshot.BackendTLSPolicy} {
		keys = append(keys, s.Keys(kind)...)
	}
	return keys
}

// secretObject names the data of a Secret, which carries no metadata itself.
type secretObject struct {
	key  snapshot.Key
	data *snapshot.SecretData
}

func bare(object any) any {
	if secret, ok := object.(secretObject); ok {
		return secret.data
	}
	return object
}

func keyOf(object any) snapshot.Key {
	switch o := object.(type) {
	case *networkingv1.Ingress:
		return snapshot.Key{Kind: snapshot.Ingress, Namespace: o.Namespace, Name: o.Name}
	case *networkingv1.IngressClass:
		return snapshot.Key{Kind: snapshot.IngressClass, Name: o.Name}
	case *corev1.Service:
		return snapshot.Key{Kind: snapshot.Service, Namespace: o.Namespace, Name: o.Name}
	case *discoveryv1.EndpointSlice:
		return snapshot.Key{Kind: snapshot.EndpointSlice, Namespace: o.Namespace, Name: o.Name}
	case *corev1.ConfigMap:
		return snapshot.Key{Kind: snapshot.ConfigMap, Namespace: o.Namespace, Name: o.Name}
	case secretObject:
		return o.key
	case *gatewayv1.GatewayClass:
		return snapshot.Key{Kind: snapshot.GatewayClass, Name: o.Name}
	case *gatewayv1.Gateway:
		return snapshot.Key{Kind: snapshot.Gateway, Namespace: o.Namespace, Name: o.Name}
	case *gatewayv1.HTTPRoute:
		return snapshot.Key{Kind: snapshot.HTTPRoute, Namespace: o.Namespace, Name: o.Name}
	case *gatewayv1.BackendTLSPolicy:
		return snapshot.Key{Kind: snapshot.BackendTLSPolicy, Namespace: o.Namespace, Name: o.Name}
	case *gatewayv1.UDPRoute:
		return snapshot.Key{Kind: snapshot.UDPRoute, Namespace: o.Namespace, Name: o.Name}
	case *gatewayv1.GRPCRoute:
		return snapshot.Key{Kind: snapshot.GRPCRoute, Namespace: o.Namespace, Name: o.Name}
	case *gatewayv1.TLSRoute:
		return snapshot.Key{Kind: snapshot.TLSRoute, Namespace: o.Namespace, Name: o.Name}
	case *gatewayv1.TCPRoute:
		return snapshot.Key{Kind: snapshot.TCPRoute, Namespace: o.Namespace, Name: o.Name}
	case *gatewayv1.ListenerSet:
		return snapshot.Key{Kind: snapshot.ListenerSet, Namespace: o.Namespace, Name: o.Name}
	case *gatewayv1.ReferenceGrant:
		return snapshot.Key{Kind: snapshot.ReferenceGrant, Namespace: o.Namespace, Name: o.Name}
	}
	panic(fmt.Sprintf("no key for %T", object))
}

// ing is an Ingress of namespace a; spec is a list of words: "host/path>service",
// "tls:host=secret", "key=value" for an annotation, "age:N" for seconds after start.
func ing(name string, spec ...string) *networkingv1.Ingress {
	i := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, Annotations: map[string]string{}}}
	i.Spec.IngressClassName = new("sluice")
	for _, word := range spec {
		switch {
		case strings.HasPrefix(word, "age:"):
			i.CreationTimestamp = metav1.NewTime(start.Add(time.Duration(len(word)) * time.Second))
		case strings.HasPrefix(word, "tls:"):
			host, secret, _ := strings.Cut(word[4:], "=")
			i.Spec.TLS = append(i.Spec.TLS, networkingv1.IngressTLS{Hosts: []string{host}, SecretName: secret})
		case strings.Contains(word, ">"):
			where, service, _ := strings.Cut(word, ">")
			host, path, _ := strings.Cut(where, "/")
			i.Spec.Rules = append(i.Spec.Rules, rule(host, "/"+path, networkingv1.PathTypePrefix, service))
		default:
			key, text, _ := strings.Cut(word, "=")
			i.Annotations[annotation+key] = text
		}
	}
	return i
}

func rule(host, path string, pathType networkingv1.PathType, service string) networkingv1.IngressRule {
	return networkingv1.IngressRule{Host: host, IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
		Paths: []networkingv1.HTTPIngressPath{{Path: path, PathType: &pathType, Backend: *backendOf(service)}},
	}}}
}

func backendOf(service string) *networkingv1.IngressBackend {
	return &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: service, Port: networkingv1.ServiceBackendPort{Number: 80}}}
}

func class(name, controller string) *networkingv1.IngressClass {
	return &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.IngressClassSpec{Controller: controller}}
}

func service(name string, annotations ...string) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, Annotations: map[string]string{}}}
	s.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80}}
	for _, word := range annotations {
		key, text, _ := strings.Cut(word, "=")
		s.Annotations[annotation+key] = text
	}
	return s
}

func endpoints(name, service string, addresses ...string) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4, ObjectMeta: metav1.ObjectMeta{
		Namespace: "a", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: service},
	}}
	slice.Ports = []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080))}}
	for _, address := range addresses {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{address}})
	}
	return slice
}

func configMap(name string, data ...string) *corev1.ConfigMap {
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ownNamespace, Name: name}, Data: map[string]string{}}
	for _, word := range data {
		key, text, _ := strings.Cut(word, "=")
		c.Data[key] = text
	}
	return c
}

func secret(name string, data map[string]string) secretObject {
	s := &snapshot.SecretData{Data: map[string]model.Secret{}}
	for key, text := range data {
		s.Data[key] = model.NewSecret([]byte(text))
	}
	return secretObject{snapshot.Key{Kind: snapshot.Secret, Namespace: "a", Name: name}, s}
}

// newPair is a certificate with its key, as a Secret holds them.
func newPair(t testing.TB, notAfter time.Time, hosts ...string) map[string]string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: hosts[0]}, DNSNames: hosts,
		NotBefore: start.AddDate(0, 0, -1), NotAfter: notAfter,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{
		"tls.crt": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		"tls.key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})),
	}
}

// backend is the backend that a path leads to, nil if there is none.
func (w *world) backend(key string) *model.Backend {
	for _, table := range []int{tableExact, tablePrefix} {
		if name, ok := w.model.Tables[table].Lookup(key); ok {
			if b := w.model.Backends.Lookup(name); b != nil {
				return b
			}
			w.t.Fatalf("%s leads to backend %s, which does not exist", key, name)
		}
	}
	return nil
}

// codes are the findings in short: code, object and field.
func (w *world) codes() []string {
	var codes []string
	for _, f := range w.memo.Report() {
		codes = append(codes, string(f.Code)+" "+f.Object.String())
	}
	return codes
}

func (w *world) has(code string) bool {
	return slices.ContainsFunc(w.codes(), func(s string) bool { return strings.HasPrefix(s, code) })
}

// same compares models in depth.
func same(a, b *model.Model) string {
	all := func(m *model.Model) (list []*model.Backend) {
		for b := range m.Backends.All {
			list = append(list, b)
		}
		return list
	}
	comparers := cmp.Options{
		cmp.Comparer(func(a, b model.Secret) bool { return a.Reveal() == b.Reveal() }),
		cmp.Comparer(func(a, b *model.Backends) bool { return true }), // compared below
		cmp.Comparer(func(a, b model.Server) bool { return a == b }),
		cmp.Transformer("entries", func(t *model.Table) []model.Entry { return slices.Collect(t.All) }),
		cmpopts.EquateEmpty(),
	}
	if diff := cmp.Diff(a, b, comparers); diff != "" {
		return diff
	}
	for i := range model.Buckets {
		one, other := a.Backends.Bucket(i), b.Backends.Bucket(i)
		if (one == nil) != (other == nil) || one != nil && one.Digest != other.Digest {
			return fmt.Sprintf("bucket %d differs", i)
		}
	}
	return cmp.Diff(all(a), all(b), comparers)
}
