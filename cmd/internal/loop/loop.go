package loop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/sluice-proxy/sluice/cmd/internal/admin"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/converters/source"
	"github.com/sluice-proxy/sluice/pkg/converters/status"
	"github.com/sluice-proxy/sluice/pkg/haproxy/apply"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/plan"
	"github.com/sluice-proxy/sluice/pkg/haproxy/process"
	"github.com/sluice-proxy/sluice/pkg/haproxy/shard"
)

// Applier carries out plans; *apply.Apply is one.
type Applier interface {
	Open(ctx context.Context) (*shard.Registry, error)
	Expected() *shard.Registry
	Rescan() (*shard.Registry, []string, error)
	Do(ctx context.Context, p *plan.Plan) apply.Outcome
	Early(ctx context.Context, p *plan.Plan)
	Reload(ctx context.Context, p *plan.Plan) <-chan apply.Outcome
	Restart(ctx context.Context) apply.Outcome
	RetryRemovals(ctx context.Context) (left int, drift bool)
	Waiting() string // why the reload in flight does not begin; empty: it does
}

// Writer takes what there is to tell about objects. Its methods never block.
type Writer interface {
	Post(items []status.Item)       // those that changed
	Notice(notices []status.Notice) // all in force
}

const (
	resyncEvery = 10 * time.Minute // between two comparisons with the disk, and looks at the clock
	firstRetry  = 100 * time.Millisecond
	lastRetry   = 30 * time.Second
	longLife    = time.Minute // of an HAProxy: its death is not one of a series
	keptReloads = 20          // in the status
	holdAtMost  = time.Second // that a plan waits for contents: one slow answer can't hold up everybody
)

// Loop owns all state, in the goroutine of Run.
type Loop struct {
	Line    *Line
	Apply   Applier
	Log     *slog.Logger
	Metrics *admin.Metrics
	Publish func(*admin.Status)
	Writer  Writer // nil: nobody is told
	// Addresses yields those that Ingresses get in their status, whenever they change; nil:
	// the options say them.
	Addresses <-chan []string
	// Exited yields an error when HAProxy's master is gone; nil: somebody else's concern.
	Exited func() <-chan error
	// Contents reads what the line looks up; nil: the source sends everything by itself.
	Contents source.Contents
	// Counters are looked at for servers that fail; nil: they are not.
	Counters Counters
	// Forwarder serves the listeners for datagrams; nil: nobody does, and their status says so.
	Forwarder Forwarder
	// Once ends Run after the first success, or with the first failure.
	Once bool

	refusing <-chan []refusal          // servers that fail, whenever they change
	failing  []refusal                 // the last of them
	flight   <-chan apply.Outcome      // of the reload in flight
	plan     *plan.Plan                // that it carries out
	synced   bool                      // the source has delivered all that was there at start
	dirty    bool                      // something is not applied yet
	waits    bool                      // for the reload in flight, since it needs one of its own
	behind   bool                      // more was sent behind the reload in flight
	since    time.Time                 // arrival of the oldest event that is not applied yet
	failures int                       // in a row
	fatal    error                     // ends Run
	awaited  map[snapshot.Key]struct{} // contents on their way; plans wait for them
	hold     *time.Timer               // the end of that wait
	retry    *time.Timer               // another try after a failure
	revive   *time.Timer               // another start of HAProxy
	revived  time.Time                 // when it was last started again
	deaths   int                       // of HAProxy, in a row
	buried   <-chan error              // told of the end of the last master that is gone
	wanted   uint64                    // number of batches taken
	covered  uint64                    // of them, those that the last plan covers
	address  string                    // the addresses of Ingresses, as they stand in the log
	portless bool                      // a listener for datagrams has no socket; it is tried again
	reported bool                      // the findings in the status are those of the last event
	status   admin.Status
}

// Run takes batches until ctx ends. It returns an error only where nothing can go on.
func (l *Loop) Run(ctx context.Context, batches <-chan source.Batch) error {
	if _, err := l.Apply.Open(ctx); err != nil {
		return err
	}
	l.prepare()
	if l.Counters != nil {
		refusing := make(chan []refusal)
		l.refusing = refusing
		go newWatcher(l.Counters).watch(ctx, refusing)
	}
	resync := time.NewTicker(resyncEvery)
	defer resync.Stop()
	seconds := time.NewTicker(time.Second)
	defer seconds.Stop()
	for {
		select {
		case <-ctx.Done():
			if l.flight != nil {
				<-l.flight // it may be starting HAProxy, which is to be stopped then
			}
			return nil
		case batch := <-batches:
			l.take(batch)
		case out := <-l.flight:
			l.flight, l.waits = nil, false
			l.finish(ctx, l.plan, out)
		case <-l.hold.C:
			l.stopWaiting()
		case <-l.retry.C:
			l.dirty = true
		case <-resync.C:
			l.rescan()
			l.Line.Again(time.Now())
			l.want()
			l.dirty = true
		case l.failing = <-l.refusing:
			l.reported = false
		case <-seconds.C:
			l.everySecond(ctx)
		case addresses := <-l.Addresses:
			l.Line.Addressed(addresses)
			l.dirty = true
		case err := <-l.exited():
			l.bury(err)
		case <-l.revive.C:
			l.restart(ctx)
		}
		for l.due() {
			l.round(ctx)
		}
		if done, err := l.done(); done {
			return err
		}
	}
}

