package apply

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/plan"
	"github.com/sluice-proxy/sluice/pkg/haproxy/shard"
	"github.com/sluice-proxy/sluice/pkg/haproxy/socket"
)

func TestReloadOnGlobalChange(t *testing.T) {
	t.Parallel()
	b := start(t)
	m := base()
	b.mustConverge(t, m)
	m = withMaxConn(servers(m, "a_x_80", 1001, 1008), 200)
	var early bool
	b.haproxy.loading = func() { early = b.haproxy.has("add server a_x_80/127.0.0.1:1008") }
	out := b.mustConverge(t, m)
	if len(out) != 1 || !out[0].Reloaded || len(out[0].Reasons) == 0 {
		t.Fatalf("outcomes %+v", out)
	}
	if !early {
		t.Error("the old worker did not get the new server before the reload")
	}
	if got := out[0].Registry.Header.Generation; got != 2 {
		t.Errorf("generation %d, want 2", got)
	}
	b.checkAdopted(t, m)
}

func TestShardMoveStagesWithoutReload(t *testing.T) {
	t.Parallel()
	b := start(t)
	m := base()
	for i := range 20 {
		m = servers(m, "c_s"+string(rune('a'+i))+"_80", 2000+i)
	}
	b.mustConverge(t, m)
	b.render.shards = 8
	out := b.mustConverge(t, m)
	if len(out) != 1 || out[0].Reloaded || len(b.haproxy.started) != 1 {
		t.Fatalf("outcomes %+v, %v", out, b.haproxy.started)
	}
	if b.folder.Generation() != 2 {
		t.Errorf("generation %d, want 2", b.folder.Generation())
	}
	b.render.shards = 2
	b.mustConverge(t, m)
	b.checkAdopted(t, m)
}

func TestRefusedTree(t *testing.T) {
	t.Parallel()
	b := start(t)
	m := base()
	b.mustConverge(t, m)
	bad := withMaxConn(servers(m, "a_x_80", 1001, 1008), -1)
	out := b.step(bad)
	if out.Refusal == nil || out.Err != nil || out.Drift {
		t.Fatalf("outcome %+v", out)
	}
	if len(b.haproxy.started) != 1 || b.folder.Generation() != 1 {
		t.Error("a refused tree was loaded")
	}
	if names, _ := filepath.Glob(filepath.Join(b.dir, "config", "gen-*")); len(names) != 1 {
		t.Errorf("generations %v", names)
	}
	// The old worker was told of a server that the files do not have. Neither going on
	// without the bad part nor going back may lose track of that.
	for sentence, next := range map[string]*model.Model{
		"the rest is applied": withMaxConn(bad, 100), "all is taken back": m,
	} {
		t.Run(sentence, func(t *testing.T) {
			for _, out := range b.mustConverge(t, next) {
				if out.Reloaded {
					t.Error("a reload for what can be done at run time")
				}
			}
			b.checkAdopted(t, next)
			b.step(bad)
		})
	}
}

func TestFailedReloadSwapsBack(t *testing.T) {
	t.Parallel()
	b := start(t)
	m := base()
	b.mustConverge(t, m)
	next := withMaxConn(m, 300)
	b.haproxy.reload = func() error { return &socket.Refused{Logs: "cannot bind"} }
	out := b.step(next)
	if out.Err == nil || out.Refusal != nil || b.folder.Generation() != 1 {
		t.Fatalf("outcome %+v, generation %d", out, b.folder.Generation())
	}
	b.check(t, m)
	b.checkAdopted(t, m)
	b.haproxy.reload = nil
	b.mustConverge(t, next)
	b.checkAdopted(t, next)
}

// meanwhile makes changes while a reload is in flight and returns the model after them.
func (b *bench) meanwhile(t *testing.T, m *model.Model) *model.Model {
	for _, change := range []func(*model.Model) *model.Model{
		func(m *model.Model) *model.Model { return servers(m, "a_x_80", 1001, 1060) },
		func(m *model.Model) *model.Model { return servers(m, "d_new_80", 1050, 1051) },
		func(m *model.Model) *model.Model { return route(m, "new.example", "d_new_80") },
		func(m *model.Model) *model.Model { return route(m, "x.example", "b_z_80") },
		func(m *model.Model) *model.Model { return servers(m, "a_x_80", 1061) },
	} {
		m = change(m)
		p := b.render.plan(b.apply.Expected(), m)
		if p.Reload != nil {
			t.Errorf("a plan on what is expected has a reload: %v", p.Reload.Reasons)
			return m
		}
		if out := b.apply.Do(context.Background(), p); out.Err != nil || out.Drift {
			t.Errorf("outcome %+v", out)
		}
	}
	now := b.haproxy.read().State
	if _, found := now.Backends["a_x_80"]["127.0.0.1:1061"]; !found {
		t.Error("the old worker was not told of a server at once")
	}
	if now.Maps[model.TableExact]["new.example#/"] != "" {
		t.Error("the old worker got a route to a backend that it does not have")
	}
	return m
}

