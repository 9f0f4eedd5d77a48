package writer

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/sluice-proxy/sluice/pkg/converters/status"
)

func TestOnlyDifferencesAreWritten(t *testing.T) {
	w := newWorld(t, fake.NewClientset(), false)
	w.create("x", "")
	w.create("same", "192.0.2.1")
	w.Post([]status.Item{item("x", "192.0.2.1", ""), item("same", "192.0.2.1", "192.0.2.1")})
	w.run()
	expect(t, "what was posted before Run", w.wrote, "Ingress ok")
	w.has("x", "192.0.2.1")

	w.Post([]status.Item{item("x", "192.0.2.1", "192.0.2.1")}) // as the source shows it then
	w.idle("an item that shows what is wanted")

	w.Post([]status.Item{item("x", "192.0.2.2", "192.0.2.1")})
	expect(t, "another address", w.wrote, "Ingress ok")
	w.has("x", "192.0.2.2")

	w.refuse("patch", "ingresses", 1, apierrors.NewNotFound(schema.GroupResource{Resource: "ingresses"}, "gone"))
	w.Post([]status.Item{item("gone", "192.0.2.2", "")})
	expect(t, "an Ingress that is gone meanwhile", w.wrote, "Ingress gone")
	w.Post([]status.Item{{Object: keyOf("x")}})
	w.idle("an item that is wanted no more")
	w.has("x", "192.0.2.2")
}

// TestNewestItemWins: the API server is slow; of what is posted meanwhile the last counts.
func TestNewestItemWins(t *testing.T) {
	w := newWorld(t, fake.NewClientset(), false)
	w.create("x", "")
	w.refuse("patch", "ingresses", 2, errors.New("timeout"))
	w.run()
	w.Post([]status.Item{item("x", "192.0.2.1", "")})
	expect(t, "a write that fails", w.wrote, "Ingress error")
	w.Post([]status.Item{item("x", "192.0.2.2", "")})
	expect(t, "another one", w.wrote, "Ingress error", "Ingress ok")
	w.has("x", "192.0.2.2")
	w.idle("then nothing is left")
}

