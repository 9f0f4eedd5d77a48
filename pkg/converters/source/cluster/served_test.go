package cluster

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayclient "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
)

// withGateway has a Source follow the Gateway API.
func withGateway(t *testing.T, server *apiServer) func(*Config) {
	t.Helper()
	api, err := gatewayclient.NewForConfig(&rest.Config{Host: server.http.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	return func(c *Config) { c.Gateway = api }
}

func gatewayClass(name string) *gatewayv1.GatewayClass {
	return &gatewayv1.GatewayClass{ObjectMeta: clusterMeta(name), Spec: gatewayv1.GatewayClassSpec{ControllerName: "x/y"}}
}

func clusterMeta(name string) metav1.ObjectMeta {
	meta := metaOf(name)
	meta.Namespace = ""
	return meta
}

func gateway(name string) *gatewayv1.Gateway {
	return &gatewayv1.Gateway{
		ObjectMeta: metaOf(name), Spec: gatewayv1.GatewaySpec{GatewayClassName: "sluice"},
		Status: gatewayv1.GatewayStatus{Conditions: []metav1.Condition{{Type: "example.com/Checked", Status: metav1.ConditionTrue}}},
	}
}

func route(name string) *gatewayv1.HTTPRoute {
	return &gatewayv1.HTTPRoute{ObjectMeta: metaOf(name), Spec: gatewayv1.HTTPRouteSpec{Hostnames: []gatewayv1.Hostname{gatewayv1.Hostname(name)}}}
}

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: clusterMeta(name)}
}

// served is a Gateway API without most of its kinds.
func served() []string { return []string{"gatewayclasses", "gateways", "httproutes"} }

// gatewayKeys are those of the objects of putGateway.
func gatewayKeys() []snapshot.Key {
	return []snapshot.Key{key(snapshot.GatewayClass, "sluice"), key(snapshot.Gateway, "a"), key(snapshot.HTTPRoute, "a"), key(snapshot.Namespace, "shop")}
}

func putGateway(server *apiServer) {
	server.put(gatewayClass("sluice"), gateway("a"), route("a"), namespace("shop"))
}

// TestGatewayAPIAtStart: the first batch holds its objects, or HAProxy would lose their
// routes for a moment when sluice is started again.
func TestGatewayAPIAtStart(t *testing.T) {
	server := newAPIServer(t)
	server.install(served()...)
	server.put(all()...)
	putGateway(server)
	w := follow(t, server, withGateway(t, server))
	w.next()
	if !w.last.Synced || len(w.last.Findings) > 0 || w.last.Trouble != "" {
		t.Errorf("synced %v, findings %v, trouble %q", w.last.Synced, w.last.Findings, w.last.Trouble)
	}
	for _, k := range gatewayKeys() {
		if w.snapshot.Object(k) == nil {
			t.Errorf("%s is missing", k)
		}
	}
	for _, c := range w.seen {
		text, err := json.Marshal(c.Object)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "managedFields") || strings.Contains(string(text), corev1.LastAppliedConfigAnnotation) || strings.Contains(string(text), "apiVersion") {
			t.Errorf("%s is not trimmed: %s", c.Key, text)
		}
	}
	if n := server.count("list udproutes") + server.count("watch udproutes"); n > 0 {
		t.Errorf("a kind that is not served was asked for %d times", n)
	}
	if labels := w.snapshot.Object(key(snapshot.Namespace, "shop")).(*corev1.Namespace).Labels; labels["team"] != "a" {
		t.Errorf("labels of the Namespace: %v", labels)
	}
	if status := w.snapshot.Object(key(snapshot.Gateway, "a")).(*gatewayv1.Gateway).Status; len(status.Conditions) != 1 {
		t.Errorf("the status is not kept: %+v", status)
	}
}

// TestGatewayAPIComesAndGoes: without CRDs all else works; they are found when they are
// installed, and what was there is gone when they are removed.
func TestGatewayAPIComesAndGoes(t *testing.T) {
	server := newAPIServer(t)
	server.put(all()...)
	w := follow(t, server, withGateway(t, server))
	w.next()
	if !w.last.Synced || w.last.Trouble != "" || w.snapshot.Object(key(snapshot.Ingress, "a")) == nil {
		t.Fatalf("synced %v, trouble %q", w.last.Synced, w.last.Trouble)
	}
	putGateway(server)
	server.install(served()...)
	w.has(true, gatewayKeys()...)

	server.install("gatewayclasses", "gateways")
	w.has(false, key(snapshot.HTTPRoute, "a"))
	w.has(true, key(snapshot.Gateway, "a"))

	server.install()
	w.has(false, gatewayKeys()...)
	w.until(func() bool { return w.last.Trouble == "" })

	server.install(served()...)
	w.has(true, gatewayKeys()...)
	server.put(route("b"))
	w.has(true, key(snapshot.HTTPRoute, "b"))
	w.barrier("end")
}