func TestChangesDuringAReloadAreNotLost(t *testing.T) {
	t.Parallel()
	for sentence, c := range map[string]struct {
		staged bool // the changes come after the swap, else before the check
		fails  bool
	}{
		"before staging is done":     {},
		"after the swap":             {staged: true},
		"before a refusal":           {fails: true},
		"before a reload that fails": {staged: true, fails: true},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			b := start(t)
			b.mustConverge(t, base())
			wanted := withMaxConn(servers(base(), "d_new_80", 1050), 400) // reloads
			if c.fails && !c.staged {
				wanted = withMaxConn(wanted, -1)
			}
			p := b.render.plan(b.apply.Expected(), wanted)
			come := func() { wanted = b.meanwhile(t, wanted) }
			if c.staged {
				b.haproxy.loading = come
			} else {
				b.apply.cfg.Folder.OnStep(func(point string) {
					if point == "generation filled" {
						b.apply.cfg.Folder.OnStep(func(string) {})
						come()
					}
				})
			}
			if c.fails {
				b.haproxy.reload = func() error { return &socket.Refused{} }
			}
			out := <-b.apply.Reload(context.Background(), p)
			if (out.Err != nil || out.Refusal != nil) != c.fails {
				t.Fatalf("outcome %+v", out)
			}
			b.haproxy.loading, b.haproxy.reload = nil, nil
			if c.fails {
				wanted = withMaxConn(wanted, 500)
				b.mustConverge(t, wanted)
			}
			b.check(t, wanted)
			b.checkAdopted(t, wanted)
		})
	}
}

func TestPlanOfAFailedReloadIsNotCarriedOut(t *testing.T) {
	t.Parallel()
	b := start(t)
	m := base()
	b.mustConverge(t, m)
	next := withMaxConn(servers(m, "d_new_80", 1050), 400)
	var late *plan.Plan
	b.haproxy.reload = func() error {
		late = b.render.plan(b.apply.Expected(), servers(next, "d_new_80", 1051))
		return &socket.Refused{}
	}
	if out := b.step(next); out.Err == nil {
		t.Fatal("no error")
	}
	if out := b.apply.Do(context.Background(), late); !errors.Is(out.Err, ErrStale) {
		t.Errorf("outcome %+v", out)
	}
	b.check(t, m)
	b.haproxy.reload = nil
	b.mustConverge(t, next)
}

func TestBackToTheOldModelAfterAFailure(t *testing.T) {
	t.Parallel()
	b := start(t)
	m := base()
	b.mustConverge(t, m)
	b.haproxy.reload = func() error { return &socket.Refused{} }
	b.haproxy.loading = func() {
		next := servers(withMaxConn(m, 300), "a_x_80", 1077)
		b.apply.Do(context.Background(), b.render.plan(b.apply.Expected(), next))
	}
	if out := b.step(withMaxConn(m, 300)); out.Err == nil {
		t.Fatal("no error")
	}
	b.mustConverge(t, m)
	b.checkAdopted(t, m)
}

func TestHAProxyDiesDuringAReload(t *testing.T) {
	t.Parallel()
	for sentence, bad := range map[string]bool{"and the tree is good": false, "and the tree is refused": true} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			b := start(t)
			m := base()
			b.mustConverge(t, m)
			next := withMaxConn(m, 300)
			if bad {
				next = withMaxConn(m, -1)
			}
			b.apply.cfg.Folder.OnStep(func(point string) {
				if point == "generation filled" {
					b.haproxy.kill()
					b.apply.Restart(context.Background())
				}
			})
			out := b.step(next)
			if (out.Refusal != nil) != bad || out.Err != nil {
				t.Fatalf("outcome %+v", out)
			}
			if bad {
				next = m
			}
			b.check(t, next)
			b.mustConverge(t, next)
			b.checkAdopted(t, next)
		})
	}
}

func TestColdStartWithABadTreeServesTheLastGoodOne(t *testing.T) {
	t.Parallel()
	b := start(t)
	m := base()
	b.mustConverge(t, m)
	b.haproxy.kill()
	b.again(t)
	out := b.step(withMaxConn(servers(m, "a_x_80", 1001), -1))
	if out.Refusal == nil || out.Err != nil {
		t.Fatalf("outcome %+v", out)
	}
	b.check(t, m)
	b.mustConverge(t, servers(m, "a_x_80", 1001))
}

