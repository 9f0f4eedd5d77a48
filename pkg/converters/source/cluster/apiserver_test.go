package cluster

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// object is what the API server of a test holds.
type object interface {
	metav1.Object
	runtime.Object
}

// event is one change, as watches tell it.
type event struct {
	version  int
	resource string
	kind     string // ADDED, MODIFIED, DELETED
	object   object
}

// apiServer answers list, watch and get as an API server does, in JSON.
type apiServer struct {
	t    *testing.T
	http *httptest.Server

	mu        sync.Mutex
	version   int
	expired   int // versions up to this one are gone
	objects   map[string]map[string]object
	events    []event
	news      chan struct{} // closed at each change
	requests  chan struct{} // closed at each request
	refused   map[string]bool
	noStreams bool           // as a server that does not know sendInitialEvents
	asked     map[string]int // requests by "verb resource"
	gate      chan struct{}  // holds GETs while it is open; nil: none
	crds      []string       // resources of the Gateway API that are served
	gets      int            // under way
	mostGets  int
}

func newAPIServer(t *testing.T) *apiServer {
	a := &apiServer{
		t: t, objects: map[string]map[string]object{}, news: make(chan struct{}), requests: make(chan struct{}), refused: map[string]bool{}, asked: map[string]int{},
	}
	a.http = httptest.NewServer(a)
	t.Cleanup(func() { a.http.CloseClientConnections(); a.http.Close() })
	return a
}

func resourceFor(o runtime.Object) string {
	switch o.(type) {
	case *networkingv1.Ingress:
		return "ingresses"
	case *networkingv1.IngressClass:
		return "ingressclasses"
	case *corev1.Service:
		return "services"
	case *discoveryv1.EndpointSlice:
		return "endpointslices"
	case *corev1.Secret:
		return "secrets"
	case *corev1.ConfigMap:
		return "configmaps"
	case *corev1.Namespace:
		return "namespaces"
	case *gatewayv1.GatewayClass:
		return "gatewayclasses"
	case *gatewayv1.Gateway:
		return "gateways"
	case *gatewayv1.HTTPRoute:
		return "httproutes"
	}
	panic(fmt.Sprintf("no resource for %T", o))
}

var apiVersions = map[string][2]string{
	"ingresses":      {"networking.k8s.io/v1", "Ingress"},
	"ingressclasses": {"networking.k8s.io/v1", "IngressClass"},
	"services":       {"v1", "Service"},
	"endpointslices": {"discovery.k8s.io/v1", "EndpointSlice"},
	"secrets":        {"v1", "Secret"},
	"configmaps":     {"v1", "ConfigMap"},
	"namespaces":     {"v1", "Namespace"},
	"gatewayclasses": {"gateway.networking.k8s.io/v1", "GatewayClass"},
	"gateways":       {"gateway.networking.k8s.io/v1", "Gateway"},
	"httproutes":     {"gateway.networking.k8s.io/v1", "HTTPRoute"},
}

// put creates objects, or updates them.
func (a *apiServer) put(objects ...object) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, o := range objects {
		o = o.DeepCopyObject().(object)
		resource := resourceFor(o)
		name, kind := o.GetNamespace()+"/"+o.GetName(), "ADDED"
		if a.objects[resource] == nil {
			a.objects[resource] = map[string]object{}
		}
		if _, known := a.objects[resource][name]; known {
			kind = "MODIFIED"
		}
		a.objects[resource][name] = o
		a.tell(resource, kind, o)
	}
}

func (a *apiServer) remove(objects ...object) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, o := range objects {
		resource := resourceFor(o)
		delete(a.objects[resource], o.GetNamespace()+"/"+o.GetName())
		a.tell(resource, "DELETED", o.DeepCopyObject().(object))
	}
}

func (a *apiServer) tell(resource, kind string, o object) {
	a.version++
	o.SetResourceVersion(strconv.Itoa(a.version))
	a.events = append(a.events, event{a.version, resource, kind, o})
	close(a.news)
	a.news = make(chan struct{})
}

// expire ends all watches with 410 Gone.
func (a *apiServer) expire() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version++
	a.expired = a.version
	close(a.news)
	a.news = make(chan struct{})
}

// refuse forbids, or allows, what a list of "verb resource" names.
func (a *apiServer) refuse(refused bool, what ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range what {
		a.refused[w] = refused
	}
}

func (a *apiServer) count(what string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked[what]
}

// await waits until so many requests were made.
func (a *apiServer) await(what string, n int) {
	a.t.Helper()
	for tooLate := time.After(patience); ; {
		a.mu.Lock()
		have, requests := a.asked[what], a.requests
		a.mu.Unlock()
		if have >= n {
			return
		}
		select {
		case <-requests:
		case <-tooLate:
			a.t.Fatalf("%d times %q, want %d", have, what, n)
		}
	}
}