// TestOnlyOurAddressIsTakenAway: the API server knows whose the entry is.
func TestOnlyOurAddressIsTakenAway(t *testing.T) {
	w := newWorld(t, fake.NewClientset(), false)
	w.create("ours", "")
	w.create("theirs", "192.0.2.1")
	w.create("over", "")
	w.run()
	w.Post([]status.Item{item("ours", "192.0.2.1", ""), item("over", "192.0.2.1", "")})
	expect(t, "the addresses", w.wrote, "Ingress ok", "Ingress ok")

	over, err := w.client.NetworkingV1().Ingresses("a").Get(context.Background(), "over", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	over.Status.LoadBalancer = *balancer("198.51.100.7")
	if _, err := w.client.NetworkingV1().Ingresses("a").UpdateStatus(context.Background(), over, metav1.UpdateOptions{FieldManager: "other"}); err != nil {
		t.Fatal(err)
	}
	w.Post([]status.Item{item("ours", "", "192.0.2.1"), item("theirs", "", "192.0.2.1"), item("over", "", "192.0.2.1")})
	expect(t, "they leave the class", w.wrote, "Ingress ok", "Ingress ok", "Ingress ok")
	w.has("ours", "")
	w.has("theirs", "192.0.2.1")
	w.has("over", "198.51.100.7")

	w.Post([]status.Item{item("theirs", "", "192.0.2.1")})
	w.idle("what is not ours is not tried again")
}

func TestMissingPermissionIsSaidOnce(t *testing.T) {
	w := newWorld(t, fake.NewClientset(), false)
	w.create("x", "")
	w.refuse("patch", "ingresses", 2, forbidden("ingresses"))
	w.run()
	w.Post([]status.Item{item("x", "192.0.2.1", "")})
	expect(t, "the permission comes later", w.wrote, "Ingress forbidden", "Ingress forbidden", "Ingress ok")
	if n := w.log.count("verb patch on ingresses/status"); n != 1 {
		t.Errorf("said %d times", n)
	}
}

// TestOldFormsAndFights: an item in an old form is written after a pause only, since the
// next form shows what was written; so is what somebody else undoes, each time later.
func TestOldFormsAndFights(t *testing.T) {
	w := newWorld(t, fake.NewClientset(), false)
	w.create("x", "")
	w.run()
	w.Post([]status.Item{item("x", "192.0.2.1", "")})
	expect(t, "the address", w.wrote, "Ingress ok")
	w.Post([]status.Item{item("x", "192.0.2.1", "")})
	w.Post([]status.Item{item("x", "192.0.2.1", "192.0.2.1")})
	w.idle("an old form is followed by the one that was written")

	w.Post([]status.Item{item("x", "192.0.2.1", "198.51.100.7")})
	expect(t, "somebody undoes it", w.wrote, "Ingress ok")
	w.Post([]status.Item{item("x", "192.0.2.1", "198.51.100.7")})
	expect(t, "again", w.wrote, "Ingress ok")
	if n := w.queue.NumRequeues(keyOf("x")); n < 2 {
		t.Errorf("the wait grows with each time, but %d were counted", n)
	}
	w.idle("nothing was written but that")
}

func TestWithoutStatuses(t *testing.T) {
	w := newWorld(t, fake.NewClientset(), false)
	w.Statuses = false
	w.Post([]status.Item{item("x", "192.0.2.1", "")})
	if len(w.items) > 0 {
		t.Errorf("--update-status=false, but %v is to be written", w.items)
	}
}

// heldLease is a lease that another replica holds.
func heldLease(client *fake.Clientset, t *testing.T) *coordinationv1.Lease {
	now := metav1.NewMicroTime(time.Now())
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "sluice", Name: "sluice-edge"}, Spec: coordinationv1.LeaseSpec{
		HolderIdentity: new("two"), LeaseDurationSeconds: new(int32(3600)), AcquireTime: &now, RenewTime: &now, LeaseTransitions: new(int32(0)),
	}}
	lease, err := client.CoordinationV1().Leases("sluice").Create(context.Background(), lease, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// TestHandOver: a follower writes nothing and knows everything; when it leads it writes the
// differences; when it stops everything stays, and the lease is free at once.
func TestHandOver(t *testing.T) {
	client := fake.NewClientset()
	lease := heldLease(client, t)
	w := newWorld(t, client, true)
	w.create("x", "")
	w.create("done", "192.0.2.1")
	w.Post([]status.Item{item("x", "192.0.2.1", "")})
	stop := w.run()
	w.Post([]status.Item{item("done", "192.0.2.1", "192.0.2.1")})
	if w.Leads() || w.queue.Len() > 0 {
		t.Fatal("a follower writes")
	}

	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = new(""), new(int32(1))
	if _, err := client.CoordinationV1().Leases("sluice").Update(context.Background(), lease, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	expect(t, "this replica leads", w.leads, true)
	expect(t, "the new leader writes what differs", w.wrote, "Ingress ok")
	w.has("x", "192.0.2.1")
	w.idle("the new leader writes nothing else")

	stop()
	w.has("x", "192.0.2.1")
	lease, err := client.CoordinationV1().Leases("sluice").Get(context.Background(), "sluice-edge", metav1.GetOptions{})
	if err != nil || *lease.Spec.HolderIdentity != "" {
		t.Errorf("the lease is held by %q after the end (%v)", *lease.Spec.HolderIdentity, err)
	}
	if w.Leads() {
		t.Error("it leads after its end")
	}
	w.Post([]status.Item{item("x", "192.0.2.9", "192.0.2.1")})
	w.has("x", "192.0.2.1")
}

func TestLateCallDoesNotLead(t *testing.T) {
	w := newWorld(t, fake.NewClientset(), false)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	w.follow()
	w.lead(ctx)
	if w.Leads() {
		t.Error("a leader whose time is over leads")
	}
}

func TestElectionWithoutPermission(t *testing.T) {
	w := newWorld(t, fake.NewClientset(), true)
	w.refuse("get", "leases", 2, forbidden("leases"))
	w.run()
	expect(t, "the permission comes later", w.leads, true)
	if n := w.log.count("verb get on leases"); n != 1 {
		t.Errorf("said %d times", n)
	}
}

// TestFieldManager: two installations don't take each other's entries for their own.
func TestFieldManager(t *testing.T) {
	w := newWorld(t, fake.NewClientset(), false)
	w.create("x", "")
	w.run()
	w.Post([]status.Item{item("x", "192.0.2.1", "")})
	expect(t, "an address", w.wrote, "Ingress ok")
	ingress, err := w.client.NetworkingV1().Ingresses("a").Get(context.Background(), "x", metav1.GetOptions{})
	if err != nil || !slices.ContainsFunc(ingress.ManagedFields, func(f metav1.ManagedFieldsEntry) bool { return f.Manager == "sluice-edge" }) {
		t.Errorf("managed fields %+v (%v)", ingress.ManagedFields, err)
	}
}