func TestApplicable(t *testing.T) {
	t.Parallel()
	m := base()
	to := func(s string) *string { return &s }
	add := plan.AddServer{Backend: "nowhere_80", Server: model.Server{Host: "x", Port: 1}}
	good := plan.EditMap{Map: model.TableValues, Edits: []model.Edit{{Key: "k", Value: to("v")}}}
	bad := plan.EditMap{Map: model.TablePrefix, Edits: []model.Edit{{Key: "k", Value: to("nowhere_80")}}}
	host := plan.EditMap{Map: model.TableHosts, Edits: []model.Edit{{Key: "k", Value: to("-")}}}
	del := plan.DelServer{Backend: "a_x_80", Server: "127.0.0.1:1001"}
	list := plan.EditList{List: "none", Add: []string{"::1"}}
	backend := plan.AddBackend{Backend: &model.Backend{Name: "nowhere_80", Profile: m.Profiles[0]}}
	commands := []plan.Command{list, backend, add, good, bad, host, del, plan.DelServer{Backend: "a_x_80", Server: "gone:1"},
		plan.DelBackend{Backend: "a_y_80"}, plan.DelBackend{Backend: "gone_80"}}
	able := shard.Worker{Dynamic: true, Sections: map[string]model.Digest{model.DefaultProfile: {}}}
	for sentence, c := range map[string]struct {
		worker shard.Worker
		want   string
	}{
		"a worker that adds no backends": {shard.Worker{Sections: able.Sections}, "change 1 entries of maps/values.map; del server a_x_80/127.0.0.1:1001"},
		"one without the profile":        {shard.Worker{Dynamic: true}, "change 1 entries of maps/values.map; del server a_x_80/127.0.0.1:1001"},
		"one that can": {able, "add backend nowhere_80 at run time; add server nowhere_80/x:1; change 1 entries of maps/values.map; " +
			"change 1 entries of maps/routes-prefix.map; change 1 entries of maps/hosts.map; del server a_x_80/127.0.0.1:1001; remove backend a_y_80 at run time"},
	} {
		var words []string
		for _, c := range applicable(c.worker, m, commands) {
			words = append(words, plan.Describe(c))
		}
		if strings.Join(words, "; ") != c.want {
			t.Errorf("%s: %q, want %q", sentence, words, c.want)
		}
	}
}

func TestLostAnswerOfAReload(t *testing.T) {
	t.Parallel()
	reset := errors.New("connection reset")
	for sentence, c := range map[string]struct {
		unknownWorker bool // it could not be learnt which worker the old one is
		loaded        bool
	}{
		"the new worker serves":                                   {loaded: true},
		"the new worker serves, nobody knows the old one":         {loaded: true, unknownWorker: true},
		"the new worker is listed and never serves":               {},
		"the old worker is listed as before, nobody knows it yet": {unknownWorker: true},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			b := start(t)
			m := base()
			b.mustConverge(t, m)
			next := withMaxConn(m, 300)
			b.apply.cfg.CommandTimeout = 300 * time.Millisecond
			switch {
			case c.loaded:
				b.haproxy.lost = func() error { return reset }
			case c.unknownWorker:
				b.haproxy.reload = func() error { return reset }
			default:
				b.haproxy.slow = true
			}
			if c.unknownWorker {
				b.apply.worker.Store(0)
			}
			out := b.step(next)
			if c.loaded != (out.Err == nil) || c.loaded != out.Reloaded || out.Registry.Served == nil {
				t.Fatalf("outcome %+v", out)
			}
			b.haproxy.lost, b.haproxy.reload, b.haproxy.slow = nil, nil, false
			if c.loaded {
				m = next
			}
			b.check(t, m)
			b.mustConverge(t, next)
			b.checkAdopted(t, next)
		})
	}
}

func TestHAProxyThatHangsHoldsNothingUpForEver(t *testing.T) {
	t.Parallel()
	b := start(t)
	m := base()
	b.apply.cfg.LoadTimeout = 50 * time.Millisecond
	b.haproxy.hangs = true
	if out := b.step(m); !errors.Is(out.Err, context.DeadlineExceeded) || out.Refusal != nil {
		t.Fatalf("outcome of a check that hangs: %+v", out)
	}
	b.haproxy.hangs = false
	b.mustConverge(t, m)
	b.haproxy.kill()
	b.haproxy.hangs = true
	b.apply.cfg.LoadTimeout = 50 * time.Millisecond
	if out := b.apply.Restart(context.Background()); !errors.Is(out.Err, context.DeadlineExceeded) || !out.Drift {
		t.Fatalf("outcome of a start that hangs: %+v", out)
	}
	b.haproxy.hangs = false
	b.mustConverge(t, m)
	b.checkAdopted(t, m)
}

