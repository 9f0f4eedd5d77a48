package writer

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/gateway"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/converters/status"
)

// gatewayWorld is a world whose API server has objects of the Gateway API, and which notes
// the patches that reach it.
type gatewayWorld struct {
	*world
	dynamic *dynamicfake.FakeDynamicClient
	patches []string
}

func newGatewayWorld(t *testing.T, objects ...runtime.Object) *gatewayWorld {
	scheme := runtime.NewScheme()
	if err := gatewayv1.Install(scheme); err != nil {
		t.Fatal(err)
	}
	w := &gatewayWorld{world: newWorld(t, fake.NewClientset(), false), dynamic: dynamicfake.NewSimpleDynamicClient(scheme, objects...)}
	w.Dynamic = w.dynamic
	w.dynamic.PrependReactor("patch", "*", func(action kubetesting.Action) (bool, runtime.Object, error) {
		w.patches = append(w.patches, string(action.(kubetesting.PatchAction).GetPatch()))
		return false, nil, nil
	})
	return w
}

func routeKey(name string) snapshot.Key {
	return snapshot.Key{Kind: snapshot.HTTPRoute, Namespace: "a", Name: name}
}

func routeOf(name, version string, parents ...gatewayv1.RouteParentStatus) *gatewayv1.HTTPRoute {
	return &gatewayv1.HTTPRoute{
		TypeMeta:   metav1.TypeMeta{APIVersion: gatewayv1.GroupVersion.String(), Kind: "HTTPRoute"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, ResourceVersion: version, Generation: 2},
		Status:     gatewayv1.HTTPRouteStatus{RouteStatus: gatewayv1.RouteStatus{Parents: parents}},
	}
}

// parentOf is an entry with the condition Accepted; the conditions of others have a time.
func parentOf(controller string, accepted metav1.ConditionStatus) gatewayv1.RouteParentStatus {
	c := metav1.Condition{Type: "Accepted", Status: accepted, Reason: "Test", ObservedGeneration: 2}
	if controller != "us" {
		c.LastTransitionTime = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	}
	return gatewayv1.RouteParentStatus{ControllerName: gatewayv1.GatewayController(controller), ParentRef: gatewayv1.ParentReference{Name: "g"}, Conditions: []metav1.Condition{c}}
}

// routeItem is an item of a route as the source showed it.
func routeItem(shown *gatewayv1.HTTPRoute, parents ...gatewayv1.RouteParentStatus) status.Item {
	return status.Item{
		Object: routeKey(shown.Name), Controller: "us", Version: shown.ResourceVersion,
		Wanted:  status.Status{Gateway: gateway.Status{Parents: parents}, Withdrawn: len(parents) == 0},
		Present: status.Status{Gateway: status.Shown(shown)},
	}
}

// parents are the controllers with an entry in the status of a route, with their Accepted.
func (w *gatewayWorld) parents(name string) []string {
	w.t.Helper()
	object, err := w.dynamic.Resource(resourceOf(snapshot.HTTPRoute)).Namespace("a").Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	route := &gatewayv1.HTTPRoute{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, route); err != nil {
		w.t.Fatal(err)
	}
	var list []string
	for _, p := range route.Status.Parents {
		for _, c := range p.Conditions {
			list = append(list, fmt.Sprintf("%s %s=%s", p.ControllerName, c.Type, c.Status))
			if c.LastTransitionTime.IsZero() {
				w.t.Errorf("a condition without a time: %+v", c)
			}
		}
	}
	return list
}

func (w *gatewayWorld) hasParents(sentence string, want ...string) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.parents("x")); diff != "" {
		w.t.Errorf("%s: (-want +got)\n%s", sentence, diff)
	}
}