// TestAnAnswerIsNoProof: an API server that starts may not know its CRDs for a moment.
func TestAnAnswerIsNoProof(t *testing.T) {
	server := newAPIServer(t)
	server.install(served()...)
	config := configFor(t, server.http.URL)
	withGateway(t, server)(&config)
	s := New(config)
	for _, w := range s.watches {
		w.stop = func() {}
	}
	known := map[string]bool{"gatewayclasses": true, "gateways": true, "httproutes": true}
	for i, answer := range []struct {
		served map[string]bool
		gone   bool
	}{{known, false}, {nil, false}, {nil, false}, {known, false}, {nil, false}, {nil, false}, {nil, true}} {
		gone := s.compare(answer.served, nil)
		routes := slices.ContainsFunc(gone, func(w *watched) bool { return w.kind.name == snapshot.HTTPRoute })
		if routes != answer.gone {
			t.Errorf("answer %d: HTTPRoutes are given up: %v", i, routes)
		}
	}
}

// TestGatewayAPIWithoutRights: what may not be read is a finding, and no reason to wait.
func TestGatewayAPIWithoutRights(t *testing.T) {
	server := newAPIServer(t)
	server.install(served()...)
	putGateway(server)
	server.refuse(true, "list httproutes", "watch httproutes", "list namespaces", "watch namespaces")
	w := follow(t, server, withGateway(t, server))
	w.synced()
	w.until(func() bool { return len(w.last.Findings) == 2 })
	w.has(true, key(snapshot.Gateway, "a"))
	for i, want := range []string{"resources [httproutes]", "resources [namespaces]"} {
		f := w.last.Findings[i]
		if f.Code != report.AccessDenied || !strings.Contains(f.Message, want) {
			t.Errorf("finding %s, want %s", f, want)
		}
	}
	server.refuse(false, "list httproutes", "watch httproutes", "list namespaces", "watch namespaces")
	w.has(true, gatewayKeys()...)
	w.until(func() bool { return len(w.last.Findings) == 0 })
}

// TestDiscoveryWithoutRights: then there is no Gateway API.
func TestDiscoveryWithoutRights(t *testing.T) {
	server := newAPIServer(t)
	server.install(served()...)
	server.put(all()...)
	putGateway(server)
	server.refuse(true, "discover")
	w := follow(t, server, withGateway(t, server))
	w.synced()
	if len(w.last.Findings) != 1 || !strings.Contains(w.last.Findings[0].Message, "system:discovery") || slices.ContainsFunc(gatewayKeys(), func(k snapshot.Key) bool { return w.snapshot.Object(k) != nil }) {
		t.Errorf("findings %v, objects %s", w.last.Findings, changedKeys(w.seen))
	}
	server.refuse(false, "discover")
	w.has(true, gatewayKeys()...)
	w.until(func() bool { return len(w.last.Findings) == 0 })
}

// TestDiscoveryBacksOff: an API server that fails is not asked ten times a second.
func TestDiscoveryBacksOff(t *testing.T) {
	p := defaultPace()
	pause, fails := p.discoveries(), errors.New("no answer")
	for range 2 {
		if first := pause(fails); first > time.Second {
			t.Errorf("the first failure is asked about again after %v", first)
		}
		total := time.Duration(0)
		for range 20 {
			total += pause(fails)
		}
		if last := pause(fails); last < 10*time.Second || last > 20*time.Second || total < 2*time.Minute {
			t.Errorf("20 failures took %v, and the next one is asked about after %v", total, last)
		}
		if got := pause(nil); got != p.discover {
			t.Errorf("an answer: %v", got)
		}
	}
	if got := pause(apierrors.NewForbidden(schema.GroupResource{}, "", fails)); got != p.discover {
		t.Errorf("without the right: %v", got)
	}
}
