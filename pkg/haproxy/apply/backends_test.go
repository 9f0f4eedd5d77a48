package apply

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/socket"
)

// flip is a model whose route leads to another backend, in place of the one before.
func flip(m *model.Model, host, from, to string) *model.Model {
	return servers(route(servers(m, to, 1050), host, to), from)
}

func TestBackendsComeAndGoWithoutReload(t *testing.T) {
	t.Parallel()
	b := start(t)
	m := base()
	b.mustConverge(t, m)
	before := len(b.haproxy.started)
	many := m
	for i := range 100 {
		name := fmt.Sprintf("n_%d_80", i)
		many = route(servers(many, name, 1100+i), name+".example", name)
	}
	for _, to := range []*model.Model{flip(m, "x.example", "a_x_80", "a_z_80"), many, m} {
		b.mustConverge(t, to)
		b.checkAdopted(t, to)
	}
	if started := b.haproxy.started[before:]; len(started) != 0 {
		t.Errorf("%v", started)
	}
}

func TestWorkerThatAddsNoBackendsIsReloaded(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.haproxy.old = true
	b.again(t)
	m := base()
	b.mustConverge(t, m)
	out := b.mustConverge(t, servers(m, "n_n_80", 1001))
	if len(out) != 1 || !out[0].Reloaded || !strings.HasPrefix(out[0].Reasons[0], "new backend: n_n_80: ") || b.haproxy.has("add backend") {
		t.Errorf("outcome %+v", out)
	}
	out = b.mustConverge(t, m)
	if len(out) != 1 || !out[0].Reloaded || !strings.HasPrefix(out[0].Reasons[0], "backend gone: n_n_80: ") {
		t.Errorf("outcome %+v", out)
	}
}

// A backend that has a stream waits for it, over batches, and is used again if it comes back.
func TestBackendWithStreamIsRemovedLater(t *testing.T) {
	t.Parallel()
	b := start(t)
	m := base()
	b.mustConverge(t, m)
	b.haproxy.streams = map[string]bool{"a_x_80": true}
	gone := flip(m, "x.example", "a_x_80", "a_z_80")
	if out := b.step(gone); out.Err != nil || out.Drift || b.haproxy.has("remove backend") {
		t.Fatalf("outcome %+v; sent %v", out, b.haproxy.sent)
	}
	for range 2 {
		if n, _ := b.apply.RetryRemovals(context.Background()); n != 1 {
			t.Errorf("%d wait while there is a stream", n)
		}
	}
	next := servers(gone, "n_n_80", 1007)
	if out := b.step(next); out.Err != nil || out.Drift {
		t.Fatalf("outcome %+v", out)
	}
	back := flip(next, "x.example", "a_z_80", "a_x_80")
	b.mustConverge(t, back)
	if n, _ := b.apply.RetryRemovals(context.Background()); n != 0 {
		t.Errorf("%d wait although one came back and the other is gone", n)
	}
	b.haproxy.streams = nil
	b.mustConverge(t, next)
	b.checkAdopted(t, next)
}

// An odd answer to a removal is not forgotten: the next plan has a reload, which leaves the
// backend behind.
func TestRemovalWithAnOddAnswerIsOneReload(t *testing.T) {
	t.Parallel()
	b := start(t)
	m := base()
	b.mustConverge(t, m)
	gone := flip(m, "x.example", "a_x_80", "a_z_80")
	if out := b.step(gone); out.Err != nil || out.Drift || b.apply.PendingRemovals() != 1 {
		t.Fatalf("outcome %+v", out)
	}
	b.haproxy.answer["del backend"] = &socket.UnexpectedAnswer{Command: "del backend", Answer: "huh"}
	if _, drift := b.apply.RetryRemovals(t.Context()); !drift {
		t.Error("nobody is told of the answer")
	}
	if out := b.mustConverge(t, gone); len(out) != 1 || !out[0].Reloaded {
		t.Errorf("outcomes %+v", out)
	}
	b.check(t, gone)
}

// Until a moment after its last route is gone, a backend stays: a request that looked its
// route up before may be on its way there.
func TestBackendStaysForAMoment(t *testing.T) {
	t.Parallel()
	b := start(t)
	m := base()
	b.mustConverge(t, m)
	b.apply.cfg.Grace = time.Hour
	if out := b.step(flip(m, "x.example", "a_x_80", "a_z_80")); out.Err != nil || out.Drift {
		t.Fatalf("outcome %+v", out)
	}
	if n, _ := b.apply.RetryRemovals(context.Background()); n != 1 || b.haproxy.has("remove backend") {
		t.Errorf("%d wait, sent %v", n, b.haproxy.sent)
	}
}

