package cluster

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// watched is one scope of one kind with its reflector.
type watched struct {
	source *Source
	kind   kind
	scope  scope
	sink   *sink

	// Guarded by the source's lock.
	listing  error // why the last list failed; nil: it did not
	watching error // why the last watch could not be begun
	refused  time.Time
	without  bool // it may not be read, and sluice goes on without it

	// Of the reflector; nil while the kind is not followed, since it is not served.
	stop func() // ends it and waits for its end
	// missing is how often in a row the kind was not served though it is followed.
	missing int
}

func newWatched(s *Source, k kind, sc scope) *watched {
	return &watched{source: s, kind: k, scope: sc, sink: newSink(s, k)}
}

// awake tells whether the kind is followed. The caller holds the lock.
func (w *watched) awake() bool { return w.stop != nil }

// wake has the kind followed. The caller holds the lock.
func (w *watched) wake() {
	if w.awake() {
		return
	}
	ctx, cancel := context.WithCancel(w.source.ctx)
	ended := make(chan struct{})
	w.source.running.Go(func() {
		defer close(ended)
		w.run(ctx)
	})
	w.stop = func() {
		cancel()
		<-ended
	}
}

// forget ends following a kind that is not served any more: its objects are gone.
func (w *watched) forget() {
	w.stop() // not under the lock, which the reflector takes
	w.source.mu.Lock()
	defer w.source.mu.Unlock()
	w.sink.replace(nil)
	w.sink.listed = false
	w.listing, w.watching, w.refused, w.without, w.stop, w.missing = nil, nil, time.Time{}, false, nil, 0
	w.source.restate()
	w.source.poke()
}

// run follows the objects until ctx ends.
func (w *watched) run(ctx context.Context) {
	backoff := w.source.pace.backoff
	client := w.kind.client(w.source.config, w.scope.namespace)
	listWatch := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			w.scope.narrow(&o)
			list, err := client.list(ctx, o)
			w.noteList(ctx, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w.scope.narrow(&o)
			events, err := client.watch(ctx, o)
			w.noteWatch(ctx, o, err)
			return events, err
		},
	}
	reflector := cache.NewReflectorWithOptions(listWatch, w.kind.example, w.sink, cache.ReflectorOptions{
		Name: w.kind.resource.Resource, Backoff: &backoff,
	})
	// Not the reflector's own Run: it would log each failure, and wait before a relist.
	waits := w.source.pace.backoff.DelayWithReset(clock.RealClock{}, resetBackoff)
	_ = waits.Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		_ = reflector.ListAndWatchWithContext(ctx) // what failed was noted by the functions above
		return false, nil
	})
}

// settled tells whether the source need not wait for the kind. The caller holds the lock.
func (w *watched) settled() bool { return !w.awake() || w.sink.listed || w.without }

func (w *watched) noteList(ctx context.Context, err error) {
	if ctx.Err() != nil || passing(err) {
		return
	}
	w.source.mu.Lock()
	defer w.source.mu.Unlock()
	w.note(err, w.watching)
}

// noteWatch looks at how a watch began. One that streams the list first and can't, for
// example since the server does not know how, is followed by a list.
func (w *watched) noteWatch(ctx context.Context, o metav1.ListOptions, err error) {
	streams := o.SendInitialEvents != nil
	if ctx.Err() != nil || passing(err) || streams && err != nil && !unreachable(err) {
		return
	}
	w.source.mu.Lock()
	defer w.source.mu.Unlock()
	listing := w.listing
	if streams && err == nil {
		listing = nil
	}
	w.note(listing, err)
}

// note takes over what became of the last list and watch.
func (w *watched) note(listing, watching error) {
	w.listing, w.watching = listing, watching
	switch {
	case !w.isRefused():
		w.refused, w.without = time.Time{}, w.without && !w.sink.listed
	case w.refused.IsZero():
		w.refused = time.Now()
	case w.kind.optional && !w.settled() && time.Since(w.refused) >= w.source.pace.grace:
		w.goWithout()
	}
	w.source.restate()
}

// goWithout has the source go on though nothing of the kind can be read.
func (w *watched) goWithout() {
	w.without = true
	if class := w.source.config.Class; class != nil && w.kind.name == "IngressClass" {
		w.sink.replace([]any{class})
	}
}
