package cluster

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
)

// all is one object of each kind.
func all() []object {
	return []object{
		ingress("a", "a.example"), class("sluice"), service("a"), endpointSlice("a-1", "a", "10.0.0.1"), secret("a", "one"), configMap("a", "1s"),
	}
}

func TestFirstBatchHoldsEverything(t *testing.T) {
	for name, noStreams := range map[string]bool{"the server streams lists": false, "the server lists": true} {
		t.Run(name, func(t *testing.T) {
			server := newAPIServer(t)
			server.noStreams = noStreams
			server.put(all()...)
			w := follow(t, server, nil)
			w.next()
			if !w.last.Synced || len(w.last.Findings) > 0 || w.last.Trouble != "" {
				t.Errorf("synced %v, findings %v, trouble %q", w.last.Synced, w.last.Findings, w.last.Trouble)
			}
			for _, k := range []snapshot.Key{key(snapshot.Ingress, "a"), key(snapshot.IngressClass, "sluice"), key(snapshot.Service, "a"), key(snapshot.EndpointSlice, "a-1")} {
				if w.snapshot.Object(k) == nil {
					t.Errorf("%s is missing", k)
				}
			}
			if n := w.snapshot.Len(snapshot.Secret) + w.snapshot.Len(snapshot.ConfigMap); n > 0 || server.count("get secrets") > 0 {
				t.Errorf("%d Secrets and ConfigMaps are held though nobody looks them up", n)
			}
			if lists := server.count("list services"); (lists > 0) != noStreams {
				t.Errorf("%d lists", lists)
			}
		})
	}
}

func TestChangesFollow(t *testing.T) {
	server := newAPIServer(t)
	server.put(all()...)
	w := follow(t, server, nil)
	w.synced()
	server.put(endpointSlice("a-1", "a", "10.0.0.2"), ingress("b", "b.example"))
	w.until(func() bool {
		slice := w.snapshot.Object(key(snapshot.EndpointSlice, "a-1")).(*discoveryv1.EndpointSlice)
		return slice.Endpoints[0].Addresses[0] == "10.0.0.2"
	})
	w.has(true, key(snapshot.Ingress, "b"))
	server.remove(ingress("a", ""), class("sluice"))
	w.has(false, key(snapshot.Ingress, "a"), key(snapshot.IngressClass, "sluice"))
}

func TestChangesMergeWhileTheLoopIsBusy(t *testing.T) {
	s := New(configFor(t, "http://127.0.0.1:1"))
	next := &outbox{}
	for _, w := range s.watches {
		w.sink.listed = true
	}
	ingresses, services := s.watches[0].sink, s.watches[2].sink
	for i := range 10 {
		a, b := service("a"), ingress("a", strings.Repeat("a", i+1))
		a.ResourceVersion, b.ResourceVersion = fmt.Sprint(i), fmt.Sprint(i)
		a.Spec.Ports[0].Port = int32(i + 1)
		_, _ = services.Add(a), ingresses.Add(b)
		s.collect(next)
	}
	_ = ingresses.Delete(ingress("a", ""))
	s.collect(next)
	changes := next.batch.Changes
	if len(changes) != 2 || changes[0].Object.(*corev1.Service).Spec.Ports[0].Port != 10 || changes[1].Object != nil {
		t.Errorf("21 events came as %+v", changes)
	}
	next.sent()
	if s.collect(next); next.full {
		t.Errorf("a batch says nothing new: %+v", next.batch)
	}
}

func TestWhatIsNotReadIsNoChange(t *testing.T) {
	server := newAPIServer(t)
	server.put(all()...)
	w := follow(t, server, nil)
	w.synced()
	w.seen = nil
	touched := ingress("a", "a.example")
	touched.ManagedFields = nil
	slice := endpointSlice("a-1", "a", "10.0.0.1")
	slice.Annotations[corev1.EndpointsLastChangeTriggerTime] = "now"
	svc := service("a")
	svc.Labels["team"] = "b"
	server.put(touched, slice, svc, endpointSlice("end", "a"), ingress("end", ""))
	w.has(true, key(snapshot.Ingress, "end"), key(snapshot.EndpointSlice, "end"))
	w.barrier("end")
	if len(w.seen) != 3 {
		t.Errorf("changes of nothing: %s", changedKeys(w.seen))
	}
}

func TestRelistSendsTheDifference(t *testing.T) {
	for name, noStreams := range map[string]bool{"the server streams lists": false, "the server lists": true} {
		t.Run(name, func(t *testing.T) {
			server := newAPIServer(t)
			server.noStreams = noStreams
			server.put(all()...)
			server.put(service("gone"), service("changed"))
			w := follow(t, server, nil)
			w.synced()
			w.Want([]snapshot.Key{key(snapshot.Secret, "a")}, nil)
			w.has(true, key(snapshot.Secret, "a"))
			w.seen = nil

			// What happens between the end of the watches and the relists is in no event.
			changed := service("changed")
			changed.Spec.Ports[0].Port = 81
			server.mu.Lock()
			server.version += 10
			delete(server.objects["services"], "shop/gone")
			changed.ResourceVersion = "1000"
			server.objects["services"]["shop/changed"] = changed
			server.mu.Unlock()
			server.expire()

			w.has(false, key(snapshot.Service, "gone"))
			w.barrier("end")
			server.put(ingress("end", ""), endpointSlice("end", "a"), class("end"))
			w.has(true, key(snapshot.Ingress, "end"), key(snapshot.EndpointSlice, "end"), key(snapshot.IngressClass, "end"))
			if len(w.seen) != 6 || w.snapshot.Object(key(snapshot.Service, "changed")).(*corev1.Service).Spec.Ports[0].Port != 81 {
				t.Errorf("changes: %s", changedKeys(w.seen))
			}
			if n := server.count("get secrets"); n != 1 {
				t.Errorf("the Secret was read %d times", n)
			}
		})
	}
}

