package apply

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-proxy/sluice/pkg/haproxy/plan"
	"github.com/sluice-proxy/sluice/pkg/haproxy/shard"
	"github.com/sluice-proxy/sluice/pkg/haproxy/socket"
	"github.com/sluice-proxy/sluice/pkg/haproxy/tree"
)

// Do carries out a plan without a reload. While a reload is in flight the plan, made
// against Expected, goes into its journal, and the old worker is told at once.
func (a *Apply) Do(ctx context.Context, p *plan.Plan) Outcome {
	if p.Reload != nil {
		panic("apply: Do with a plan that has a reload")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stale(p) {
		return Outcome{Registry: a.expected(), Err: ErrStale}
	}
	if a.flight != nil {
		return a.journal(ctx, p)
	}
	return a.batch(ctx, p)
}

// batch carries out a plan on the worker and the folder: see the package comment for the
// order. mu is held.
func (a *Apply) batch(ctx context.Context, p *plan.Plan) Outcome {
	a.cfg.Fault("batch begins")
	if err := a.unsettle(p.Next.Tree); err != nil {
		return Outcome{Registry: a.reg, Err: err}
	}
	sent := a.send(ctx, commandsOf(p))
	a.cfg.Fault("commands sent")
	if sent.err != nil {
		a.unknown(noAnswer)
		return Outcome{Registry: a.reg, Drift: true, Err: fmt.Errorf("tell the worker: %w; it is reloaded", sent.err)}
	}
	if err := a.writeFiles(p); err != nil {
		err = errors.Join(err, a.notWritten(p, sent))
		return Outcome{Registry: a.reg, Drift: a.reg.Served == nil, Err: err}
	}
	a.disk = p.Next.Served
	a.keep(p.Next)
	if sent.drift || !a.settle(ctx) {
		a.unknown(oddAnswer)
	}
	a.save()
	a.cfg.Fault("batch saved")
	return Outcome{Registry: a.reg, Drift: a.reg.Served == nil}
}

// notWritten notes what stands after a batch whose commands were sent and whose files
// could not all be written.
func (a *Apply) notWritten(p *plan.Plan, sent sent) error {
	served := a.reg.Served
	for _, c := range sent.done {
		served = told(served, p.Next.Served, c)
	}
	now, err := a.cfg.Folder.Compare()
	if err != nil {
		now, served = &tree.Tree{}, nil // all is written anew
	}
	a.disk = nil
	a.stands(withoutGeneration(now), served)
	if sent.drift || served == nil {
		a.unknown(oddAnswer)
	}
	return err
}

// unsettle writes a new number into the file, so that it differs from the worker's until
// the batch is done, and the digest of the tree that it leads to.
func (a *Apply) unsettle(to *tree.Tree) error {
	if a.cfg.Folder.Generation() == 0 {
		return errors.New("there is no generation to change yet: the first plan must have a reload")
	}
	file := tree.GenerationFile(a.number+1, to.Digest())
	if err := a.cfg.Folder.Batch().WriteLoose(file); err != nil {
		return err
	}
	a.wrote(file.Kind)
	a.number++
	a.file = a.number
	a.settled = false
	a.cfg.Fault("batch marked")
	return nil
}

// settle sets the worker's number to that of the file.
func (a *Apply) settle(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.CommandTimeout)
	defer cancel()
	err := a.ask(ctx, func() error { return a.cfg.Worker.SetGeneration(ctx, a.file) })
	a.commandSent("set map", err == nil)
	a.cfg.Fault("key set")
	if err != nil {
		a.cfg.Log.Error("the worker did not take the number of the batch; it is reloaded", "error", err)
		return false
	}
	a.settled = true
	return true
}

// keep makes next the registry of what stands.
func (a *Apply) keep(next *shard.Registry) {
	a.reg = with(next, func(r *shard.Registry) {
		r.Batch = a.file
		r.Header.Generation = a.cfg.Folder.Generation()
		r.Worker.Dynamic, r.Worker.Sections = a.dynamic.Load(), a.sections
	})
}

// Why it is not known what the worker serves: the words of a reload's reason.
const (
	firstStart = "first start"
	notRunning = "no HAProxy ran"
	noAnswer   = "its runtime socket does not answer"
	oddAnswer  = "unexpected answer to a command"
	disagree   = "files and worker disagree"
	edited     = "files were edited"
	notStarted = "HAProxy could not be started"
	wasGone    = "HAProxy was gone"
)

// unknown notes that it is not known what the worker serves.
func (a *Apply) unknown(why string) {
	a.reg = with(a.reg, func(r *shard.Registry) { r.Served, r.Unknown = nil, why })
}

func with(r *shard.Registry, change func(*shard.Registry)) *shard.Registry {
	next := *r
	change(&next)
	return &next
}