// prepare makes what Run needs.
func (l *Loop) prepare() {
	l.retry, l.revive, l.hold = stoppedTimer(), stoppedTimer(), stoppedTimer()
	l.awaited = map[snapshot.Key]struct{}{}
}

// due tells whether a plan is to be made now.
func (l *Loop) due() bool { return l.dirty && l.synced && !l.waits && len(l.awaited) == 0 }

// everySecond does what need not be done for each event.
func (l *Loop) everySecond(ctx context.Context) {
	if _, drift := l.Apply.RetryRemovals(ctx); drift {
		l.dirty = true
	}
	if l.portless && l.synced && l.forward() {
		l.dirty = true
	}
	if l.synced && (!l.reported || l.status.Waiting != l.Apply.Waiting()) {
		l.publish(nil)
	}
}

func stoppedTimer() *time.Timer {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return timer
}

// done tells whether the run is over, and with which error: a run with Once after its
// first result, any run if HAProxy can't listen at the first start.
func (l *Loop) done() (bool, error) {
	switch {
	case l.fatal != nil:
		return true, l.fatal
	case !l.Once || l.flight != nil:
		return false, nil
	case l.status.Error != "":
		return true, errors.New(l.status.Error)
	case l.status.Trouble != "" && !l.status.Ready:
		return true, errors.New(l.status.Trouble)
	default:
		return l.status.Ready && !l.dirty, nil
	}
}

// exited yields once for each master that is gone. While a reload is in flight, that one
// starts HAProxy if need be.
func (l *Loop) exited() <-chan error {
	if l.Exited == nil || l.flight != nil {
		return nil
	}
	if exited := l.Exited(); exited != l.buried {
		return exited
	}
	return nil
}

// take converts a batch of the source. A change of the global settings is a full
// reconciliation, which looks at the disk, too.
func (l *Loop) take(batch source.Batch) {
	l.noteTrouble(batch.Trouble)
	if !batch.Synced {
		return // it says no more than why nothing comes
	}
	if l.since.IsZero() {
		l.since = time.Now()
	}
	if l.synced && slices.ContainsFunc(batch.Changes, func(c snapshot.Change) bool { return l.Line.IsGlobal(c.Key) }) {
		l.rescan()
	}
	l.Line.Take(batch.Changes, batch.Findings, time.Now())
	for _, key := range batch.Settled {
		delete(l.awaited, key)
	}
	l.want()
	l.synced = true
	l.dirty, l.waits, l.reported = true, false, !l.status.Ready
	l.wanted++
}

// rescan looks for files that somebody else changed, and tells whether there are any.
func (l *Loop) rescan() bool {
	_, changed, err := l.Apply.Rescan()
	if err != nil {
		l.Log.Error("comparing the configuration folder with the registry", "error", err)
	}
	if len(changed) > 0 {
		l.Log.Warn("somebody changed files of the configuration folder; they are written anew", "files", changed)
	}
	return len(changed) > 0
}

// round makes a plan and carries it out, or starts the reload that does.
func (l *Loop) round(ctx context.Context) {
	l.dirty = false
	l.forward()
	p, err := l.Line.Plan(l.Apply.Expected())
	if err == nil && p.Reload != nil && l.flight == nil && l.rescan() {
		p, err = l.Line.Plan(l.Apply.Expected()) // or HAProxy would load what somebody else wrote
	}
	switch {
	case err != nil:
		l.fail(fmt.Errorf("the configuration can't be rendered: %w", err))
	case p.Reload != nil && l.flight != nil:
		l.Apply.Early(ctx, p)
		l.dirty, l.waits = true, true
	case p.Empty():
		l.send()
		l.succeed(l.Apply.Expected())
	case p.Reload != nil:
		l.send()
		l.plan, l.flight = p, l.Apply.Reload(ctx, p)
	default:
		l.send()
		l.finish(ctx, p, l.Apply.Do(ctx, p))
	}
}

// send notes that everything taken so far is on its way to HAProxy. What comes while a reload
// is in flight is not in the tree that HAProxy checks: it must not be blamed for that one.
func (l *Loop) send() {
	l.covered = l.wanted
	if l.flight != nil {
		l.behind = true
		return
	}
	l.Line.Planned()
}

