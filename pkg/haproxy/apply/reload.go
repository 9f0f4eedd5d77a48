package apply

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/plan"
	"github.com/sluice-proxy/sluice/pkg/haproxy/shard"
	"github.com/sluice-proxy/sluice/pkg/haproxy/socket"
	"github.com/sluice-proxy/sluice/pkg/haproxy/tree"
)

// flight is a reload from its start to its outcome. Its fields are guarded by mu of
// Apply, but for those that do not change.
type flight struct {
	plan     *plan.Plan // the one with the reload
	n        int        // of the generation that is staged
	previous int        // that of the generation before it, from the swap on; 0: there was none
	number   uint64     // in its maps/sluice.map
	worker   int        // pid of the old worker; 0: not known
	settled  bool       // the old worker held the number of its files when this began
	expected *shard.Registry

	told    bool         // the old worker was told something
	unknown string       // why served does not say it; empty: it does
	served  *model.Model // what the old worker serves by now; nil: not known

	// What Do was given meanwhile: up to the check of the staged generation only the last
	// version of each file counts (nil: it is removed), since a reload may wait for long.
	early   map[string]*tree.File
	reached *shard.Registry // with them; nil: there were none
	checked bool            // the generation is complete
	journal []*plan.Plan    // those that came later

	sections map[string]model.Digest // of the staged profiles
}

// Reload carries out a plan with a reload, or with the first start. It returns at once;
// the channel yields one Outcome. A second reload must wait for it.
func (a *Apply) Reload(ctx context.Context, p *plan.Plan) <-chan Outcome {
	if p.Reload == nil {
		panic("apply: Reload with a plan that has none")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.flight != nil {
		panic("apply: a reload is in flight already")
	}
	done := make(chan Outcome, 1)
	if a.stale(p) {
		done <- Outcome{Registry: a.reg, Err: ErrStale}
		return done
	}
	a.number++
	f := &flight{plan: p, n: a.cfg.Folder.Generation() + 1, number: a.number, served: a.reg.Served, early: map[string]*tree.File{},
		worker: a.WorkerPID(), settled: a.settled}
	f.expected = a.expect(f, p)
	a.flight = f
	a.cfg.Fault("reload begins")
	out := Outcome{Reasons: slices.Clone(p.Reload.Reasons)}
	a.tell(ctx, f, p)
	a.cfg.Fault("early commands sent")
	go func() { done <- a.fly(ctx, f, out) }()
	return done
}

// expect is the registry after the success of a plan of this flight.
func (a *Apply) expect(f *flight, p *plan.Plan) *shard.Registry {
	return with(p.Next, func(r *shard.Registry) {
		r.Batch, r.Header.Generation = f.number, f.n
	})
}

// tell gives the old worker the commands that make sense to it. Before the first one the
// number in the file is raised, so that a start after a kill does not adopt the worker.
func (a *Apply) tell(ctx context.Context, f *flight, p *plan.Plan) {
	commands := applicable(a.reg.Worker, f.served, commandsOf(p))
	if len(commands) == 0 {
		return
	}
	if a.settled {
		if err := a.unsettle(a.reg.Tree); err != nil {
			a.cfg.Log.Warn("the worker is told nothing before the reload", "error", err)
			return
		}
	}
	s := a.send(ctx, commands)
	f.told = true
	for _, c := range s.done {
		f.served = told(f.served, p.Next.Served, c)
	}
	if s.drift || s.err != nil || f.served == nil {
		f.unknown = oddAnswer
	}
}

// Early tells the old worker what a plan changes at its servers which must wait with a
// reload of its own for the one in flight. That spares requests the way to endpoints that
// are gone, no more: the plan is not noted, and has to be made again after the reload. One
// that is stale, or comes when no reload is in flight, changes nothing.
func (a *Apply) Early(ctx context.Context, p *plan.Plan) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p.Reload != nil && a.flight != nil && !a.stale(p) {
		a.tell(ctx, a.flight, p)
		a.cfg.Fault("journal told")
	}
}