func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if len(path) == 3 && path[0] == "apis" {
		a.discover(w)
		return
	}
	path = path[2:] // api/v1
	if strings.HasPrefix(r.URL.Path, "/apis/") {
		path = path[1:]
	}
	namespace := ""
	if path[0] == "namespaces" && len(path) > 2 {
		namespace, path = path[1], path[2:]
	}
	query, verb := r.URL.Query(), "list"
	switch {
	case len(path) > 1:
		verb = "get"
	case query.Get("watch") != "":
		verb = "watch"
	}
	q := request{
		resource: path[0], namespace: namespace, meta: strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata"),
		field: strings.TrimPrefix(query.Get("fieldSelector"), "metadata.name="), label: query.Get("labelSelector"),
	}
	a.mu.Lock()
	a.note(verb + " " + path[0])
	refused, noStreams := a.refused[verb+" "+path[0]] || a.refused[verb+" "+path[0]+" in "+namespace], a.noStreams
	a.mu.Unlock()
	switch {
	case strings.Contains(r.URL.Path, gatewayv1.GroupName) && !a.serves(path[0]):
		fail(w, http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource")
	case refused:
		fail(w, http.StatusForbidden, metav1.StatusReasonForbidden, path[0]+" is forbidden")
	case verb == "get":
		a.get(w, r, q, path[1])
	case verb == "list":
		a.list(w, q)
	case noStreams && query.Get("sendInitialEvents") != "":
		fail(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "sendInitialEvents is forbidden")
	default:
		since, _ := strconv.Atoi(query.Get("resourceVersion"))
		a.watch(w, r, q, since, query.Get("sendInitialEvents") == "true")
	}
}

// note counts a request. The lock is held.
func (a *apiServer) note(what string) {
	a.asked[what]++
	close(a.requests)
	a.requests = make(chan struct{})
}

// install replaces the resources of the Gateway API that are served.
func (a *apiServer) install(resources ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.crds = resources
}

func (a *apiServer) serves(resource string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Contains(a.crds, resource)
}

// discover tells what is served of the Gateway API.
func (a *apiServer) discover(w http.ResponseWriter) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.note("discover")
	switch {
	case a.refused["discover"]:
		fail(w, http.StatusForbidden, metav1.StatusReasonForbidden, "no role")
		return
	case len(a.crds) == 0:
		http.NotFound(w, nil)
		return
	}
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: gatewayv1.GroupVersion.String()}
	for _, name := range a.crds {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: name, Kind: apiVersions[name][1], Verbs: metav1.Verbs{"list", "watch"}})
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(list)
}

func fail(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(status(code, reason, message))
}

func status(code int, reason metav1.StatusReason, message string) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	}
}

// request says what of a resource is asked for.
type request struct {
	resource, namespace string
	field, label        string
	meta                bool // metadata only
}

func (q request) holds(o object) bool {
	name, value, _ := strings.Cut(q.label, "=")
	return (q.namespace == "" || q.namespace == o.GetNamespace()) && (q.field == "" || q.field == o.GetName()) &&
		(q.label == "" || o.GetLabels()[name] == value)
}

// shown is an object as the answer holds it.
func (q request) shown(o object) runtime.Object {
	if !q.meta {
		o = o.DeepCopyObject().(object)
		o.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(apiVersions[q.resource][0], apiVersions[q.resource][1]))
		return o
	}
	partial := meta.AsPartialObjectMetadata(o)
	partial.TypeMeta = metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}
	return partial
}

func (a *apiServer) get(w http.ResponseWriter, r *http.Request, q request, name string) {
	a.mu.Lock()
	gate := a.gate
	a.gets++
	a.mostGets = max(a.mostGets, a.gets)
	a.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-r.Context().Done():
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.gets--
	o := a.objects[q.resource][q.namespace+"/"+name]
	if o == nil {
		fail(w, http.StatusNotFound, metav1.StatusReasonNotFound, name+" not found")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(q.shown(o))
}

// sorted are the objects that a request asks for.
func (a *apiServer) sorted(q request) []object {
	var list []object
	for _, name := range slices.Sorted(maps.Keys(a.objects[q.resource])) {
		if o := a.objects[q.resource][name]; q.holds(o) {
			list = append(list, o)
		}
	}
	return list
}

func (a *apiServer) list(w http.ResponseWriter, q request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	items := []runtime.Object{}
	for _, o := range a.sorted(q) {
		items = append(items, q.shown(o))
	}
	kind := metav1.TypeMeta{APIVersion: apiVersions[q.resource][0], Kind: apiVersions[q.resource][1] + "List"}
	if q.meta {
		kind = metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"apiVersion": kind.APIVersion, "kind": kind.Kind, "metadata": map[string]string{"resourceVersion": strconv.Itoa(a.version)}, "items": items,
	})
}

// watch streams events, the objects that there are before them if it is asked to.
func (a *apiServer) watch(w http.ResponseWriter, r *http.Request, q request, since int, initial bool) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	encoder := json.NewEncoder(w)
	send := func(kind string, o runtime.Object) { _ = encoder.Encode(map[string]any{"type": kind, "object": o}) }
	a.mu.Lock()
	if initial {
		for _, o := range a.sorted(q) {
			send("ADDED", q.shown(o))
		}
		end := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			ResourceVersion: strconv.Itoa(a.version), Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
		}}
		end.TypeMeta = metav1.TypeMeta{APIVersion: apiVersions[q.resource][0], Kind: apiVersions[q.resource][1]}
		if q.meta {
			end.TypeMeta = metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}
		}
		send("BOOKMARK", end)
		since = a.version
	}
	a.mu.Unlock()
	for r.Context().Err() == nil {
		a.mu.Lock()
		if since < a.expired {
			a.mu.Unlock()
			send("ERROR", status(http.StatusGone, metav1.StatusReasonExpired, "too old resource version"))
			return
		}
		for _, e := range a.events {
			if e.version > since && e.resource == q.resource && q.holds(e.object) {
				send(e.kind, q.shown(e.object))
			}
		}
		since = a.version
		news := a.news
		a.mu.Unlock()
		_ = http.NewResponseController(w).Flush()
		select {
		case <-news:
		case <-r.Context().Done():
		}
	}
}
