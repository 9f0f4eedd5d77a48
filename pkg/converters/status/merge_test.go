package status

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/gateway"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
)

// at is a moment of a test.
func at(minute int) metav1.Time {
	return metav1.NewTime(time.Date(2026, 1, 2, 3, minute, 0, 0, time.UTC))
}

func conditionOf(kind string, status metav1.ConditionStatus, reason string, generation int64, since metav1.Time) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, ObservedGeneration: generation, LastTransitionTime: since}
}

func TestConditions(t *testing.T) {
	foreign := conditionOf("example.com/Checked", "True", "Checked", 1, at(0))
	accepted, rejected := conditionOf("Accepted", "True", "Accepted", 2, metav1.Time{}), conditionOf("Accepted", "False", "Invalid", 2, metav1.Time{})
	since := func(c metav1.Condition, time metav1.Time, generation int64) metav1.Condition {
		c.LastTransitionTime, c.ObservedGeneration = time, generation
		return c
	}
	for name, test := range map[string]struct{ present, wanted, after []metav1.Condition }{
		"the first one": {
			nil, []metav1.Condition{accepted}, []metav1.Condition{since(accepted, at(9), 2)},
		},
		"the same again, of a new generation": {
			[]metav1.Condition{since(accepted, at(1), 1)}, []metav1.Condition{accepted}, []metav1.Condition{since(accepted, at(1), 2)},
		},
		"another status has another time": {
			[]metav1.Condition{since(accepted, at(1), 1)}, []metav1.Condition{rejected}, []metav1.Condition{since(rejected, at(9), 2)},
		},
		"what others say stays where it is; ours that is not wanted goes": {
			[]metav1.Condition{conditionOf("ResolvedRefs", "False", "InvalidKind", 1, at(1)), foreign, since(accepted, at(1), 1)},
			[]metav1.Condition{accepted},
			[]metav1.Condition{foreign, since(accepted, at(1), 2)},
		},
		"the default of the CRD is overwritten": {
			[]metav1.Condition{conditionOf("Accepted", "Unknown", "Pending", 0, at(0)), conditionOf("Programmed", "Unknown", "Pending", 0, at(0))},
			[]metav1.Condition{rejected}, []metav1.Condition{since(rejected, at(9), 2)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			after := merging{"us", at(9)}.conditions(test.present, test.wanted, gatewayConditions)
			if diff := cmp.Diff(test.after, after); diff != "" {
				t.Error(diff)
			}
			if again := (merging{"us", at(10)}).conditions(after, test.wanted, gatewayConditions); !equality.Semantic.DeepEqual(again, after) {
				t.Errorf("it is no end: %v", again)
			}
		})
	}
	var many []metav1.Condition
	for _, name := range strings.Fields("a b c d e f g h") {
		many = append(many, conditionOf("example.com/"+name, "True", "X", 1, at(0)))
	}
	if full := (merging{"us", at(9)}).conditions(many, []metav1.Condition{accepted}, gatewayConditions); len(full) != 8 || full[7].Type != "Accepted" {
		t.Errorf("a full list: %v", full)
	}
}

func parentOf(controller, gateway string, conditions ...metav1.Condition) gatewayv1.RouteParentStatus {
	return gatewayv1.RouteParentStatus{
		ControllerName: gatewayv1.GatewayController(controller), ParentRef: gatewayv1.ParentReference{Name: gatewayv1.ObjectName(gateway)}, Conditions: conditions,
	}
}

func names(parents []gatewayv1.RouteParentStatus) string {
	var list []string
	for _, p := range parents {
		list = append(list, string(p.ControllerName)+"/"+string(p.ParentRef.Name))
	}
	return strings.Join(list, " ")
}

func TestParents(t *testing.T) {
	full := make([]gatewayv1.RouteParentStatus, 31)
	for i := range full {
		full[i] = parentOf("them", "g")
	}
	for name, test := range map[string]struct {
		present, wanted []gatewayv1.RouteParentStatus
		after           string
	}{
		"a new one stands behind others": {
			[]gatewayv1.RouteParentStatus{parentOf("them", "a")}, []gatewayv1.RouteParentStatus{parentOf("us", "a"), parentOf("us", "b")}, "them/a us/a us/b",
		},
		"one that goes": {
			[]gatewayv1.RouteParentStatus{parentOf("us", "a"), parentOf("them", "a"), parentOf("us", "b")}, []gatewayv1.RouteParentStatus{parentOf("us", "b")}, "them/a us/b",
		},
		"all go": {
			[]gatewayv1.RouteParentStatus{parentOf("us", "a"), parentOf("them", "a")}, nil, "them/a",
		},
		"no more than there is room for": {
			full, []gatewayv1.RouteParentStatus{parentOf("us", "a"), parentOf("us", "b")}, names(full) + " us/a",
		},
	} {
		t.Run(name, func(t *testing.T) {
			item := Item{Controller: "us", Present: Status{Gateway: gateway.Status{Parents: test.present}}, Wanted: Status{Gateway: gateway.Status{Parents: test.wanted}, Withdrawn: test.wanted == nil}}
			after := item.Merged(at(9))
			if got := names(after.Parents); got != test.after {
				t.Errorf("%s, want %s", got, test.after)
			}
			if !item.Differs() {
				t.Error("nothing is to be written")
			}
			item.Present.Gateway = after
			if item.Differs() {
				t.Error("it is written again and again")
			}
		})
	}
}