// finish looks at what became of a plan.
func (l *Loop) finish(ctx context.Context, p *plan.Plan, out apply.Outcome) {
	if len(out.Reasons) > 0 {
		l.noteReload(out)
	}
	switch {
	case ctx.Err() != nil:
	case out.Refusal != nil:
		l.refused(p, out)
	case errors.Is(out.Err, apply.ErrStale):
		l.dirty = true
	case out.Err != nil && l.unbound(p, out.Err):
	case out.Err != nil:
		l.fail(out.Err)
	case out.Drift:
		l.fail(errors.New("HAProxy gave an unexpected answer to a command; it is reloaded"))
	default:
		l.succeed(out.Registry)
	}
}

// refused quarantines the objects behind what HAProxy refuses. Where none can be found the
// same tree is tried again later: the old worker serves on.
func (l *Loop) refused(p *plan.Plan, out apply.Outcome) {
	origins := l.Line.Trace(out.Refusal, p)
	if !l.quarantine(origins, out.Refusal.Message, "HAProxy refuses what an object asks for; the object is quarantined") {
		l.fail(fmt.Errorf("HAProxy refuses the configuration, and no object is to blame: %s", strings.TrimSpace(out.Refusal.Output)))
	}
}

// unbound quarantines the objects whose TCP service has a port that HAProxy can't have.
func (l *Loop) unbound(p *plan.Plan, err error) bool {
	origins, message := traceBind(err, p.Next.Served)
	return l.quarantine(origins, message, "HAProxy can't listen where an object asks for it; the object is quarantined")
}

// quarantine has the line do without an object to blame, if it finds one among the suspects.
func (l *Loop) quarantine(suspects []model.Origin, message, what string) bool {
	if len(suspects) == 0 || !l.Line.Quarantine(suspects, message, time.Now()) {
		return false
	}
	l.Log.Warn(what, "suspects", suspects, "message", message)
	l.want()
	l.dirty, l.reported = true, false
	return true
}

// bury notes that HAProxy is gone. It is started again at once, or, where it does not live
// long, after a wait that grows.
func (l *Loop) bury(cause error) {
	l.buried = l.Exited()
	if time.Since(l.revived) > longLife {
		l.deaths = 0
	}
	wait := time.Duration(0)
	if l.deaths > 0 {
		wait = delay(l.deaths - 1)
	}
	l.deaths++
	l.Log.Error("HAProxy is gone; it is started again", "cause", cause, "wait", wait)
	l.revive.Reset(wait)
}

// restart starts HAProxy again after it died.
func (l *Loop) restart(ctx context.Context) {
	l.revived = time.Now()
	out := l.Apply.Restart(ctx)
	if len(out.Reasons) > 0 {
		l.noteReload(out)
	}
	if out.Err != nil {
		l.fail(out.Err)
		return
	}
	l.dirty = true
}

// fail plans another try, the later the more tries failed before.
func (l *Loop) fail(err error) {
	wait := delay(l.failures)
	l.failures++
	if bind := (*process.BindError)(nil); !l.status.Ready && errors.As(err, &bind) {
		l.fatal = err
		return
	}
	l.Log.Error("not applied", "error", err, "retry", wait)
	l.status.Error = err.Error()
	l.retry.Reset(wait)
	l.publish(nil)
}

// delay is how long to wait after so many failures in a row.
func delay(failures int) time.Duration { return min(firstRetry<<min(failures, 10), lastRetry) }

func (l *Loop) succeed(reg *shard.Registry) {
	l.failures = 0
	l.status.Error = ""
	if l.flight == nil {
		outcome := l.Line.Applied()
		if l.behind && !l.dirty {
			l.Line.Planned()
			outcome = append(outcome, l.Line.Applied()...)
		}
		l.behind = false
		l.post(outcome)
		l.reported = l.reported && l.status.Ready
		if !l.status.Ready && len(l.awaited) > 0 {
			l.hold.Reset(holdAtMost) // from now on the wait has an end
		}
		l.status.Ready = true
		l.status.Applied = l.covered
	}
	if !l.since.IsZero() && !l.dirty {
		l.Metrics.Applied(time.Since(l.since))
		l.since = time.Time{}
	}
	l.publish(reg)
}

func (l *Loop) noteReload(out apply.Outcome) {
	reload := admin.Reload{At: time.Now(), Reasons: out.Reasons}
	switch {
	case out.Refusal != nil:
		reload.Error = out.Refusal.Error()
	case out.Err != nil:
		reload.Error = out.Err.Error()
	}
	l.status.Reloads = append([]admin.Reload{reload}, l.status.Reloads[:min(len(l.status.Reloads), keptReloads-1)]...)
}
