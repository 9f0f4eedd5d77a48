package writer

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"

	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/converters/status"
)

// patience bounds each wait for something that must come.
const patience = 20 * time.Second

// world is a Cluster with an API server that is played.
type world struct {
	*Cluster
	t      *testing.T
	client *fake.Clientset
	wrote  chan string // kind and result of each write
	leads  chan bool
	log    *lines
	last   int // number of the last object of idle
}

// newWorld is a world in which this replica leads, unless elect is set.
func newWorld(t *testing.T, client *fake.Clientset, elect bool) *world {
	w := &world{t: t, client: client, wrote: make(chan string, 100), leads: make(chan bool, 100), log: &lines{}}
	w.Cluster = NewCluster(Config{
		Client: client, Log: slog.New(slog.NewTextHandler(w.log, nil)), Statuses: true, Elect: elect, Name: "sluice-edge", Namespace: "sluice", Identity: "one",
		Metrics: Metrics{
			Wrote: func(kind, result string) { w.wrote <- kind + " " + result },
			Leads: func(leads bool) { w.leads <- leads },
		},
	})
	return w
}

// run runs the Cluster until the test or the returned function ends it.
func (w *world) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("Run: %v", err)
		}
	})
	w.t.Cleanup(stop)
	return stop
}

// expect waits for the next values of a channel.
func expect[T comparable](t *testing.T, sentence string, from <-chan T, want ...T) {
	t.Helper()
	for i, value := range want {
		select {
		case got := <-from:
			if got != value {
				t.Fatalf("%s: value %d is %v, want %v", sentence, i, got, value)
			}
		case <-time.After(patience):
			t.Fatalf("%s: value %d, %v, does not come", sentence, i, value)
		}
	}
}

// idle fails if anything was written that no test asked for. Whatever was posted before is
// through when the write of a last object is.
func (w *world) idle(sentence string) {
	w.t.Helper()
	w.last++
	name := fmt.Sprintf("last-%d", w.last)
	w.create(name, "")
	w.Post([]status.Item{item(name, "192.0.2.1", "")})
	expect(w.t, sentence, w.wrote, "Ingress ok")
	if len(w.wrote) > 0 {
		w.t.Errorf("%s: then %s", sentence, <-w.wrote)
	}
}

// lines is a log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// count is how often a text stands in the log.
func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

func balancer(address string) *networkingv1.IngressLoadBalancerStatus {
	if address == "" {
		return &networkingv1.IngressLoadBalancerStatus{}
	}
	return &networkingv1.IngressLoadBalancerStatus{Ingress: []status.Address{{IP: address}}}
}

func keyOf(name string) snapshot.Key {
	return snapshot.Key{Kind: snapshot.Ingress, Namespace: "a", Name: name}
}

func item(name, wanted, present string) status.Item {
	return status.Item{Object: keyOf(name), Wanted: status.Status{LoadBalancer: balancer(wanted)}, Present: status.Status{LoadBalancer: balancer(present)}}
}

// create makes an Ingress whose status another controller wrote.
func (w *world) create(name, address string) {
	w.t.Helper()
	ingresses, ctx := w.client.NetworkingV1().Ingresses("a"), context.Background()
	ingress := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}}
	ingress, err := ingresses.Create(ctx, ingress, metav1.CreateOptions{FieldManager: "user"})
	if err == nil && address != "" {
		ingress.Status.LoadBalancer = *balancer(address)
		_, err = ingresses.UpdateStatus(ctx, ingress, metav1.UpdateOptions{FieldManager: "other"})
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// address is what stands in the status of an Ingress.
func (w *world) address(name string) string {
	w.t.Helper()
	ingress, err := w.client.NetworkingV1().Ingresses("a").Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	var list []string
	for _, address := range ingress.Status.LoadBalancer.Ingress {
		list = append(list, address.IP)
	}
	return strings.Join(list, " ")
}

func (w *world) has(name, want string) {
	w.t.Helper()
	if got := w.address(name); got != want {
		w.t.Errorf("status of %s: %q, want %q", name, got, want)
	}
}

// refuse has the API server answer so many requests with an error.
func (w *world) refuse(verb, resource string, times int, err error) {
	w.client.PrependReactor(verb, resource, func(kubetesting.Action) (bool, runtime.Object, error) {
		times--
		return times >= 0, nil, err
	})
}

func forbidden(resource string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "x", fmt.Errorf("no role"))
}