// journal takes a plan that was made while a reload is in flight.
func (a *Apply) journal(ctx context.Context, p *plan.Plan) Outcome {
	f := a.flight
	f.note(p)
	f.expected = a.expect(f, p)
	a.tell(ctx, f, p)
	a.cfg.Fault("journal told")
	return Outcome{Registry: f.expected}
}

// note keeps what has to be done after the success of the reload, or in what it reads.
func (f *flight) note(p *plan.Plan) {
	if f.checked {
		f.journal = append(f.journal, p)
		return
	}
	for i := range p.Writes {
		f.early[p.Writes[i].File.Path] = &p.Writes[i].File
	}
	for _, r := range p.Removals {
		f.early[r.Path] = nil
	}
	f.reached = p.Next
}

// next is the registry that the staged generation leads to.
func (f *flight) next() *shard.Registry {
	if f.reached != nil {
		return f.reached
	}
	return f.plan.Next
}

// fly is the reload after its early commands, in a goroutine of its own.
func (a *Apply) fly(ctx context.Context, f *flight, out Outcome) Outcome {
	if a.cfg.Pace != nil {
		if err := a.cfg.Pace(ctx); err != nil {
			out.Err = fmt.Errorf("wait for the turn of a reload: %w", err)
			return a.abandon(ctx, f, out)
		}
	}
	if err := a.awaitRoom(ctx, f); err != nil {
		out.Err = fmt.Errorf("wait for the end of an old worker: %w", err)
		return a.abandon(ctx, f, out)
	}
	if err := a.prepare(ctx, f); err != nil {
		if !errors.As(err, &out.Refusal) {
			out.Err = err
		}
		return a.abandon(ctx, f, out)
	}
	if err := a.swap(f); err != nil {
		out.Err = err
		return a.abandon(ctx, f, out)
	}
	if err := a.load(ctx, f); err != nil {
		out.Err = fmt.Errorf("load generation %d: %w", f.n, err)
		return a.swapBack(ctx, f, out)
	}
	a.cfg.Fault("reloaded")
	return a.land(ctx, f, out)
}

// prepare stages the generation, with what came into the journal meanwhile, and lets
// HAProxy check it.
func (a *Apply) prepare(ctx context.Context, f *flight) error {
	if err := a.stage(f.n, wholeTree(f.plan), f.number); err != nil {
		return err
	}
	a.cfg.Fault("reload staged")
	if err := a.catchUp(f); err != nil {
		return err
	}
	a.cfg.Fault("journal staged")
	f.sections = a.sectionsIn(f.n)
	ctx, cancel := context.WithTimeout(ctx, a.cfg.LoadTimeout)
	defer cancel()
	return a.cfg.Check(ctx, filepath.Join(a.cfg.Folder.Dir(f.n), "conf.d"))
}

// catchUp writes what came meanwhile into the staged generation. Nobody reads it yet.
func (a *Apply) catchUp(f *flight) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	f.checked = true
	last := f.early
	if f.reached != nil {
		file := tree.GenerationFile(f.number, f.reached.Tree.Digest())
		last[tree.GenerationPath] = &file
	}
	b := a.cfg.Folder.BatchIn(f.n)
	for _, path := range slices.Sorted(maps.Keys(last)) {
		file := last[path]
		if file == nil {
			if err := b.Remove(path); err != nil {
				return err
			}
			continue
		}
		if err := b.Write(*file); err != nil {
			return err
		}
		a.wrote(file.Kind)
	}
	return b.Sync()
}

// swap makes the staged generation the current one. The one before gets a number of its
// own first: what the old worker is told from now on is not in it, should it become the
// current one again.
func (a *Apply) swap(f *flight) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cfg.Fault("checked")
	f.previous = a.cfg.Folder.Generation()
	if a.settled {
		if err := a.unsettle(a.reg.Tree); err != nil {
			return err
		}
	}
	if err := a.cfg.Folder.Swap(f.n); err != nil {
		if a.cfg.Folder.Generation() == f.n && f.previous != 0 {
			// The rename was done, the sync of the folder failed.
			err = errors.Join(err, a.cfg.Folder.Swap(f.previous))
		}
		return err
	}
	a.cfg.Fault("swapped")
	return nil
}

