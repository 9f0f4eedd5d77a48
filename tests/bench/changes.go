package main

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/tree"
)

const (
	endpointChanges = 200 // of each size
	warmUp          = 3   // changes for each shard: after a restart the first one renders the whole shard
	maxChangeBytes  = 1_000_000

	// What a change may cost, and what the parse of 10 000 Services took on the machine for
	// which that was said: on a slower or busier one, both grow.
	maxChangeCPU = 2 * time.Millisecond
	parseCPU     = 870 * time.Millisecond
)

// costs are the sums over many changes of one endpoint.
type costs struct {
	line, apply   usage
	changes       int
	shards, other int // files written
	registry      int
	reloads       int
	runtime       int // commands
}

// endpoints changes one endpoint after the other, in the few and in all Services by turns.
func (b *bench) endpoints(ctx context.Context, few, all *world) error {
	progress("changing endpoints")
	for _, w := range []*world{few, all} {
		for i := range warmUp * w.apply.Expected().Header.Shards {
			if _, err := w.take(ctx, w.endpointChange(i, 1)); err != nil {
				return err
			}
		}
	}
	all.idle = collect()
	var little, much costs
	err := b.profiled(func() error {
		// The collector's share is added below, so that both worlds bear their own only.
		defer debug.SetGCPercent(debug.SetGCPercent(-1))
		for i := range endpointChanges {
			if err := little.add(ctx, few, few.endpointChange(i, 2)); err != nil {
				return err
			}
			if err := much.add(ctx, all, all.endpointChange(i, 2)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	b.reportEndpoints(little, much, few.idle, all.idle)
	return nil
}

// endpointChange replaces one endpoint of a Service; two changes in a row are of different
// ones.
func (w *world) endpointChange(i, version int) []snapshot.Change {
	return []snapshot.Change{w.cluster.slice(i*37%w.cluster.services, 2*(i/w.cluster.services)+version)}
}

func (c *costs) add(ctx context.Context, w *world, changes []snapshot.Change) error {
	s, err := w.take(ctx, changes)
	if err != nil {
		return err
	}
	c.changes++
	c.line, c.apply = c.line.plus(s.line), c.apply.plus(s.apply)
	c.shards += s.files[tree.Shard]
	for kind, n := range s.files {
		if kind != tree.Shard && kind != tree.Generation {
			c.other += n
		}
	}
	c.registry += s.registry
	c.runtime += len(s.plan.Commands)
	if s.out.Reloaded {
		c.reloads++
	}
	return nil
}

// each is what one change costs, with its share of garbage collections.
func (c *costs) each(collector collector) (total, line, apply, collection time.Duration, allocated uint64) {
	l, a := c.line.over(c.changes), c.apply.over(c.changes)
	collection = collector.share(l.plus(a))
	return l.cpu + a.cpu + collection, l.cpu, a.cpu, collection, l.allocated + a.allocated
}

func (b *bench) reportEndpoints(little, much costs, idleFew, idleAll collector) {
	fewTotal, fewLine, fewApply, fewGC, fewBytes := little.each(idleFew)
	total, line, apply, collection, allocated := much.each(idleAll)
	t := &b.table
	t.begin("One endpoint changes")
	n := fmt.Sprintf(" (mean of %d)", much.changes)
	parse := b.parse * time.Duration(allServices/b.services)
	limit := max(maxChangeCPU, time.Duration(float64(maxChangeCPU)*parse.Seconds()/parseCPU.Seconds()))
	t.claim("CPU for each change"+n, "<= 2 ms where the parse takes 0.87 s", fmt.Sprintf("%s (parse: %s)", milliseconds(total), seconds(parse)), total <= limit)
	t.inform("of it conversion, shards, rendering, plan", milliseconds(line))
	t.inform("of it commands, files, registry", milliseconds(apply))
	t.inform("of it its share of garbage collections", milliseconds(collection))
	t.claim("allocated for each change", "<= 1 MB", megabytes(allocated), allocated <= maxChangeBytes)
	t.ratio(fmt.Sprintf("CPU / that with %d Services, by turns", fewServices), total.Seconds()/fewTotal.Seconds(), 1.5)
	t.inform(fmt.Sprintf("with %d Services: CPU (line, apply, collections), allocated", fewServices),
		fmt.Sprintf("%s (%s, %s, %s), %s", milliseconds(fewTotal), milliseconds(fewLine), milliseconds(fewApply), milliseconds(fewGC), megabytes(fewBytes)))
	exact := func(what string, have, want int) {
		t.claim(what, fmt.Sprint(want), fmt.Sprintf("%.2f", float64(have)/float64(much.changes)), have == want*much.changes)
	}
	exact("shard files written", much.shards, 1)
	exact("registry files written", much.registry, 1)
	exact("other files written, but the number of the batch", much.other, 0)
	exact("reloads", much.reloads, 0)
	t.inform("runtime commands", fmt.Sprintf("%.2f", float64(much.runtime)/float64(much.changes)))
}

// manyCertificates changes endpoints where each host has a certificate of its own. HAProxy
// is not asked: loading the certificates alone takes it a minute.
func (b *bench) manyCertificates() error {
	progress("making %d certificates", b.services)
	pairs, err := keyPairs(b.services)
	if err != nil {
		return err
	}
	s, err := newSetup("127.0.0.1:80", b.dir)
	if err != nil {
		return err
	}
	c := cluster{services: b.services, endpoints: perService, port: 8080, secrets: pairs}
	l := newLine(s)
	scratch := fresh(func() { l.take(c.changes()) })
	reg := l.plan(nil).Next
	l.memo.Planned()
	l.memo.Applied()
	idle := collect()
	var each usage
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	for i := range endpointChanges {
		changes := []snapshot.Change{c.slice(i*37%c.services, 1+i)}
		each = each.plus(measure(func() {
			l.take(changes)
			reg = l.plan(reg).Next
		}))
	}
	each = each.over(endpointChanges)
	b.table.begin(fmt.Sprintf("%d hosts with a certificate each", c.services))
	b.table.inform("CPU of the conversion from scratch", seconds(scratch.cpu))
	b.table.inform("one endpoint changes: CPU of conversion, shards, rendering, plan, with collections", milliseconds(each.cpu+idle.share(each)))
	b.table.inform("one endpoint changes: allocated", megabytes(each.allocated))
	return nil
}
