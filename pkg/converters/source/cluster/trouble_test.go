package cluster

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
)

// cuttable is a configuration whose way to the server fails while cut holds.
func cuttable(t *testing.T, c *Config, url string, cut *atomic.Bool) {
	t.Helper()
	wrap := func(way http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if cut.Load() {
				return nil, errors.New("the cable is out")
			}
			return way.RoundTrip(r)
		})
	}
	rc := &rest.Config{Host: url, QPS: -1, WrapTransport: wrap}
	var err error
	if c.Kubernetes, err = kubernetes.NewForConfig(rc); err != nil {
		t.Fatal(err)
	}
	if c.Metadata, err = metadata.NewForConfig(rc); err != nil {
		t.Fatal(err)
	}
}

func TestServerOutOfReach(t *testing.T) {
	server := newAPIServer(t)
	server.put(all()...)
	var cut atomic.Bool
	cut.Store(true)
	w := follow(t, server, func(c *Config) { cuttable(t, c, server.http.URL, &cut) })
	w.next()
	if w.last.Synced || w.last.Trouble != "the API server can't be reached: the cable is out" || len(w.seen) > 0 {
		t.Fatalf("synced %v, trouble %q, changes %s", w.last.Synced, w.last.Trouble, changedKeys(w.seen))
	}
	cut.Store(false)
	w.synced()
	w.until(func() bool { return w.last.Trouble == "" })
	w.seen = nil

	cut.Store(true)
	server.http.CloseClientConnections()
	w.until(func() bool { return w.last.Trouble != "" })
	if !w.last.Synced || len(w.seen) > 0 {
		t.Errorf("synced %v, changes %s while the server is away", w.last.Synced, changedKeys(w.seen))
	}
	cut.Store(false)
	w.barrier("end")
	w.until(func() bool { return w.last.Trouble == "" })
	if len(w.seen) != 1 {
		t.Errorf("changes of nothing: %s", changedKeys(w.seen))
	}
}

func TestForbiddenRoutesAreWaitedFor(t *testing.T) {
	server := newAPIServer(t)
	server.put(all()...)
	server.refuse(true, "list ingresses", "watch ingresses")
	w := follow(t, server, nil)
	w.until(func() bool { return strings.Contains(w.last.Trouble, "ingresses") })
	want := `sluice may not list ingresses; add to its ClusterRole: apiGroups ["networking.k8s.io"], resources [ingresses], verbs [get, list, watch]`
	if w.last.Synced || w.last.Trouble != want {
		t.Errorf("synced %v, trouble %q", w.last.Synced, w.last.Trouble)
	}
	server.refuse(false, "list ingresses", "watch ingresses")
	w.synced()
	w.until(func() bool { return w.last.Trouble == "" })
}

func TestForbiddenSecretsAreNone(t *testing.T) {
	server := newAPIServer(t)
	server.put(all()...)
	server.refuse(true, "list secrets", "watch secrets")
	w := follow(t, server, nil)
	w.synced()
	if len(w.last.Findings) != 1 || w.last.Findings[0].Code != report.AccessDenied || !strings.Contains(w.last.Findings[0].Message, "resources [secrets]") {
		t.Fatalf("findings %v", w.last.Findings)
	}
	if pending := w.Want([]snapshot.Key{key(snapshot.Secret, "a")}, nil); len(pending) > 0 {
		t.Errorf("pending: %v", pending)
	}
	server.refuse(false, "list secrets", "watch secrets")
	w.has(true, key(snapshot.Secret, "a"))
	w.until(func() bool { return len(w.last.Findings) == 0 })
}

func TestForbiddenWatchIsNamed(t *testing.T) {
	server := newAPIServer(t)
	server.put(all()...)
	server.refuse(true, "watch services")
	w := follow(t, server, nil)
	w.until(func() bool { return strings.Contains(w.last.Trouble, "sluice may not watch services") })
	w.synced() // the list is there, and made again and again
	server.put(service("b"))
	w.has(true, key(snapshot.Service, "b"))
}

func TestForbiddenContentIsSettled(t *testing.T) {
	server := newAPIServer(t)
	server.put(secret("a", "one"), secret("b", "two"))
	server.refuse(true, "get secrets")
	w := follow(t, server, nil)
	w.synced()
	a, b := key(snapshot.Secret, "a"), key(snapshot.Secret, "b")
	if pending := w.Want([]snapshot.Key{a, b}, nil); len(pending) != 2 {
		t.Fatalf("pending: %v", pending)
	}
	w.until(func() bool { return len(w.settled) == 2 && len(w.last.Findings) == 1 })
	if text := w.last.Findings[0].String(); !strings.Contains(text, "Secret/shop/*: sluice may not get secrets") {
		t.Errorf("finding %s", text)
	}
	server.refuse(false, "get secrets")
	w.has(true, a, b)
	w.until(func() bool { return len(w.last.Findings) == 0 })
}

// TestARefusalOfAServerThatStarts: what could be read before is refused for a moment; nobody
// is told to add a permission that is there.
func TestARefusalOfAServerThatStarts(t *testing.T) {
	s := New(configFor(t, "http://127.0.0.1:1"))
	services, refusal := s.watches[2], apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, "", errors.New("no role"))
	services.note(refusal, nil)
	if !strings.Contains(s.trouble, "sluice may not list services") {
		t.Errorf("what was never permitted: trouble %q", s.trouble)
	}
	services.note(nil, nil)
	services.sink.listed = true
	services.note(refusal, nil)
	if s.trouble != "" {
		t.Errorf("a refusal for a moment: trouble %q", s.trouble)
	}
	services.refused = services.refused.Add(-s.pace.grace)
	services.note(refusal, nil)
	if !strings.Contains(s.trouble, "sluice may not list services") {
		t.Errorf("a refusal that lasts: trouble %q", s.trouble)
	}
	services.note(nil, nil)

	s.compare(nil, nil)
	for refusals, findings := range []int{0, 1} {
		s.compare(nil, refusal)
		if len(s.findings) != findings {
			t.Errorf("discovery was refused %d times: findings %v", refusals+1, s.findings)
		}
	}
}

// TestARefusalOfContent is the same for what is read one by one.
func TestARefusalOfContent(t *testing.T) {
	server := newAPIServer(t)
	server.put(secret("a", "one"))
	w := follow(t, server, nil)
	w.synced()
	a := key(snapshot.Secret, "a")
	w.Want([]snapshot.Key{a}, nil)
	w.has(true, a)
	w.mu.Lock()
	defer w.mu.Unlock()
	for refusals, findings := range []int{0, 1} {
		w.contents.took(a, "9", result{err: apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "a", errors.New("no role"))})
		if len(w.findings) != findings {
			t.Errorf("refused %d times: findings %v", refusals+1, w.findings)
		}
	}
}
