package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"time"

	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/plan"
	"github.com/sluice-proxy/sluice/pkg/haproxy/tree"
)

// control measures the controller.
func (b *bench) control(ctx context.Context) error {
	few, err := b.begin(ctx, "few", fewServices)
	if err != nil {
		return err
	}
	defer few.stop()
	few.idle = collect()
	all, err := b.begin(ctx, "all", b.services)
	if err != nil {
		return err
	}
	defer all.stop()
	for _, part := range []func() error{
		func() error { return b.scratch(all) },
		func() error { return b.restart(ctx, all) },
		func() error { return b.endpoints(ctx, few, all) },
		func() error { return b.latency(ctx, all) },
		func() error { return b.added(ctx, all) },
		func() error { return b.global(ctx, all) },
		func() error { return b.memory(few, all) },
		b.manyCertificates,
	} {
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

// latencyOnly measures no more than the time from events to commands.
func (b *bench) latencyOnly(ctx context.Context) error {
	all, err := b.begin(ctx, "all", b.services)
	if err != nil {
		return err
	}
	defer all.stop()
	return b.profiled(func() error { return b.latency(ctx, all) })
}

// world is a rig with the objects that it serves.
type world struct {
	*rig
	cluster cluster
	idle    collector // of the process while the world is all that is live
}

// begin loads a number of Services and starts HAProxy on them.
func (b *bench) begin(ctx context.Context, name string, services int) (*world, error) {
	progress("loading %d Services and starting HAProxy on them", services)
	r, err := b.newRig(name)
	if err != nil {
		return nil, err
	}
	w := &world{rig: r, cluster: cluster{services: services, endpoints: perService, port: 8080}}
	if err := r.up(ctx); err != nil {
		return nil, err
	}
	s, err := r.take(ctx, w.cluster.changes())
	if err != nil {
		return nil, err
	}
	if n := r.line.model.Backends.Len(); n != services || !s.out.Reloaded {
		return nil, fmt.Errorf("%d backends, HAProxy started: %v", n, s.out.Reloaded)
	}
	return w, nil
}

// scratch measures conversion of everything against the parse of the result, by turns.
func (b *bench) scratch(w *world) error {
	b.table.begin(fmt.Sprintf("Everything: %d Services with %d endpoints each", w.cluster.services, perService))
	old := w.apply.Expected() // the files of the tree stand in the folder
	changes := w.cluster.changes()
	if err := w.down(); err != nil {
		return err
	}
	var parse34, parse32, scratch, full []time.Duration
	var toParse, fullToParse []float64
	var allocated uint64
	shards := 0
	for range b.rounds {
		p34, err := parse(b.binaries["3.4"], w.confDir())
		if err != nil {
			return err
		}
		p32, err := parse(b.binaries["3.2"], w.confDir())
		if err != nil {
			return err
		}
		var first *plan.Plan
		l := newLine(w.setup)
		u := fresh(func() {
			l.take(changes)
			first = l.plan(nil)
		})
		if len(first.Writes) != old.Tree.Len() {
			return fmt.Errorf("%d files from scratch, %d in the folder", len(first.Writes), old.Tree.Len())
		}
		l.snapshot.Apply([]snapshot.Change{settings(map[string]string{"timeout-client": "49s"})})
		first = nil
		f := fresh(func() {
			l.anew()
			first = l.plan(old)
		})
		shards += kinds(first)[tree.Shard]
		if !sameFiles(first, "conf.d/20-frontends.cfg") {
			return fmt.Errorf("a change of timeout-client writes %v", kinds(first))
		}
		parse34, parse32 = append(parse34, p34), append(parse32, p32)
		scratch, full = append(scratch, u.cpu), append(full, f.cpu)
		toParse = append(toParse, u.cpu.Seconds()/p34.Seconds())
		fullToParse = append(fullToParse, f.cpu.Seconds()/p34.Seconds())
		allocated = u.allocated
	}
	b.parse = median(parse34)
	t := &b.table
	t.inform("CPU of the parse by HAProxy 3.4 (3.2)", fmt.Sprintf("%s (%s)", seconds(median(parse34)), seconds(median(parse32))))
	t.inform("CPU from scratch: snapshot, conversion, shards, rendering, plan", seconds(median(scratch)))
	t.inform("allocated from scratch", megabytes(allocated))
	t.ratio("CPU from scratch / the parse", median(toParse), 1.0)
	t.inform("CPU of a full reconciliation, everything converted anew", seconds(median(full)))
	t.ratio("CPU of a full reconciliation / the parse", median(fullToParse), 0.5)
	t.claim("shard files that a full reconciliation writes", "0", fmt.Sprint(shards), shards == 0)
	return nil
}

// kinds counts the files that a plan writes.
func kinds(p *plan.Plan) map[tree.Kind]int {
	counts := map[tree.Kind]int{}
	for _, w := range p.Writes {
		counts[w.File.Kind]++
	}
	return counts
}

// sameFiles tells whether a plan writes these files and no others, and removes none.
func sameFiles(p *plan.Plan, paths ...string) bool {
	want, have := map[string]bool{}, map[string]bool{}
	for _, path := range paths {
		want[path] = true
	}
	for _, w := range p.Writes {
		have[w.File.Path] = true
	}
	return maps.Equal(want, have) && len(p.Removals) == 0
}

// restart starts the controller anew, with nothing changed and HAProxy running.
func (b *bench) restart(ctx context.Context, w *world) error {
	changes := w.cluster.changes()
	pid := w.supervisor.PID()
	before, err := w.standing()
	if err != nil {
		return err
	}
	var opened, planned usage
	var p *plan.Plan
	opened = fresh(func() { err = w.up(ctx) })
	if err != nil {
		return err
	}
	planned = measure(func() {
		w.line.take(changes)
		p = w.line.plan(w.apply.Expected())
	})
	w.line.memo.Planned()
	w.line.memo.Applied()
	after, err := w.standing()
	if err != nil {
		return err
	}
	b.table.begin("Restart of the controller with nothing changed")
	touched := 0
	for path, stamp := range after {
		if before[path] != stamp {
			touched++
		}
	}
	b.table.claim("files written or removed", "0", fmt.Sprint(touched+len(before)-len(after)), maps.Equal(before, after))
	b.table.claim("steps of the first plan, reloads among them", "0", fmt.Sprint(len(p.Steps())), p.Empty())
	b.table.claim("HAProxy is the same process", "yes", yes(w.supervisor.PID() == pid), w.supervisor.PID() == pid)
	b.table.inform("CPU of reading the folder and the registry", seconds(opened.cpu))
	b.table.inform("CPU of conversion and plan", seconds(planned.cpu))
	return nil
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

// added adds an Ingress with a Service of its own.
func (b *bench) added(ctx context.Context, w *world) error {
	i := w.cluster.services
	w.cluster.services++
	runtime.GC()
	s, err := w.take(ctx, []snapshot.Change{w.cluster.service(i), w.cluster.slice(i, 0), w.cluster.ingress(i)})
	if err != nil {
		return err
	}
	counts := kinds(s.plan)
	b.table.begin("One Ingress with a new Service is added")
	b.table.claim("shard files written", "1", fmt.Sprint(counts[tree.Shard]), counts[tree.Shard] == 1)
	b.table.claim("registry files written", "1", fmt.Sprint(s.registry), s.registry == 1)
	only := counts[tree.Shard]+counts[tree.Map] == len(s.plan.Writes) && counts[tree.Map] == 2 && writes(s.plan, "maps/hosts.map") && writes(s.plan, "maps/routes-prefix.map")
	b.table.claim("all files written", "1 shard, 2 maps", s.written(), only && len(s.plan.Removals) == 0)
	b.table.claim("reloads", "0", fmt.Sprint(count(s.out.Reloaded)), !s.out.Reloaded && s.plan.Reload == nil)
	b.table.inform("runtime commands", fmt.Sprint(len(s.plan.Commands)))
	b.table.inform("CPU of conversion, shards, rendering, plan", milliseconds(s.line.cpu))
	b.table.inform("CPU of commands, files, registry", milliseconds(s.apply.cpu))
	return nil
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

func writes(p *plan.Plan, path string) bool {
	for _, w := range p.Writes {
		if w.File.Path == path {
			return true
		}
	}
	return false
}

// global changes a global setting that touches no backend, with the memo that is there.
func (b *bench) global(ctx context.Context, w *world) error {
	s, err := w.take(ctx, []snapshot.Change{settings(map[string]string{"timeout-client": "51s"})})
	if err != nil {
		return err
	}
	b.table.begin("A global setting that touches no backend changes")
	b.table.claim("shard files and registry records written", "0", fmt.Sprint(s.files[tree.Shard]+s.registry-1), s.files[tree.Shard] == 0 && s.registry == 1)
	b.table.claim("all files written", "frontends", s.written(), sameFiles(s.plan, "conf.d/20-frontends.cfg"))
	b.table.inform("CPU of conversion and plan", milliseconds(s.line.cpu))
	return nil
}

// maxHeap is the memory that the controller may use, bytes.
const maxHeap = 300 << 20

// memory measures the heap with everything loaded.
func (b *bench) memory(few, all *world) error {
	if err := few.down(); err != nil {
		return err
	}
	used := heap()
	b.table.begin("Memory")
	b.table.claim(fmt.Sprintf("heap in use: objects of %d Services, memo, model, registry", all.cluster.services), "<= 300 MiB",
		fmt.Sprintf("%d MiB", used>>20), used <= maxHeap)
	if all.line == nil || all.line.model.Backends.Len() != all.cluster.services {
		return errors.New("something was not loaded when the heap was measured")
	}
	return nil
}
