package cluster

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/klog/v2"
	gatewayclient "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/converters/source"
)

// Config is what a Source needs.
type Config struct {
	Kubernetes kubernetes.Interface
	Metadata   metadata.Interface
	Gateway    gatewayclient.Interface // nil: the Gateway API is not followed
	Log        *slog.Logger

	// Namespaces are those to follow; none: all of them.
	Namespaces []string
	// Elsewhere are objects that flags name, followed wherever they are: a ConfigMap (with
	// the others of its namespace, where the parameters of classes stand), a Secret, a
	// Service. An EndpointSlice stands for all those of the Service of that name.
	Elsewhere []snapshot.Key
	// Class stands in for all IngressClasses where these may not be read.
	Class *networkingv1.IngressClass
}

// pace says how often what failed is tried again.
type pace struct {
	backoff wait.Backoff
	grace   time.Duration // how long a kind is refused before sluice goes on without it
	get     time.Duration // how long one GET may take
	// discover is the pause between two questions which kinds of the Gateway API are served.
	discover time.Duration
}

func defaultPace() pace {
	return pace{
		backoff: wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 8, Cap: 10 * time.Second},
		grace:   3 * time.Second, // an API server that starts refuses what it allows later
		get:     10 * time.Second,

		discover: 5 * time.Second,
	}
}

// resetBackoff is how long nothing must fail for the waits to begin anew.
const resetBackoff = 30 * time.Second

// Source follows the objects of a cluster.
type Source struct {
	config Config
	pace   pace
	wake   chan struct{} // there is something to send; capacity 1

	mu       sync.Mutex     // guards what follows, and what the sinks hold
	changes  changes        // to be sent
	settled  []snapshot.Key // to be sent
	findings []report.Finding
	trouble  string
	synced   bool // every kind was listed once
	watches  []*watched
	contents contents
	found    found

	ctx     context.Context // of Run
	running sync.WaitGroup
}

// New is a Source; nothing is asked of the API server before Run.
func New(config Config) *Source {
	s := &Source{config: config, pace: defaultPace(), wake: make(chan struct{}, 1)}
	s.contents, s.found.done = newContents(s), config.Gateway == nil
	followed := kinds()
	if config.Gateway != nil {
		followed = append(followed, gatewayKinds()...)
	}
	for _, k := range followed {
		for _, scope := range k.scopes(config) {
			s.watches = append(s.watches, newWatched(s, k, scope))
		}
	}
	return s
}

// Run sends all objects as the first batch, and then what changes, until ctx ends; it
// returns nil then. Before the first objects, batches say what keeps them from coming.
func (s *Source) Run(ctx context.Context, out chan<- source.Batch) error {
	// The reflectors log through this, at levels that --log-level=debug shows.
	ctx = klog.NewContext(ctx, logr.FromSlogHandler(s.config.Log.Handler()))
	s.mu.Lock()
	s.ctx, s.contents.ctx = ctx, ctx
	for _, w := range s.watches {
		if w.kind.needs == "" {
			w.wake()
		}
	}
	s.mu.Unlock()
	defer s.running.Wait()
	if s.config.Gateway != nil {
		s.running.Go(func() { s.discover(ctx) })
	}
	next := &outbox{}
	for {
		var send chan<- source.Batch
		if next.full {
			send = out
		}
		select {
		case <-ctx.Done():
			return nil
		case send <- next.batch:
			s.config.Log.Debug("source changes", "objects", len(next.batch.Changes), "findings", len(next.batch.Findings))
			next.sent()
		case <-s.wake:
			s.collect(next)
		}
	}
}

// poke has Run collect what is new. The caller holds the lock.
func (s *Source) poke() {
	select {
	case s.wake <- struct{}{}:
	default: // it is about to
	}
}

// emit notes a change to send. The caller holds the lock.
func (s *Source) emit(key snapshot.Key, object any) {
	s.changes.add(snapshot.Change{Key: key, Object: object})
	s.poke()
}

// collect moves what is new to the batch that waits to be sent.
func (s *Source) collect(next *outbox) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.synced = s.synced || s.found.done && !slices.ContainsFunc(s.watches, func(w *watched) bool { return !w.settled() })
	if s.synced {
		next.merge(s.changes, s.settled)
		s.changes, s.settled = changes{}, nil
	}
	next.say(s.synced, s.findings, s.trouble)
}

// changes are those that wait; of several for one key the last one counts. A source that
// waits for its first batch may hold many changes, so they are merged at once.
type changes struct {
	list []snapshot.Change
	at   map[snapshot.Key]int // index in list
}

func (c *changes) add(change snapshot.Change) {
	if i, ok := c.at[change.Key]; ok {
		c.list[i] = change
		return
	}
	if c.at == nil {
		c.at = map[snapshot.Key]int{}
	}
	c.at[change.Key] = len(c.list)
	c.list = append(c.list, change)
}

// outbox is a batch in the making. It belongs to the goroutine of Run.
type outbox struct {
	batch   source.Batch
	changes changes // of the batch
	full    bool    // there is a reason to send it

	// As of the last batch sent.
	synced   bool
	findings []report.Finding
	trouble  string
}

// merge adds changes.
func (o *outbox) merge(more changes, settled []snapshot.Key) {
	if len(o.changes.list) == 0 {
		o.changes = more
	} else {
		for _, c := range more.list {
			o.changes.add(c)
		}
	}
	o.batch.Changes = o.changes.list
	o.batch.Settled = append(o.batch.Settled, settled...)
}

func (o *outbox) say(synced bool, findings []report.Finding, trouble string) {
	o.batch.Synced, o.batch.Findings, o.batch.Trouble = synced, findings, trouble
	o.full = len(o.batch.Changes) > 0 || len(o.batch.Settled) > 0 || o.batch.Synced != o.synced ||
		trouble != o.trouble || !slices.Equal(findings, o.findings)
}

// sent begins another batch.
func (o *outbox) sent() {
	*o = outbox{
		synced: o.batch.Synced, findings: o.batch.Findings, trouble: o.batch.Trouble,
		batch: source.Batch{Synced: o.batch.Synced, Findings: o.batch.Findings, Trouble: o.batch.Trouble},
	}
}