func TestEarlyCommandsOfAReloadThatWaits(t *testing.T) {
	t.Parallel()
	for sentence, fails := range map[string]bool{"the one in flight succeeds": false, "the one in flight fails": true} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			b := start(t)
			m := base()
			b.mustConverge(t, m)
			first := withMaxConn(m, 300)
			next := withMaxConn(servers(m, "a_x_80", 1001, 1090), 400)
			b.haproxy.loading = func() {
				b.apply.Early(context.Background(), b.render.plan(b.apply.Expected(), next))
				if !b.haproxy.has("add server a_x_80/127.0.0.1:1090") || !b.haproxy.has("del server a_x_80/127.0.0.1:1002") {
					t.Errorf("the old worker was told %v", b.haproxy.sent)
				}
				if fails {
					b.haproxy.reload = func() error { return &socket.Refused{} }
				}
			}
			if out := b.step(first); (out.Err != nil) != fails || out.Registry.Served == nil {
				t.Fatalf("outcome %+v", out)
			}
			b.haproxy.loading, b.haproxy.reload = nil, nil
			if !fails {
				b.check(t, first)
			}
			b.apply.Early(context.Background(), b.render.plan(b.apply.Expected(), next)) // none is in flight
			b.mustConverge(t, next)
			b.checkAdopted(t, next)
		})
	}
}

func TestReasonsOfAReloadOfAnUnknownWorker(t *testing.T) {
	t.Parallel()
	b := start(t)
	m := base()
	expect := func(want string) {
		t.Helper()
		p := b.render.plan(b.apply.Expected(), m)
		if p.Reload == nil || p.Reload.Reasons[0] != want || plan.ReasonKind(want) != "worker unknown" {
			t.Errorf("reload %v, want %s", p.Reload, want)
		}
		b.mustConverge(t, m)
	}
	expect("worker unknown: first start")
	b.haproxy.kill()
	b.again(t)
	expect("worker unknown: no HAProxy ran")
	m = servers(m, "a_x_80", 1001)
	b.haproxy.answer["del server"] = &socket.UnexpectedAnswer{}
	b.step(m)
	expect("worker unknown: unexpected answer to a command")
	if err := os.Truncate(filepath.Join(b.haproxy.current, "maps/hosts.map"), 0); err != nil {
		t.Fatal(err)
	}
	b.again(t)
	expect("worker unknown: files were edited")
	p := b.haproxy.read()
	p.Key = "1"
	b.haproxy.write(p)
	b.again(t)
	expect("worker unknown: files and worker disagree")
	if want := b.haproxy.read().Worker; len(b.haproxy.probed) == 0 || b.haproxy.probed[len(b.haproxy.probed)-1] != want {
		t.Errorf("workers %v were probed, want %d last", b.haproxy.probed, want)
	}
}

func TestReloadThatWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	b := start(t)
	m := base()
	b.mustConverge(t, m)
	turns, served := 0, servers(withMaxConn(servers(m, "a_x_80", 1001, 1090), 400), "a_x_80", 1001, 1091)
	b.apply.cfg.Pace = func(context.Context) error {
		if turns++; !b.haproxy.has("add server a_x_80/127.0.0.1:1090") {
			t.Errorf("the old worker was told %v", b.haproxy.sent)
		}
		b.step(served)
		if !b.haproxy.has("add server a_x_80/127.0.0.1:1091") || len(b.haproxy.started) != 1 {
			t.Errorf("the old worker was told %v, and HAProxy started %v", b.haproxy.sent, b.haproxy.started)
		}
		return nil
	}
	if out := b.step(withMaxConn(servers(m, "a_x_80", 1001, 1090), 400)); !out.Reloaded || turns != 1 {
		t.Fatalf("outcome %+v after %d turns", out, turns)
	}
	b.mustConverge(t, served)
	b.checkAdopted(t, served)
}

// HAProxy in a container of its own starts while sluice loads for the first time: the worker
// that becomes ready has read the folder as it was before.
func TestReloadThatMeetsAStart(t *testing.T) {
	t.Parallel()
	b := start(t)
	m := base()
	b.mustConverge(t, m)
	b.apply.cfg.Supervisor = nil
	b.haproxy.early, b.haproxy.started = true, nil
	m = withMaxConn(m, 200)
	if out := b.step(m); !out.Reloaded || out.Err != nil || len(b.haproxy.started) != 2 {
		t.Fatalf("outcome %+v, HAProxy was told %v", out, b.haproxy.started)
	}
	b.check(t, m)
}
