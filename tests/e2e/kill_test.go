package e2e

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/tests/harness"
)

// stormy is a stream of random changes of a few apps: whole apps come and go, options
// and settings change.
type stormy struct {
	t      *testing.T
	c      *harness.Controller
	random *rand.Rand
	there  map[string]bool
	turn   int
}

func (s *stormy) change() {
	s.turn++
	name := fmt.Sprintf("app%d", s.random.IntN(8))
	switch n := s.random.IntN(10); {
	case n == 0:
		s.c.Write("global.yaml", quiet(fmt.Sprintf("%ds", 50+s.turn%40)))
	case n < 4 && s.there[name]:
		s.c.Remove(name + ".yaml")
		delete(s.there, name)
	default:
		// Other options, nothing but the age of the file, or an app that was not there.
		s.c.Write(name+".yaml", app(name, fmt.Sprint(1+s.random.IntN(3))))
		s.there[name] = true
	}
}

// settled waits until everything is served.
func (s *stormy) settled() {
	s.t.Helper()
	s.c.Eventually("all is served", func() error {
		if state := s.c.State(); state.Applied != state.Wanted || state.Error != "" || len(state.Quarantined) > 0 {
			return fmt.Errorf("%+v", state)
		}
		return nil
	})
}

// check compares the worker's backends with the apps, and the files with the worker. What
// an app sets is behind its name, as a digest.
func (s *stormy) check() {
	s.t.Helper()
	want := backendsOf(append(slices.Collect(maps.Keys(s.there)), "web")...)
	slices.Sort(want)
	s.c.Eventually("the worker has the wanted backends", func() error {
		var names []string
		for _, name := range s.c.Backends() {
			names = append(names, name[:min(len(name), len("test_app0_80"))])
		}
		if slices.Sort(names); !slices.Equal(names, want) {
			return fmt.Errorf("show backend: %v, want %v", names, want)
		}
		return nil
	})
	agree(s.t, s.c, s.c.Backends()...)
}

// Sluice is killed 20 times in the midst of changes. HAProxy serves on, loads what lies
// there, and the next life puts everything right.
func TestKilledInTheMidstOfChanges(t *testing.T) {
	const kills = 20
	seed := uint64(time.Now().UnixNano())
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		pod := harness.NewPod(t, "web-1")
		c := start(t, binary, map[string]string{
			"base.yaml":   harness.Class + harness.Service("web") + harness.Slice("web", pod) + harness.Ingress("web", "web.example", "web"),
			"global.yaml": quiet("50s"),
		}, "--backend-shards", "16")
		s := &stormy{t: t, c: c, random: rand.New(rand.NewPCG(seed, 1)), there: map[string]bool{}}
		t.Logf("seed %d", seed)
		pid := c.HAProxyPID()
		steady := clients(c, "web.example", "")
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for i := range kills {
			for range 1 + s.random.IntN(60) { // up to 0.3 s, while a reload takes less
				s.change()
				<-tick.C
			}
			c.Kill()
			harness.Check(t, binary, filepath.Join(c.ConfigDir, "current"))
			if i%2 == 0 {
				s.change() // nobody sees it come
			}
			c.Start("--backend-shards", "16")
			s.settled()
			s.check()
			if t.Failed() {
				t.Fatalf("after %d kills", i+1)
			}
		}
		steady.end(t)
		if got := c.HAProxyPID(); got != pid {
			t.Errorf("HAProxy was started again: process %d, then %d", pid, got)
		}
		t.Logf("%d changes, %d kills", s.turn, kills)
	})
}
