//go:build bench

package bench

import (
	"context"
	"sync"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// watcher is a bare watch of the objects that the driver writes: it decodes events and
// notes when it saw what is expected.
type watcher struct {
	mu   sync.Mutex
	want expectation
	seen chan time.Time
}

type expectation struct{ kind, namespace, name, address string }

// watch starts the watcher.
func (d *driver) watch(ctx context.Context) {
	d.seen = &watcher{seen: make(chan time.Time, 1)}
	slices, err := d.objects.DiscoveryV1().EndpointSlices("").Watch(ctx, metav1.ListOptions{})
	d.must(err)
	ingresses, err := d.objects.NetworkingV1().Ingresses("").Watch(ctx, metav1.ListOptions{})
	d.must(err)
	var done sync.WaitGroup
	for _, w := range []watch.Interface{slices, ingresses} {
		done.Go(func() {
			for event := range w.ResultChan() {
				d.seen.note(event.Object, time.Now())
			}
		})
	}
	d.t.Cleanup(func() {
		slices.Stop()
		ingresses.Stop()
		done.Wait()
	})
}

// expect says what the next wait waits for.
func (w *watcher) expect(kind, namespace, name, address string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.want = expectation{kind, namespace, name, address}
}

func (w *watcher) note(object any, now time.Time) {
	got := expectation{}
	switch o := object.(type) {
	case *discoveryv1.EndpointSlice:
		got = expectation{"EndpointSlice", o.Namespace, o.Name, o.Endpoints[0].Addresses[0]}
	case *networkingv1.Ingress:
		got = expectation{"Ingress", o.Namespace, o.Name, ""}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if got == w.want && got != (expectation{}) {
		w.want = expectation{}
		w.seen <- now
	}
}

// wait is when what was expected was seen.
func (w *watcher) wait() time.Time { return <-w.seen }