// What waited for its removal when the controller died is removed by the next one.
func TestRemovalsOutliveTheController(t *testing.T) {
	t.Parallel()
	b := start(t)
	m := base()
	b.mustConverge(t, m)
	gone := flip(m, "x.example", "a_x_80", "a_z_80")
	if out := b.step(gone); out.Err != nil || out.Drift || b.apply.PendingRemovals() != 1 {
		t.Fatalf("outcome %+v", out)
	}
	b.haproxy.streams = map[string]bool{"a_x_80": true}
	b.again(t)
	if n := b.apply.PendingRemovals(); n != 1 {
		t.Errorf("%d wait, want the one with a stream", n)
	}
	b.haproxy.streams = nil
	b.again(t)
	if n := b.apply.PendingRemovals(); n != 0 {
		t.Errorf("%d wait", n)
	}
	b.mustConverge(t, gone)
}

// A worker that lacks a backend of the files was changed by somebody else.
func TestWorkerThatLacksABackendIsReloaded(t *testing.T) {
	t.Parallel()
	b := start(t)
	m := base()
	b.mustConverge(t, m)
	p := b.haproxy.read()
	delete(p.State.Backends, "a_x_80")
	b.haproxy.write(p)
	b.again(t)
	out := b.mustConverge(t, m)
	if len(out) != 1 || !slices.Equal(out[0].Reasons, []string{"worker unknown: " + disagree}) {
		t.Errorf("outcome %+v", out)
	}
}

// A backend that can't be added is one reload, and what stood behind it in the row of
// commands is not taken for done.
func TestBackendThatCanNotBeAddedIsOneReload(t *testing.T) {
	t.Parallel()
	b := start(t)
	m := base()
	b.mustConverge(t, m)
	b.haproxy.answer["add backend"] = &socket.UnexpectedAnswer{Command: "add backend", Answer: "huh"}
	b.haproxy.answer["edit map"] = &socket.NotSent{Backend: "a_z_80"}
	to := flip(m, "x.example", "a_x_80", "a_z_80")
	if out := b.step(to); !out.Drift || b.apply.PendingRemovals() != 0 {
		t.Fatalf("outcome %+v, %d removals", out, b.apply.PendingRemovals())
	}
	out := b.mustConverge(t, to)
	if len(out) != 1 || !out[0].Reloaded {
		t.Errorf("outcome %+v", out)
	}
	b.checkAdopted(t, to)
}

// Backends that come while a reload is in flight are served by the old worker at once, and by
// the new one afterwards; one that goes is in neither.
func TestBackendsDuringAReload(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"generation filled", "haproxy reads"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			b := start(t)
			m := base()
			b.mustConverge(t, m)
			to := withMaxConn(m, 300)
			meanwhile := func() {
				to = flip(to, "x.example", "a_x_80", "a_z_80")
				if out := b.step(to); out.Err != nil || out.Drift {
					t.Errorf("outcome %+v", out)
				}
				if old := b.haproxy.read().State; old.Backends["a_z_80"] == nil || old.Maps[model.TableExact]["x.example#/"] != "a_z_80" {
					t.Error("the old worker was not told at once")
				}
			}
			if point == "haproxy reads" {
				b.haproxy.loading = meanwhile
			} else {
				b.apply.cfg.Folder.OnStep(func(at string) {
					if at == point {
						meanwhile()
					}
				})
			}
			if out := b.step(to); out.Err != nil || out.Drift {
				t.Fatalf("outcome %+v", out)
			}
			b.check(t, to)
			b.mustConverge(t, to)
			b.checkAdopted(t, to)
		})
	}
}

// A profile whose last backend is gone leaves the files and stays in the worker: until the
// next reload it can be used without one.
func TestProfileWithoutBackendStaysUsable(t *testing.T) {
	t.Parallel()
	b := start(t)
	m := base()
	b.mustConverge(t, m)
	with := other(m, "n_n_80", 1001)
	if out := b.mustConverge(t, with); len(out) != 1 || !out[0].Reloaded {
		t.Errorf("a new profile: %+v", out)
	}
	for _, c := range []struct {
		to       *model.Model
		reloaded bool
	}{{m, false}, {with, false}, {m, false}, {withMaxConn(m, 300), true}, {withMaxConn(with, 300), true}} {
		if out := b.mustConverge(t, c.to); len(out) != 1 || out[0].Reloaded != c.reloaded {
			t.Errorf("outcome %+v", out)
		}
	}
}