// TestListeners: each listener of the spec has one entry; one without kinds shows that.
func TestListeners(t *testing.T) {
	wanted := &gatewayv1.GatewayStatus{
		Conditions: []metav1.Condition{conditionOf("Accepted", "True", "Accepted", 3, metav1.Time{})},
		Listeners:  []gatewayv1.ListenerStatus{{Name: "new", AttachedRoutes: 2}, {Name: "old"}},
	}
	present := &gatewayv1.GatewayStatus{Listeners: []gatewayv1.ListenerStatus{
		{Name: "gone"}, {Name: "old", AttachedRoutes: 7, Conditions: []metav1.Condition{conditionOf("example.com/x", "True", "X", 1, at(1))}},
	}}
	item := Item{Wanted: Status{Gateway: gateway.Status{Gateway: wanted}}, Present: Status{Gateway: gateway.Status{Gateway: present}}}
	after := item.Merged(at(9)).Gateway
	if len(after.Listeners) != 2 || after.Listeners[0].Name != "new" || after.Listeners[0].AttachedRoutes != 2 || after.Listeners[1].AttachedRoutes != 0 || len(after.Listeners[1].Conditions) != 1 {
		t.Errorf("%+v", after.Listeners)
	}
	text, err := json.Marshal(after)
	if err != nil || strings.Count(string(text), `"supportedKinds":[]`) != 2 {
		t.Errorf("%s, %v", text, err)
	}
	if wanted.Conditions[0].LastTransitionTime != (metav1.Time{}) || len(wanted.Listeners[1].Conditions) != 0 {
		t.Error("what is wanted was written to")
	}
}

func TestStatusAsText(t *testing.T) {
	for want, status := range map[string]Status{
		`{"parents":[{"conditions":[{"message":"","observedGeneration":2,"reason":"Accepted","status":"True","type":"Accepted"}],"controllerName":"us","parentRef":{"name":"g"}}]}`: {
			Gateway: gateway.Status{Parents: []gatewayv1.RouteParentStatus{parentOf("us", "g", conditionOf("Accepted", "True", "Accepted", 2, metav1.Time{}))}},
		},
		`{"loadBalancer":{}}`:        {LoadBalancer: &networkingv1.IngressLoadBalancerStatus{}},
		`{"attachedListenerSets":0}`: {Gateway: gateway.Status{Gateway: &gatewayv1.GatewayStatus{AttachedListenerSets: new(int32)}}},
	} {
		text, err := json.Marshal(status)
		if err != nil || string(text) != want {
			t.Errorf("%s, %v, want %s", text, err, want)
		}
	}
}

func routeKey(name string) snapshot.Key {
	return snapshot.Key{Kind: snapshot.HTTPRoute, Namespace: "a", Name: name}
}

func routeOf(name, version string, parents ...gatewayv1.RouteParentStatus) snapshot.Change {
	return snapshot.Change{Key: routeKey(name), Object: &gatewayv1.HTTPRoute{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, ResourceVersion: version}, Status: gatewayv1.HTTPRouteStatus{RouteStatus: gatewayv1.RouteStatus{Parents: parents}},
	}}
}

// TestGatewayItems: an item follows what is wanted, and what the source shows.
func TestGatewayItems(t *testing.T) {
	s, l := snapshot.New(), NewLedger(controller)
	key := routeKey("x")
	wanted := map[snapshot.Key]gateway.Status{key: {Parents: []gatewayv1.RouteParentStatus{parentOf(controller, "g")}}}
	expect := func(sentence string, items []Item, differs ...bool) {
		t.Helper()
		if len(items) != len(differs) {
			t.Fatalf("%s: items %+v", sentence, items)
		}
		for i, item := range items {
			if item.Differs() != differs[i] {
				t.Errorf("%s: differs %v: %+v", sentence, item.Differs(), item)
			}
		}
	}
	s.Apply([]snapshot.Change{routeOf("x", "1"), routeOf("other", "1", parentOf("them", "g")), routeOf("left", "1", parentOf(controller, "g"))})
	seen := []snapshot.Key{key, routeKey("other"), routeKey("left")}
	expect("a new route, and one that left while nobody looked", l.UpdateGateway(s, wanted, seen), true, true)
	expect("nothing new", l.UpdateGateway(s, wanted, seen))

	s.Apply([]snapshot.Change{routeOf("x", "2", parentOf(controller, "g")), routeOf("left", "2")})
	expect("the source shows what was written", l.UpdateGateway(s, nil, seen), false, false)
	s.Apply([]snapshot.Change{routeOf("x", "3", parentOf("them", "g"))})
	expect("somebody takes it away", l.UpdateGateway(s, nil, seen[:1]), true)
	s.Apply([]snapshot.Change{routeOf("x", "4", parentOf("them", "g"), parentOf(controller, "g"))})
	expect("it is written again", l.UpdateGateway(s, nil, seen[:1]), false)

	items := l.UpdateGateway(s, map[snapshot.Key]gateway.Status{key: {}}, nil)
	expect("the route leaves", items, true)
	if got := names(items[0].Merged(at(1)).Parents); got != "them/g" {
		t.Errorf("parents %s", got)
	}
	s.Apply([]snapshot.Change{{Key: key}})
	items = l.UpdateGateway(s, nil, seen[:1])
	if len(items) != 1 || !items[0].Wanted.IsZero() || len(l.Items()) != 0 {
		t.Errorf("it is gone: %+v, %+v", items, l.Items())
	}
}