func TestObjectsAreTrimmed(t *testing.T) {
	server := newAPIServer(t)
	server.put(all()...)
	w := follow(t, server, nil)
	w.synced()
	for _, c := range w.seen {
		text, err := json.Marshal(c.Object)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{"managedFields", corev1.LastAppliedConfigAnnotation, "selector", "team", "nodeName", "zone", `"pod"`} {
			if strings.Contains(string(text), word) {
				t.Errorf("%s holds %s: %s", c.Key, word, text)
			}
		}
		if c.Key.Kind != snapshot.EndpointSlice && !strings.Contains(string(text), "kept") {
			t.Errorf("%s lost its annotations: %s", c.Key, text)
		}
	}
	slice := w.snapshot.Object(key(snapshot.EndpointSlice, "a-1")).(*discoveryv1.EndpointSlice)
	if slice.Endpoints[0].TargetRef.UID != "7d1f" || slice.Labels[discoveryv1.LabelServiceName] != "a" {
		t.Errorf("%+v", slice)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, watched := range w.watches {
		for name, object := range watched.sink.objects {
			if w.snapshot.Object(watched.sink.key(name)) != object {
				t.Errorf("%s is held twice", name)
			}
		}
	}
}

func TestWatchNamespaces(t *testing.T) {
	server := newAPIServer(t)
	server.put(service("shop/a"), service("blog/a"), service("other/a"), service("system/web"), service("system/other"))
	server.put(endpointSlice("system/web-1", "web"), endpointSlice("system/other-1", "other"), ingress("other/a", ""), ingress("blog/a", ""))
	server.put(service("edge/published"), endpointSlice("edge/published-1", "published"))
	server.put(configMap("system/sluice", "1s"), secret("tls/default", "x"), secret("tls/other", "x"), secret("other/a", "x"), class("sluice"))
	server.refuse(true, "list endpointslices in edge", "watch endpointslices in edge")
	for _, resource := range []string{"ingresses", "services", "endpointslices", "secrets", "configmaps"} {
		server.refuse(true, "list "+resource+" in ", "watch "+resource+" in ")
	}
	elsewhere := []snapshot.Key{
		key(snapshot.ConfigMap, "system/sluice"), key(snapshot.Secret, "tls/default"), key(snapshot.ConfigMap, "shop/x"),
		key(snapshot.Service, "system/web"), key(snapshot.EndpointSlice, "system/web"), key(snapshot.Service, "edge/published"),
	}
	w := follow(t, server, func(c *Config) { c.Namespaces, c.Elsewhere = []string{"blog", "shop"}, elsewhere })
	w.synced()
	if got := changedKeys(w.seen); len(w.seen) != 7 || strings.Contains(got, "other") || len(w.last.Findings) > 0 {
		t.Errorf("read: %s, findings %v", got, w.last.Findings)
	}
	pending := w.Want([]snapshot.Key{key(snapshot.ConfigMap, "system/sluice"), key(snapshot.Secret, "tls/default"), key(snapshot.Secret, "tls/other"), key(snapshot.Secret, "other/a")}, nil)
	if len(pending) != 2 {
		t.Errorf("pending: %v", pending)
	}
	w.has(true, pending...)
}

func TestClassStandsInWhereClassesAreForbidden(t *testing.T) {
	server := newAPIServer(t)
	server.put(class("real"))
	server.refuse(true, "list ingressclasses", "watch ingressclasses")
	w := follow(t, server, func(c *Config) {
		c.Class = &networkingv1.IngressClass{ObjectMeta: metaOf("sluice")}
		c.Class.Namespace = ""
	})
	w.synced()
	if w.snapshot.Object(key(snapshot.IngressClass, "sluice")) == nil || len(w.last.Findings) != 1 || w.last.Trouble != "" {
		t.Fatalf("findings %v, trouble %q", w.last.Findings, w.last.Trouble)
	}
	text := w.last.Findings[0].String()
	if w.last.Findings[0].Code != report.AccessDenied || !strings.Contains(text, `apiGroups ["networking.k8s.io"], resources [ingressclasses], verbs [get, list, watch]`) {
		t.Errorf("finding %s", text)
	}
	server.refuse(false, "list ingressclasses", "watch ingressclasses")
	w.has(true, key(snapshot.IngressClass, "real"))
	w.has(false, key(snapshot.IngressClass, "sluice"))
	w.until(func() bool { return len(w.last.Findings) == 0 })
}

// TestChangesThatWaitAreMerged: while a kind keeps the first batch from coming, the changes of
// others are held once for each object.
func TestChangesThatWaitAreMerged(t *testing.T) {
	s := New(configFor(t, "http://127.0.0.1:1"))
	for range 1000 {
		s.emit(key(snapshot.Service, "a"), service("a"))
		s.emit(key(snapshot.Service, "b"), service("b"))
	}
	s.emit(key(snapshot.Service, "a"), nil)
	if got := s.changes.list; len(got) != 2 || got[0].Object != nil || got[1].Object == nil {
		t.Errorf("%d changes wait: %s", len(got), changedKeys(got[:min(len(got), 5)]))
	}
}