// load makes HAProxy read the current generation: by a reload, or by a start where no
// worker runs.
func (a *Apply) load(ctx context.Context, f *flight) error {
	a.mu.Lock()
	running := a.running
	a.mu.Unlock()
	supervised := a.cfg.Supervisor != nil
	if supervised && !running {
		return a.start(ctx)
	}
	err := a.reload(ctx)
	if err == nil && !supervised && !a.readBy(ctx, f.number) {
		// Somebody else started HAProxy at that moment: the worker that became ready is that
		// start's, and has read what stood there before.
		if err = a.reload(ctx); err == nil && !a.holds(ctx, f.number) {
			return errors.New("haproxy was reloaded and has not read the generation that stands")
		}
	}
	var refused *socket.Refused
	switch {
	case err == nil || errors.As(err, &refused) || ctx.Err() != nil:
		return err
	case supervised && a.cfg.Supervisor.PID() == 0:
		return a.start(ctx) // it died meanwhile
	case a.holds(ctx, f.number):
		return nil // it did reload, only the answer was lost
	}
	return err
}

func (a *Apply) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.LoadTimeout)
	defer cancel()
	return a.cfg.Supervisor.Start(ctx)
}

func (a *Apply) reload(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.LoadTimeout)
	defer cancel()
	_, err := a.cfg.Master.Reload(ctx)
	return err
}

// readBy is holds, for a worker that said that it is ready.
func (a *Apply) readBy(ctx context.Context, number uint64) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return a.holds(ctx, number)
}

// holds asks for a while whether the worker that answers, whichever that is, has loaded a
// number. That there is another worker is not enough: one that still loads is listed, too,
// and may fail.
func (a *Apply) holds(ctx context.Context, number uint64) bool {
	const between = 50 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, a.cfg.CommandTimeout)
	defer cancel()
	for a.numberOfAny(ctx) != number {
		if !pause(ctx, between) {
			return false
		}
	}
	return true
}

func (a *Apply) numberOfAny(ctx context.Context) uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	expected := a.worker.Swap(0)
	defer a.worker.Store(expected)
	number, err := a.cfg.Worker.Generation(ctx)
	if err != nil {
		return 0 // no batch has it
	}
	return number
}

// land ends a flight that succeeded: what the new worker has not read is told to it.
func (a *Apply) land(ctx context.Context, f *flight, out Outcome) Outcome {
	pid := a.newWorker(ctx, f.worker)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cfg.Log.Info("HAProxy was loaded", "generation", f.n, "worker", pid, "reasons", out.Reasons)
	if a.cfg.Metrics.Reloaded != nil {
		a.cfg.Metrics.Reloaded(out.Reasons)
	}
	out.Reloaded = true
	a.flight = nil
	a.busy = nil
	a.running = true
	a.landed(f, f.next())
	if len(f.journal) > 0 {
		more := a.batch(ctx, merged(f.journal))
		out.Err, out.Drift = more.Err, more.Drift
		a.cfg.Fault("journal replayed")
	} else {
		a.save()
	}
	a.prune()
	if out.Err == nil && !out.Drift {
		a.asPromised, a.promised = a.reg, f.number
	}
	a.cfg.Fault("reload ends")
	out.Registry = a.reg
	return out
}

// landed notes that the worker has read the generation of the flight. The number of the
// generation is that of the flight; numbers written into the old one meanwhile are
// higher, so the next batch begins above them.
func (a *Apply) landed(f *flight, next *shard.Registry) {
	a.file, a.sections = f.number, f.sections
	a.keep(next)
	a.reg.Worker.Lists = nil // it has those of the files only
	a.disk = next.Served
	a.settled = true
}

// merged is one plan of several that follow one another. More than one plan is staged:
// in between, single writes of one could undo those of another.
func merged(plans []*plan.Plan) *plan.Plan {
	last := plans[len(plans)-1]
	if len(plans) == 1 {
		return last
	}
	m := &plan.Plan{Tree: last.Tree, Next: last.Next, Stage: true}
	for _, p := range plans {
		m.Commands = append(m.Commands, p.Commands...)
		m.Writes = append(m.Writes, p.Writes...)
	}
	return m
}

