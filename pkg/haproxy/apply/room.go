package apply

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-proxy/sluice/pkg/haproxy/socket"
)

// Room bounds what reloads leave behind: an old worker lives as long as its connections, at
// most for hard-stop-after.
type Room struct {
	// OldWorkers is how many there may be before a reload waits for the end of one; 0: any
	// number.
	OldWorkers int
	// Memory is what all workers together may have, in bytes: a reload that would lead above
	// it waits as long as there is an old worker. 0: no bound.
	Memory int64
	// Resident is the memory that a process has, in bytes; 0: not known.
	Resident func(pid int) int64
}

// lookEvery is the time between two looks at the old workers.
const lookEvery = 200 * time.Millisecond

// awaitRoom waits until one more worker may be started. What needs no reload goes on
// meanwhile, since the flight has a journal. The error is that of ctx.
func (a *Apply) awaitRoom(ctx context.Context, f *flight) error {
	a.mu.Lock()
	bounded := a.running && (a.cfg.Room.OldWorkers > 0 || a.cfg.Room.Memory > 0)
	a.mu.Unlock()
	if !bounded {
		return nil
	}
	defer a.waiting.Store(nil)
	for began := time.Now(); ; {
		why := a.crowded(ctx, f)
		before := a.waiting.Swap(&why)
		switch {
		case why == "":
			if before != nil {
				a.cfg.Log.Info("the reload that waited begins", "waited", time.Since(began).Round(time.Millisecond))
			}
			return nil
		case before == nil:
			a.cfg.Log.Warn("a reload waits until an old worker of HAProxy has ended; changes that need none go on", "reason", why,
				"bound", "timeout-stop", "reload", f.plan.Reload.Reasons)
		}
		if !pause(ctx, lookEvery) {
			return ctx.Err()
		}
	}
}

// crowded tells why there can't be another worker now; empty: there can. Where the master
// does not answer it is for the reload to find out why. A worker of which it is not known
// what it serves is told nothing any more, so its reload may leave twice as many behind.
func (a *Apply) crowded(ctx context.Context, f *flight) string {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.CommandTimeout)
	defer cancel()
	list, err := a.cfg.Master.Processes(ctx)
	if err != nil {
		return ""
	}
	most := a.cfg.Room.OldWorkers
	a.mu.Lock()
	if f.served == nil {
		most *= 2
	}
	a.mu.Unlock()
	old, used, current := a.workers(list)
	switch room := a.cfg.Room; {
	case old == 0:
		return ""
	case most > 0 && old >= most:
		return fmt.Sprintf("%d old workers still have connections", old)
	case room.Memory > 0 && used+current > room.Memory:
		return fmt.Sprintf("HAProxy has %d MiB with its old workers, and another worker of %d MiB would exceed the %d MiB that there are for it",
			used>>20, current>>20, room.Memory>>20)
	}
	return ""
}

// workers counts the old ones, and adds up the memory of all and of the current one.
func (a *Apply) workers(list []socket.Process) (old int, used, current int64) {
	for _, p := range list {
		resident := int64(0)
		if a.cfg.Room.Resident != nil {
			resident = a.cfg.Room.Resident(p.PID)
		}
		used += resident
		switch {
		case p.Type == "worker" && p.Old:
			old++
		case p.Type == "worker":
			current = resident
		}
	}
	return old, used, current
}

// Waiting tells why the reload in flight does not begin; empty: it does not wait for an old
// worker.
func (a *Apply) Waiting() string {
	if why := a.waiting.Load(); why != nil {
		return *why
	}
	return ""
}
