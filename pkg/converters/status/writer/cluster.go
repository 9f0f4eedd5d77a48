package writer

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"

	"github.com/sluice-proxy/sluice/pkg/converters/gateway"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/converters/status"
)

// The rate at which statuses are written, and Events sent: 10 000 Ingresses get their first
// address in three minutes, and the API server has time for others.
const (
	writesPerSecond = 50
	writesAtOnce    = 100
	workers         = 4
)

// The wait before a write that failed, or that somebody else undid, is tried again. It
// doubles each time.
const (
	firstRetry = 200 * time.Millisecond
	lastRetry  = time.Minute
)

// Metrics are told what is done; nil functions are not called.
type Metrics struct {
	Wrote func(kind, result string) // a status or an Event; see the results below
	Leads func(leads bool)
}

// Results of writes.
const (
	resultOK        = "ok"
	resultGone      = "gone"      // the object is gone meanwhile
	resultForbidden = "forbidden" // the role of the controller lacks a permission
	resultError     = "error"
)

func (m Metrics) wrote(kind, result string) {
	if m.Wrote != nil {
		m.Wrote(kind, result)
	}
}

func (m Metrics) leads(leads bool) {
	if m.Leads != nil {
		m.Leads(leads)
	}
}

// Config is what a Cluster needs.
type Config struct {
	Client   kubernetes.Interface
	Dynamic  dynamic.Interface // for objects of the Gateway API; nil: there are none
	Log      *slog.Logger
	Metrics  Metrics
	Statuses bool // write statuses; Events are sent in any case
	Elect    bool // ask for the lease first; otherwise this is the only replica
	// Name is that of the lease, and the field manager under which the API server keeps account
	// of what is ours. Installations that serve different classes must not share it.
	Name      string
	Namespace string // of the lease
	Identity  string // of this replica, unique among all
}

// Cluster writes to an API server.
type Cluster struct {
	Config
	queue   workqueue.TypedRateLimitingInterface[snapshot.Key]
	limiter flowcontrol.RateLimiter
	events  *events

	mu      sync.Mutex
	leads   bool
	items   map[snapshot.Key]status.Item
	posts   uint64                         // how many items were posted
	posted  map[snapshot.Key]uint64        // which of them is the newest of its object
	written map[snapshot.Key]status.Status // the last value, since this replica leads
	paces   map[snapshot.Key]pace
	made    map[snapshot.Key]gateway.Infrastructure // of Gateways, since this replica leads
	said    map[string]bool                         // complaints that stand in the log
}

// NewCluster prepares a writer; Run does the work.
func NewCluster(config Config) *Cluster {
	retries := workqueue.NewTypedItemExponentialFailureRateLimiter[snapshot.Key](firstRetry, lastRetry)
	c := &Cluster{
		Config:  config,
		queue:   workqueue.NewTypedRateLimitingQueue(retries),
		limiter: flowcontrol.NewTokenBucketRateLimiter(writesPerSecond, writesAtOnce),
		items:   map[snapshot.Key]status.Item{},
		posted:  map[snapshot.Key]uint64{},
		written: map[snapshot.Key]status.Status{},
		paces:   map[snapshot.Key]pace{},
		made:    map[snapshot.Key]gateway.Infrastructure{},
		said:    map[string]bool{},
	}
	c.events = newEvents(c)
	return c
}

// Post takes over the items that changed.
func (c *Cluster) Post(items []status.Item) {
	if !c.Statuses {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, item := range items {
		if item.Wanted.IsZero() {
			delete(c.items, item.Object)
			delete(c.posted, item.Object)
			delete(c.written, item.Object)
			delete(c.paces, item.Object)
			if _, made := c.made[item.Object]; made && c.leads {
				c.queue.Add(item.Object)
			}
			continue
		}
		c.items[item.Object] = item
		c.posts++
		c.posted[item.Object] = c.posts
		c.schedule(item)
	}
}

// schedule queues an item for its write, if it needs one. The lock is held.
//
// An item that was written before and differs again is either seen in an old form, which
// the next one will put right, or somebody undoes what sluice writes: it has to wait, the
// longer the more often that happens.
func (c *Cluster) schedule(item status.Item) {
	if !c.leads || !item.Differs() && !c.toMake(item) {
		return
	}
	before, again := c.written[item.Object]
	switch {
	case !again || !before.Equal(item.Wanted):
		c.queue.Forget(item.Object)
		c.queue.AddAfter(item.Object, c.paces[item.Object].wait(item.Object.Kind, time.Now()))
	case item.Wanted.Withdraws(): // what still stands there is somebody else's
	default:
		c.queue.AddRateLimited(item.Object)
	}
}

// Notice takes over all findings, replacing those before.
func (c *Cluster) Notice(notices []status.Notice) { c.events.notice(notices) }

// Leads tells whether this replica writes.
func (c *Cluster) Leads() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leads
}

// lead begins leadership, unless ctx has ended: the call may be late.
func (c *Cluster) lead(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	c.setLeads(true)
	clear(c.written)
	clear(c.made)
	for _, item := range c.items {
		c.schedule(item)
	}
}

// follow ends leadership.
func (c *Cluster) follow() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.setLeads(false)
}

func (c *Cluster) setLeads(leads bool) {
	c.leads = leads
	c.events.lead(leads)
	c.Metrics.leads(leads)
}

// Run takes part in the election and writes until ctx ends.
func (c *Cluster) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	context.AfterFunc(ctx, c.queue.ShutDown)
	for range workers {
		group.Go(func() error { return c.work(ctx) })
	}
	group.Go(func() error { return c.events.run(ctx) })
	group.Go(func() error {
		defer c.follow()
		if c.Elect {
			return c.stand(ctx)
		}
		c.lead(ctx)
		<-ctx.Done()
		return nil
	})
	return group.Wait()
}

// complain logs what is said once until it is cured.
func (c *Cluster) complain(text string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.said[text] {
		c.said[text] = true
		c.Log.Error(text, args...)
	}
}

// cured notes that a complaint has no cause any more.
func (c *Cluster) cured(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.said, text)
}
