package property

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-proxy/sluice/pkg/converters/resolve"
)

// step is what happens between two moments of rest.
type step struct {
	events    []event
	at        string  // of a reload: the point at which meanwhile comes
	meanwhile []event // events during a reload
	trouble   string  // with HAProxy
	kill      int     // the controller dies at this step of the work; 0: it does not
	restart   bool    // of the controller, at the end
	dies      bool    // HAProxy, before that
	vandalism []vandalism
	shards    int // --backend-shards of the next life; -1: as before
}

func (s step) String() string {
	words := []string{fmt.Sprint(s.events)}
	if len(s.meanwhile) > 0 {
		words = append(words, fmt.Sprintf("during a reload, at %q: %v", s.at, s.meanwhile))
	}
	if s.trouble != "" {
		words = append(words, s.trouble)
	}
	if s.kill > 0 {
		words = append(words, fmt.Sprintf("kill at step %d", s.kill))
	}
	if s.dies {
		words = append(words, "HAProxy dies")
	}
	if len(s.vandalism) > 0 {
		words = append(words, fmt.Sprintf("vandalism %v", s.vandalism))
	}
	if s.restart {
		words = append(words, fmt.Sprintf("restart with %d shards", s.shards))
	}
	return strings.Join(words, ", ")
}

// GoString keeps what rapid prints of its draws short: each step is logged when it is lived.
func (s step) GoString() string { return "step" }

// points of a reload at which nobody holds a lock.
var points = []string{"generation cleared", "generation filled", "generation synced", "reload staged", "journal staged", "haproxy checks", "haproxy reads", "reloaded"}

func steps(dns bool) *rapid.Generator[step] {
	return rapid.Custom(func(t *rapid.T) step {
		u := universe{t: t, dns: dns}
		s := step{shards: -1}
		kind := u.pick("step", "events", "events", "events", "many events", "during a reload", "during a reload", "trouble", "kill", "restart", "haproxy dies", "vandalism")
		s.events = u.events(0, 3)
		switch kind {
		case "many events":
			s.events = u.events(4, 10)
		case "during a reload":
			s.at, s.meanwhile = u.pick("point", points...), u.events(1, 4)
		case "trouble":
			s.trouble = u.pick("trouble", "reload is refused", "answer to reload is lost", "socket breaks", "answer is odd")
		case "kill":
			s.kill, s.restart = rapid.IntRange(1, 60).Draw(t, "kill"), true
		case "restart":
			s.restart = true
		case "haproxy dies":
			s.dies = true
		case "vandalism":
			for range rapid.IntRange(1, 3).Draw(t, "deeds") {
				s.vandalism = append(s.vandalism, vandalism{u.pick("deed", deeds...), rapid.IntRange(0, 40).Draw(t, "file")})
			}
			s.restart = u.chance("restart", 2)
		}
		if s.restart {
			s.dies = u.chance("haproxy dies", 4)
			s.shards = rapid.SampledFrom([]int{-1, -1, 0, 1, 2, 5, 64, 128}).Draw(t, "shards")
		}
		return s
	})
}

// live lets a step happen and compares what comes of it.
func (w *world) live(s step) {
	w.t.Helper()
	w.worried = s.trouble != ""
	w.haproxy.trouble(s.trouble)
	switch {
	case s.restart:
		w.killIn.Store(int32(s.kill))
		alive := true
		if s.kill > 0 {
			w.take(s.events)
			alive = w.converge()
		}
		w.rebirth(s, alive)
	case s.dies:
		w.haproxy.die()
		w.take(s.events)
		if out := w.apply.Restart(context.Background()); out.Err != nil || out.Drift {
			w.t.Fatalf("restart of HAProxy: %v, drift %v", out.Err, out.Drift)
		}
	case len(s.vandalism) > 0:
		for _, v := range s.vandalism {
			if v.what != "delete the link" && !strings.Contains(v.what, "registry") && v.what != "new record" && v.what != "new generation" {
				w.vandalise(v) // the others are looked at by the next life only
			}
		}
		w.rescan()
		w.take(s.events)
	default:
		if s.at != "" {
			w.meanwhile = map[string][]event{s.at: s.meanwhile}
		}
		w.take(s.events)
	}
	if !w.converge() {
		w.t.Fatalf("killed again")
	}
	w.meanwhile = nil
	w.haproxy.trouble("")
	w.check()
}

// rebirth ends a life of the controller and begins the next one.
func (w *world) rebirth(s step, alive bool) {
	w.t.Helper()
	w.killIn.Store(0)
	w.close()
	if s.dies {
		w.haproxy.die()
	}
	for _, v := range s.vandalism {
		w.vandalise(v)
	}
	if s.shards >= 0 {
		w.shards = s.shards
	}
	w.open()
	if s.kill > 0 {
		w.take(nil)
	} else {
		w.take(s.events)
	}
}

func TestAfterAnyEventsEverythingIsAsFromScratch(t *testing.T) {
	secrets := newSecrets(t)
	generator := steps(true)
	added := map[bool]int{} // backends, by whether HAProxy is an old one
	rapid.Check(t, func(t *rapid.T) {
		dir, err := memory()
		if err != nil {
			t.Fatalf("%v", err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		bind := resolve.Bind{HTTP: []string{"127.0.0.1:80"}, HTTPS: []string{"127.0.0.1:443"}}
		old := rapid.IntRange(0, 3).Draw(t, "old HAProxy") == 0
		w := newWorld(t, secrets, dir, &fake{current: filepath.Join(dir, "conf", "current"), old: old}, bind)
		w.open()
		defer func() {
			if w.folder != nil {
				_ = w.folder.Close()
			}
		}()
		w.live(step{events: population()})
		for i, s := range rapid.SliceOfN(generator, 1, 12).Draw(t, "steps") {
			t.Logf("step %d: %s", i+1, s)
			w.live(s)
		}
		added[old] += w.added
	})
	if added[true] != 0 || added[false] == 0 {
		t.Errorf("backends added at run time: %d by a HAProxy that can't, %d by one that can", added[true], added[false])
	}
}
