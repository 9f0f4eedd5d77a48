package apply

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/plan"
)

// A reload waits while old workers are as many as there may be, or take the memory that
// another worker needs. Changes go on meanwhile, and are in what the new worker reads.
func TestAReloadWaitsForOldWorkers(t *testing.T) {
	t.Parallel()
	const mega = 1 << 20
	each := func(int) int64 { return 100 * mega }
	for name, c := range map[string]struct {
		room  Room
		olds  int64
		waits string // in the reason; empty: it does not
	}{
		"as many as there may be":            {room: Room{OldWorkers: 2}, olds: 2, waits: "2 old workers"},
		"more, of a controller before":       {room: Room{OldWorkers: 2}, olds: 5, waits: "5 old workers"},
		"one less":                           {room: Room{OldWorkers: 2}, olds: 1},
		"no bound":                           {olds: 9},
		"no memory for another":              {room: Room{OldWorkers: 2, Memory: 399 * mega, Resident: each}, olds: 1, waits: "exceed the 399 MiB"},
		"memory for another":                 {room: Room{OldWorkers: 2, Memory: 400 * mega, Resident: each}, olds: 1},
		"no memory, but nothing to wait for": {room: Room{OldWorkers: 2, Memory: 1, Resident: each}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := start(t)
			synctest.Test(t, func(t *testing.T) {
				b.mustConverge(t, base())
				b.apply.cfg.Room = c.room
				b.haproxy.olds.Store(c.olds)
				wanted := withMaxConn(base(), 400)
				done := b.apply.Reload(context.Background(), b.render.plan(b.apply.Expected(), wanted))
				time.Sleep(time.Minute) // of the bubble
				if why := b.apply.Waiting(); (why != "") != (c.waits != "") || !strings.Contains(why, c.waits) {
					t.Fatalf("it waits: %q", why)
				}
				if c.waits != "" {
					wanted = b.manyChanges(t, wanted)
					b.haproxy.olds.Store(0)
				}
				if out := <-done; out.Err != nil || !out.Reloaded {
					t.Fatalf("outcome %+v", out)
				}
				if why := b.apply.Waiting(); why != "" {
					t.Errorf("it still waits: %s", why)
				}
				b.check(t, wanted)
				b.checkAdopted(t, wanted)
			})
		})
	}
}

// manyChanges changes the servers of a backend again and again while a reload waits. The
// journal holds what the files shall be, not how they came to it.
func (b *bench) manyChanges(t *testing.T, m *model.Model) *model.Model {
	t.Helper()
	for n := range 200 {
		m = servers(m, "a_x_80", 1100+n)
		if out := b.apply.Do(context.Background(), b.render.plan(b.apply.Expected(), m)); out.Err != nil || out.Drift {
			t.Fatalf("outcome %+v", out)
		}
		if !b.haproxy.has(fmt.Sprintf("127.0.0.1:%d", 1100+n)) {
			t.Fatal("the worker was not told of a server at once")
		}
	}
	if f := b.apply.flight; len(f.journal) > 0 || len(f.early) > 10 {
		t.Errorf("%d plans and %d files are kept", len(f.journal), len(f.early))
	}
	return m
}

// A worker that is told nothing, since it is not known what it serves, is left sooner.
func TestARepairLeavesMoreOldWorkers(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.mustConverge(t, base())
	b.apply.cfg.Room = Room{OldWorkers: 2}
	b.haproxy.olds.Store(3)
	f := &flight{plan: &plan.Plan{Reload: &plan.Reload{}}}
	if why := b.apply.crowded(context.Background(), f); why != "" {
		t.Errorf("a repair waits: %s", why)
	}
	b.haproxy.olds.Store(4)
	if b.apply.crowded(context.Background(), f) == "" {
		t.Error("repairs have no bound")
	}
	f.served = base()
	b.haproxy.olds.Store(2)
	if b.apply.crowded(context.Background(), f) == "" {
		t.Error("a change leaves as many as a repair")
	}
}

// Whoever stops sluice does not wait for old workers, and a master that is gone is no reason
// to wait.
func TestTheWaitForOldWorkersEnds(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.mustConverge(t, base())
	b.apply.cfg.Room = Room{OldWorkers: 1}
	b.haproxy.olds.Store(1)
	ctx, cancel := context.WithCancel(context.Background())
	wanted := withMaxConn(base(), 400)
	done := b.apply.Reload(ctx, b.render.plan(b.apply.Expected(), wanted))
	cancel()
	if out := <-done; out.Err == nil || out.Reloaded {
		t.Errorf("outcome %+v", out)
	}
	b.haproxy.olds.Store(0)
	b.mustConverge(t, wanted)
	b.check(t, wanted)
}