// writeFiles brings the folder to the plan's tree. What is removed goes last, when all
// that named it is known to be on the disk.
func (a *Apply) writeFiles(p *plan.Plan) error {
	if p.Stage {
		return a.restage(p)
	}
	b := a.cfg.Folder.Batch()
	list := make([]tree.File, len(p.Writes))
	for i, w := range p.Writes {
		list[i] = w.File
	}
	if err := b.WriteAll(list); err != nil {
		return err
	}
	for _, file := range list {
		a.wrote(file.Kind)
	}
	if err := b.Sync(); err != nil {
		return err
	}
	for _, r := range p.Removals {
		if err := b.Remove(r.Path); err != nil {
			return err
		}
	}
	return b.Sync()
}

// restage brings the folder to the plan's tree by a new generation that the running
// worker needs not read.
func (a *Apply) restage(p *plan.Plan) error {
	n := a.cfg.Folder.Generation() + 1
	if err := a.stage(n, wholeTree(p), a.file); err != nil {
		return err
	}
	if err := a.cfg.Folder.Swap(n); err != nil {
		return err
	}
	a.cfg.Fault("generation swapped")
	a.prune()
	return nil
}

func (a *Apply) prune() {
	if err := a.cfg.Folder.Prune(); err != nil {
		a.cfg.Log.Warn("old generations could not be removed; this is tried again with the next one", "error", err)
	}
}

// stage builds generation n, which gets the given number.
func (a *Apply) stage(n int, wanted *tree.Tree, number uint64) error {
	wanted.Add(tree.GenerationFile(number, wanted.Digest()))
	written, err := a.cfg.Folder.Stage(n, wanted, a.reg.Tree)
	for kind, count := range written {
		for range count {
			a.wrote(kind)
		}
	}
	return err
}

// wholeTree is the plan's tree as a new value, with the content of each file that some
// step of the plan writes.
func wholeTree(p *plan.Plan) *tree.Tree {
	t := p.Tree.Clone()
	for _, w := range p.Writes {
		if file, found := t.Lookup(w.File.Path); found && file.Bytes() == nil && file.Digest == w.File.Digest {
			t.Add(w.File)
		}
	}
	return t
}

func (a *Apply) wrote(kind tree.Kind) {
	if a.cfg.Metrics.FileWritten != nil {
		a.cfg.Metrics.FileWritten(kind)
	}
}

func (a *Apply) commandSent(verb string, ok bool) {
	if a.cfg.Metrics.CommandSent != nil {
		a.cfg.Metrics.CommandSent(verb, ok)
	}
}

func commandsOf(p *plan.Plan) []plan.Command {
	list := make([]plan.Command, len(p.Commands))
	for i, c := range p.Commands {
		list[i] = c.Command
	}
	return list
}

// sent is what became of a row of commands.
type sent struct {
	done  []plan.Command // that the worker is known to have carried out
	drift bool           // it answered one in a way that leaves open what it did
	err   error          // the socket failed: anything may have happened
}

// send tells the worker. Backends that go are noted only, see RetryRemovals.
func (a *Apply) send(ctx context.Context, commands []plan.Command) sent {
	now, later := postponed(commands)
	s := a.run(ctx, now)
	if s.err != nil || s.drift {
		return s // routes may still lead there
	}
	for _, c := range later {
		a.postpone(c)
		s.done = append(s.done, c)
	}
	return s
}

// run sends commands to the worker.
func (a *Apply) run(ctx context.Context, commands []plan.Command) sent {
	if len(commands) == 0 {
		return sent{}
	}
	ctx, cancel := context.WithTimeout(ctx, a.cfg.CommandTimeout)
	defer cancel()
	var results []socket.Result
	err := a.ask(ctx, func() (err error) {
		results, err = a.cfg.Worker.Run(ctx, commands)
		return err
	})
	if err == nil && len(results) != len(commands) {
		err = fmt.Errorf("%d commands, but %d results", len(commands), len(results))
	}
	s := sent{err: err}
	for _, r := range results {
		var busy *socket.Pending
		ok := r.Err == nil || errors.As(r.Err, &busy)
		a.commandSent(r.Command.Verb(), ok)
		switch {
		case ok:
			s.done = append(s.done, r.Command)
			a.noteBusy(r.Command, busy)
		case err == nil:
			s.drift = true
			a.cfg.Log.Warn("a runtime command was not carried out; a reload puts it right", "command", plan.Describe(r.Command), "error", r.Err)
		}
	}
	return s
}

// ask calls the worker. Just after a reload the one before it may still accept on the
// same socket for a moment; then the call is made again.
func (a *Apply) ask(ctx context.Context, call func() error) error {
	for {
		err := call()
		var wrong *socket.WrongWorker
		if !errors.As(err, &wrong) || wrong.Have != int(a.replaced.Load()) || !pause(ctx, moment) {
			return err
		}
	}
}

// moment is the time between two looks at what is over soon.
const moment = 2 * time.Millisecond

// pause waits; false: ctx has ended.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