// swapBack ends a flight whose reload failed after the check had passed.
func (a *Apply) swapBack(ctx context.Context, f *flight, out Outcome) Outcome {
	a.mu.Lock()
	if f.previous != 0 {
		if err := a.cfg.Folder.Swap(f.previous); err != nil {
			out.Err = errors.Join(out.Err, err)
		}
		a.cfg.Fault("swapped back")
	}
	a.mu.Unlock()
	return a.abandon(ctx, f, out)
}

// abandon ends a flight that failed. The old worker serves on; what it was told meanwhile
// stands in Served, and not in the files.
func (a *Apply) abandon(ctx context.Context, f *flight, out Outcome) Outcome {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.flight = nil
	first := f.n == a.cfg.Folder.Generation()
	if !first {
		if err := a.cfg.Folder.Discard(f.n); err != nil {
			a.cfg.Log.Warn("the staged generation could not be removed", "generation", f.n, "error", err)
		}
	} else {
		a.firstFailed(f)
	}
	switch {
	case f.unknown != "":
		a.unknown(f.unknown)
	case f.told:
		a.reg = with(a.reg, func(r *shard.Registry) { r.Served, r.Scanned = f.served, true })
	case f.settled && !a.settled && ctx.Err() == nil:
		if !a.settle(ctx) { // else it still serves what the files say
			a.unknown(oddAnswer)
		}
	}
	if !first && !a.running && a.cfg.Supervisor != nil && a.cfg.Folder.Generation() != 0 {
		if err := a.startCurrent(ctx); err != nil {
			out.Err = errors.Join(out.Err, err)
		}
	}
	out.Drift = a.reg.Served == nil
	a.cfg.Fault("reload abandoned")
	out.Registry = a.reg
	return out
}

// firstFailed notes that the first generation of all stays, although HAProxy could not
// be started on it: there is none to swap back to, and it has passed the check.
func (a *Apply) firstFailed(f *flight) {
	a.landed(f, f.next())
	a.settled = false
	a.unknown(notStarted)
}

// Restart starts HAProxy again on the current generation, at once, after its master has
// died. While a reload is in flight that one starts it; one that landed meanwhile has.
func (a *Apply) Restart(ctx context.Context) Outcome {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.flight == nil && a.running && a.cfg.Supervisor != nil && a.cfg.Supervisor.PID() != 0 {
		return Outcome{Registry: a.reg}
	}
	a.running, a.busy = false, nil
	if a.flight != nil {
		a.flight.served, a.flight.unknown = nil, wasGone
		return Outcome{Registry: a.flight.expected}
	}
	a.unknown(wasGone)
	if a.cfg.Supervisor == nil || a.cfg.Folder.Generation() == 0 {
		return Outcome{Registry: a.reg, Drift: true}
	}
	if err := a.startCurrent(ctx); err != nil {
		return Outcome{Registry: a.reg, Drift: true, Err: err}
	}
	return Outcome{Registry: a.reg, Reloaded: true, Drift: a.reg.Served == nil, Reasons: []string{wasGone}}
}

// startCurrent starts HAProxy on the current generation: then it serves what the files
// say, and has loaded their number.
func (a *Apply) startCurrent(ctx context.Context) error {
	if err := a.start(ctx); err != nil {
		return fmt.Errorf("start HAProxy on generation %d: %w", a.cfg.Folder.Generation(), err)
	}
	pid := a.newWorker(ctx, 0)
	a.sections = a.sectionsIn(a.cfg.Folder.Generation())
	a.reg = with(a.reg, func(r *shard.Registry) { r.Worker = shard.Worker{Dynamic: a.dynamic.Load(), Sections: a.sections} })
	a.running, a.settled = true, a.disk != nil
	if a.unknown(edited); a.disk != nil {
		a.reg = with(a.reg, func(r *shard.Registry) { r.Served, r.Unknown = a.disk, "" })
	}
	a.cfg.Log.Warn("HAProxy was started on the generation that stands", "generation", a.cfg.Folder.Generation(), "worker", pid)
	if a.cfg.Metrics.Reloaded != nil {
		a.cfg.Metrics.Reloaded([]string{wasGone})
	}
	a.save()
	return nil
}
