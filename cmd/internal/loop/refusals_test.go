package loop

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-proxy/sluice/pkg/haproxy/socket"
)

// counts are the failures of the servers a and b of one backend.
type counts struct {
	a, b  uint64
	err   error
	asked int // for servers
}

func (c *counts) BackendCounters(context.Context) ([]socket.Counters, error) {
	if c.a+c.b == 0 { // HAProxy's answer holds what failed only
		return nil, c.err
	}
	return []socket.Counters{{Backend: "web", Retries: c.a + c.b}}, c.err
}

func (c *counts) ServerCounters(context.Context, string) ([]socket.Counters, error) {
	c.asked++
	return []socket.Counters{{Backend: "web", Server: "a", Retries: c.a}, {Backend: "web", Server: "b", Redispatches: c.b}}, nil
}

func TestServersThatFailAreFoundByDifferences(t *testing.T) {
	c := &counts{a: 100}
	w := newWatcher(c)
	look := func(what string, want ...refusal) {
		t.Helper()
		if diff := cmp.Diff(want, w.look(t.Context()), cmp.AllowUnexported(refusal{})); diff != "" {
			t.Errorf("%s (-want +got)\n%s", what, diff)
		}
	}
	look("what was before the first look")
	c.a += 2
	look("a pod that stopped")
	c.b += 3
	look("a pod that refuses", refusal{"web", "b"})
	asked := c.asked
	c.err = errors.New("HAProxy is away")
	look("no answer", refusal{"web", "b"})
	c.err = nil
	for range remembered - 2 {
		look("no further failure yet", refusal{"web", "b"})
	}
	look("no further failure for long")
	if c.asked != asked {
		t.Error("servers were asked for although nothing changed")
	}
	c.a, c.b = 5, 0 // another worker, which counts from 0
	look("after a reload", refusal{"web", "a"})
	c.a = 0 // the backend is gone
	look("without the backend", refusal{"web", "a"})
	if len(w.backends)+len(w.servers) > 0 {
		t.Errorf("backends and servers that are gone are kept: %v, %v", w.backends, w.servers)
	}
}