func TestEntriesOfOthersAreKept(t *testing.T) {
	route := routeOf("x", "7", parentOf("them", metav1.ConditionTrue))
	w := newGatewayWorld(t, route)
	w.run()
	w.Post([]status.Item{routeItem(route, parentOf("us", metav1.ConditionTrue))})
	expect(t, "our entry", w.wrote, "HTTPRoute ok")
	w.hasParents("both", "them Accepted=True", "us Accepted=True")
	var patch struct {
		Metadata struct{ ResourceVersion string }
		Status   struct{ Parents []any }
	}
	if err := json.Unmarshal([]byte(w.patches[0]), &patch); err != nil || len(w.patches) != 1 || patch.Metadata.ResourceVersion != "7" || len(patch.Status.Parents) != 2 {
		t.Errorf("patches %v, %v", w.patches, err)
	}

	w.Post([]status.Item{routeItem(routeOf("x", "8", parentOf("us", metav1.ConditionTrue), parentOf("them", metav1.ConditionTrue)))})
	expect(t, "it is taken away", w.wrote, "HTTPRoute ok")
	w.hasParents("theirs", "them Accepted=True")
	w.Post([]status.Item{routeItem(route)})
	w.idle("nothing of ours is there any more")
}

// TestConflict: somebody wrote meanwhile, so the object is read again and nothing of theirs
// is lost.
func TestConflict(t *testing.T) {
	shown := routeOf("x", "7")
	w := newGatewayWorld(t, routeOf("x", "8", parentOf("them", metav1.ConditionFalse)))
	conflicts := 2
	w.dynamic.PrependReactor("patch", "httproutes", func(kubetesting.Action) (bool, runtime.Object, error) {
		conflicts--
		return conflicts >= 0, nil, apierrors.NewConflict(schema.GroupResource{Resource: "httproutes"}, "x", fmt.Errorf("another version"))
	})
	w.run()
	w.Post([]status.Item{routeItem(shown, parentOf("us", metav1.ConditionTrue))})
	expect(t, "after two conflicts", w.wrote, "HTTPRoute ok")
	w.hasParents("both", "them Accepted=False", "us Accepted=True")

	if err := w.dynamic.Resource(resourceOf(snapshot.HTTPRoute)).Namespace("a").Delete(context.Background(), "x", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.Post([]status.Item{routeItem(shown, parentOf("us", metav1.ConditionFalse))})
	expect(t, "it is deleted meanwhile", w.wrote, "HTTPRoute gone")
}

// TestGatewayIsWrittenNowAndThen: a Gateway that changes with each route is written once in a
// while, and in its last form soon.
func TestGatewayIsWrittenNowAndThen(t *testing.T) {
	key := snapshot.Key{Kind: snapshot.Gateway, Namespace: "a", Name: "g"}
	object := &gatewayv1.Gateway{TypeMeta: metav1.TypeMeta{APIVersion: gatewayv1.GroupVersion.String(), Kind: "Gateway"}, ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "g"}}
	w := newGatewayWorld(t)
	// The client that is played takes "gatewaies" for their resource.
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.dynamic.Resource(resourceOf(snapshot.Gateway)).Namespace("a").Create(context.Background(), &unstructured.Unstructured{Object: content}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.run()
	const routes = 1000
	for i := range int32(routes) {
		wanted := &gatewayv1.GatewayStatus{Listeners: []gatewayv1.ListenerStatus{{Name: "http", AttachedRoutes: i + 1}}}
		w.Post([]status.Item{{Object: key, Controller: "us", Wanted: status.Status{Gateway: gateway.Status{Gateway: wanted}}, Present: status.Status{Gateway: status.Shown(object)}}})
	}
	attached := func() int64 {
		now, err := w.dynamic.Resource(resourceOf(snapshot.Gateway)).Namespace("a").Get(context.Background(), "g", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		typed := &gatewayv1.Gateway{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(now.Object, typed); err != nil || len(typed.Status.Listeners) != 1 {
			t.Fatalf("%v: %+v", err, typed.Status)
		}
		return int64(typed.Status.Listeners[0].AttachedRoutes)
	}
	writes := 0
	for last := int64(0); last != routes; last = attached() {
		expect(t, "the next form", w.wrote, "Gateway ok")
		writes++
	}
	if writes > 30 {
		t.Errorf("%d writes for %d routes", writes, routes)
	}
}

func TestPace(t *testing.T) {
	now, p, writes := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), pace{}, 0
	// A change each 20 ms for 20 s, as of a thousand routes that are created one by one.
	for end := now.Add(20 * time.Second); now.Before(end); writes++ {
		wait := p.wait(snapshot.Gateway, now)
		if wait > mostPause {
			t.Errorf("write %d waits %s", writes, wait)
		}
		now = now.Add(max(wait, 20*time.Millisecond))
		p = p.wrote(now)
	}
	if writes > 30 {
		t.Errorf("%d writes", writes)
	}
	if wait := p.wait(snapshot.HTTPRoute, now); wait != 0 {
		t.Errorf("a route waits %s", wait)
	}
	if wait := p.wait(snapshot.Gateway, now.Add(calm+1)); wait != 0 {
		t.Errorf("after a calm, a write waits %s", wait)
	}
}

func infrastructureItem(i *gateway.Infrastructure) status.Item {
	return status.Item{
		Object: snapshot.Key{Kind: snapshot.Gateway, Namespace: "a", Name: "g"}, Controller: "us",
		Wanted:  status.Status{Gateway: gateway.Status{Gateway: &gatewayv1.GatewayStatus{}, Infrastructure: i}},
		Present: status.Status{Gateway: gateway.Status{Gateway: &gatewayv1.GatewayStatus{}}},
	}
}

// TestInfrastructure: a Gateway's Service carries its labels and annotations, and loses them
// when they are wanted no more.
func TestInfrastructure(t *testing.T) {
	w := newGatewayWorld(t)
	w.run()
	services := w.client.CoreV1().Services("a")
	infrastructure := &gateway.Infrastructure{
		Labels: map[string]string{"key2": "value2"}, Annotations: map[string]string{"key1": "value1"}, UID: "7d1f", Ports: []gateway.ServicePort{{Port: 80}, {Port: 53, UDP: true}},
	}
	w.Post([]status.Item{infrastructureItem(infrastructure)})
	expect(t, "the Service is made", w.wrote, "Service ok")
	service, err := services.Get(context.Background(), "sluice-g", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if service.Labels["key2"] != "value2" || service.Labels[gatewayv1.GatewayNameLabelKey] != "g" || service.Annotations["key1"] != "value1" || service.OwnerReferences[0].UID != "7d1f" ||
		len(service.Spec.Ports) != 2 || service.Spec.Ports[1].Protocol != corev1.ProtocolUDP {
		t.Errorf("%+v", service)
	}
	w.Post([]status.Item{infrastructureItem(infrastructure)})
	w.idle("the same again")

	w.Post([]status.Item{infrastructureItem(nil)})
	expect(t, "it is taken away", w.wrote, "Service ok")
	if service, err = services.Get(context.Background(), "sluice-g", metav1.GetOptions{}); err != nil || service.Labels["key2"] != "" || len(service.Annotations) > 0 {
		t.Errorf("%v, %v", service, err)
	}
	w.refuse("patch", "services", 1, forbidden("services"))
	w.Post([]status.Item{infrastructureItem(infrastructure)})
	expect(t, "a permission comes later", w.wrote, "Gateway forbidden", "Service ok")
}

func TestServiceName(t *testing.T) {
	long := "gateway.with.dots"
	for range 4 {
		long += long
	}
	for _, name := range []string{"g", "a.b", "a-b", long, long + "x"} {
		got := serviceName(name)
		if len(got) > 63 || serviceName(name+"y") == got {
			t.Errorf("%s: %s", name, got)
		}
	}
	if serviceName("a.b") == serviceName("a-b") {
		t.Error("two Gateways have one Service")
	}
}
