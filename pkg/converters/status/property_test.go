package status

import (
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/sluice-proxy/sluice/pkg/converters/ingress"
	"github.com/sluice-proxy/sluice/pkg/converters/memo"
	"github.com/sluice-proxy/sluice/pkg/converters/resolve"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

const controller = "sluice-proxy.github.io/controller"

func newMemo() *memo.Memo {
	return memo.New(memo.Options{
		Class:              ingress.Class{Name: "sluice", Controller: controller, Namespace: "sluice"},
		DefaultCertificate: &model.Certificate{Name: "0default.pem", PEM: model.NewSecret([]byte("default"))},
		Bind:               resolve.Bind{HTTP: []string{"*:80"}, HTTPS: []string{"*:443"}},
	})
}

// drawn is a change of an object of a small world: Ingresses that change their class and
// their status, classes that come and go, the Service with the addresses.
func drawn(t *rapid.T) snapshot.Change {
	pick := func(label string, from ...string) string { return rapid.SampledFrom(from).Draw(t, label) }
	gone := rapid.IntRange(1, 4).Draw(t, "gone") == 1
	switch pick("kind", "Ingress", "Ingress", "Ingress", "class", "Service") {
	case "class":
		key := snapshot.Key{Kind: snapshot.IngressClass, Name: pick("class", "sluice", "other")}
		if gone {
			return snapshot.Change{Key: key}
		}
		return snapshot.Change{Key: key, Object: &networkingv1.IngressClass{
			ObjectMeta: metav1.ObjectMeta{Name: key.Name}, Spec: networkingv1.IngressClassSpec{Controller: pick("controller", controller, "example.com/other")},
		}}
	case "Service":
		if gone {
			return snapshot.Change{Key: serviceKey()}
		}
		return snapshot.Change{Key: serviceKey(), Object: &corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: pick("cluster IP", "192.0.2.1", "192.0.2.2", "None")}}}
	}
	key := ingressKey(pick("name", "x", "y", "z"))
	if gone {
		return snapshot.Change{Key: key}
	}
	object := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	if class := pick("of class", "sluice", "other", ""); class != "" {
		object.Spec.IngressClassName = &class
	}
	object.Status.LoadBalancer.Ingress = addressesOf([]string{pick("present", "", "192.0.2.1", "192.0.2.2")})
	return snapshot.Change{Key: key, Object: object}
}

// TestIncrementalEqualsFromScratch: whatever came in whatever batches, and whenever HAProxy
// acknowledged them, the statuses are those of a Ledger that is told everything at once, and
// whoever follows the changes knows them all.
func TestIncrementalEqualsFromScratch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, m, l, now := snapshot.New(), newMemo(), NewLedger(controller), time.Now()
		publish := Publish{Service: serviceKey()}
		converted, followed := map[snapshot.Key]bool{}, map[snapshot.Key]Item{}
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			var changes []snapshot.Change
			for range rapid.IntRange(1, 3).Draw(t, "changes") {
				changes = append(changes, drawn(t))
			}
			m.Update(s, s.Apply(changes), now)
			maps.Copy(converted, m.Converted())
			if rapid.IntRange(1, 3).Draw(t, "applied") == 1 {
				continue
			}
			for _, item := range l.Update(s, converted, publish.Resolve(s)) {
				followed[item.Object] = item
				if item.Wanted.IsZero() {
					delete(followed, item.Object)
				}
			}
			clear(converted)

			fresh, scratch := newMemo(), NewLedger(controller)
			fresh.Update(s, append(s.Keys(snapshot.IngressClass), s.Keys(snapshot.Ingress)...), now)
			scratch.Update(s, fresh.Converted(), publish.Resolve(s))
			if diff := cmp.Diff(scratch.Items(), l.Items()); diff != "" {
				t.Fatalf("(-scratch +incremental)\n%s", diff)
			}
			if diff := cmp.Diff(l.items, followed); diff != "" {
				t.Fatalf("(-ledger +followed)\n%s", diff)
			}
		}
	})
}
