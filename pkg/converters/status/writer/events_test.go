package writer

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/status"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

func notice(code report.Code, name, message string) status.Notice {
	origin := model.Origin{Kind: "Ingress", Namespace: "a", Name: name, Field: "spec.rules[0]"}
	return status.Notice{Finding: report.New(code, origin, "%s", message), APIVersion: "networking.k8s.io/v1", UID: "1-2-3"}
}

// sent are the Events in short, sorted.
func (w *world) sent(namespace string) []string {
	w.t.Helper()
	list, err := w.client.CoreV1().Events(namespace).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	var texts []string
	for _, e := range list.Items {
		o := e.InvolvedObject
		texts = append(texts, strings.Join([]string{e.Type, e.Reason, o.Kind, o.Name, string(o.UID), o.FieldPath, e.Source.Component, e.Message}, " "))
	}
	slices.Sort(texts)
	return texts
}

func TestEventForEachFinding(t *testing.T) {
	w := newWorld(t, fake.NewClientset(), false)
	w.run()
	expect(t, "this replica leads", w.leads, true)
	bad := notice(report.ObjectInvalid, "x", "no paths")
	w.Notice([]status.Notice{bad, notice(report.ClassNone, "y", "only worth knowing")})
	expect(t, "a finding", w.wrote, "Event ok")
	w.Notice([]status.Notice{bad})
	w.Notice([]status.Notice{bad, notice(report.ServiceMissing, "x", "no Service")})
	expect(t, "one more", w.wrote, "Event ok")
	want := []string{
		"Warning ObjectInvalid Ingress x 1-2-3 spec.rules[0] sluice no paths",
		"Warning ServiceMissing Ingress x 1-2-3 spec.rules[0] sluice no Service",
	}
	if got := w.sent("a"); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	w.Notice(nil)
	w.Notice([]status.Notice{bad})
	expect(t, "a finding that comes back is the same Event", w.wrote, "Event ok")
	if got := w.sent("a"); len(got) != 2 {
		t.Errorf("got %q", got)
	}
}

// TestEventsOfALeaderAreNotRepeated: the next one finds the same and says nothing new.
func TestEventsOfALeaderAreNotRepeated(t *testing.T) {
	client := fake.NewClientset()
	for range 2 {
		w := newWorld(t, client, false)
		w.Notice([]status.Notice{notice(report.ObjectInvalid, "x", "no paths")})
		stop := w.run()
		expect(t, "the finding", w.wrote, "Event ok")
		if got := w.sent("a"); len(got) != 1 {
			t.Errorf("got %q", got)
		}
		stop()
	}
}

func TestFollowerSendsNoEvents(t *testing.T) {
	w := newWorld(t, fake.NewClientset(), false)
	w.Notice([]status.Notice{notice(report.ObjectInvalid, "x", "no paths")})
	if n := w.events.queue.Len(); n != 0 {
		t.Errorf("%d Events are queued", n)
	}
}

// TestEventsWithoutPermission: findings that are in force when the permission is there get
// their Events then.
func TestEventsWithoutPermission(t *testing.T) {
	w := newWorld(t, fake.NewClientset(), false)
	w.refuse("create", "events", 2, forbidden("events"))
	w.run()
	w.Notice([]status.Notice{notice(report.ObjectInvalid, "x", "a"), notice(report.ObjectInvalid, "y", "b")})
	expect(t, "two refusals, then the permission is there", w.wrote, "Event forbidden", "Event forbidden", "Event ok", "Event ok")
	if got := w.sent("a"); len(got) != 2 {
		t.Errorf("got %q", got)
	}
	if n := w.log.count("verb create on events in namespace a"); n != 1 {
		t.Errorf("said %d times", n)
	}
}

func TestEventsOfAServerThatFails(t *testing.T) {
	w := newWorld(t, fake.NewClientset(), false)
	w.refuse("create", "events", 2, apierrors.NewInternalError(errors.New("etcd is away")))
	w.run()
	w.Notice([]status.Notice{notice(report.ObjectInvalid, "x", "a")})
	expect(t, "two failures, then the server is back", w.wrote, "Event error", "Event error", "Event ok")
	if got := w.sent("a"); len(got) != 1 || !strings.Contains(got[0], "Ingress x") {
		t.Errorf("got %q", got)
	}
}

// TestEventOfANamespaceThatGoes: nothing new can be created in it, and that is no lack of
// permission.
func TestEventOfANamespaceThatGoes(t *testing.T) {
	w := newWorld(t, fake.NewClientset(), false)
	going := apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "x", errors.New("it is being terminated"))
	going.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	w.refuse("create", "events", 1, going)
	w.run()
	w.Notice([]status.Notice{notice(report.ObjectInvalid, "x", "a")})
	expect(t, "a namespace that goes", w.wrote, "Event gone")
	w.idle("it is not tried again")
	if n := w.log.count("permit verb"); n != 0 {
		t.Errorf("said %d times", n)
	}
}

func TestEventNames(t *testing.T) {
	of := func(name, message string) string {
		return eventName(&corev1.Event{InvolvedObject: corev1.ObjectReference{Kind: "Ingress", Name: name, UID: "1"}, Message: message})
	}
	long, again := of(strings.Repeat("x", 253), "a"), of("x", "a")
	if of("x", "a") != again || of("x", "a") == of("x", "b") || of("x", "a") == of("y", "a") || len(long) > 253 {
		t.Errorf("names: %s %s %s", of("x", "a"), of("x", "b"), long)
	}
	if got := truncated(strings.Repeat("ä", 600)); len(got) > 1024 || !strings.HasSuffix(got, "ä...") {
		t.Errorf("a long message ends in %q", got[len(got)-8:])
	}
}
