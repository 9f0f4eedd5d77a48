package loop

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/socket"
)

// Counters are HAProxy's; *socket.Runtime has them.
type Counters interface {
	BackendCounters(ctx context.Context) ([]socket.Counters, error)
	ServerCounters(ctx context.Context, backend string) ([]socket.Counters, error)
}

const (
	lookEvery = 10 * time.Second // at the counters of backends
	lookFirst = time.Second      // until HAProxy tells them for the first time
	// enough failures between two looks: fewer are the usual race with a pod that stops.
	enough = 3
	// remembered is the number of looks that a refusal outlives its last failure, so that a
	// pod that is asked seldom is no new finding each time.
	remembered = 6
)

// refusal is a server that does not take connections.
type refusal struct{ backend, server string }

// watcher looks at HAProxy's counters and finds the servers that fail, by differences.
// What happens is seen in the access log and the metrics at once; this is for the owner of
// the pod.
type watcher struct {
	counters Counters
	begun    bool
	backends map[string]uint64  // failures as of the last look
	servers  map[refusal]uint64 // the same, of backends where there were any
	refused  map[refusal]int    // looks that are left
}

func newWatcher(counters Counters) *watcher {
	return &watcher{counters: counters, backends: map[string]uint64{}, servers: map[refusal]uint64{}, refused: map[refusal]int{}}
}

// watch sends what refuses connections, whenever that changes, until ctx ends. What failed
// before the first look counts for nothing, so that one is early.
func (w *watcher) watch(ctx context.Context, out chan<- []refusal) {
	tick := time.NewTicker(lookFirst)
	defer tick.Stop()
	var before []refusal
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		begun := w.begun
		now := w.look(ctx)
		if w.begun && !begun {
			tick.Reset(lookEvery)
		}
		if slices.Equal(now, before) {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case out <- now:
			before = now
		}
	}
}

// look asks once. While HAProxy does not answer nothing changes.
func (w *watcher) look(ctx context.Context) []refusal {
	for server := range w.refused {
		if w.refused[server]--; w.refused[server] <= 0 {
			delete(w.refused, server)
		}
	}
	backends, err := w.counters.BackendCounters(ctx)
	if err == nil {
		for _, b := range backends {
			// Fewer than before: the worker is another one, and counts from 0.
			if b.Failures() != w.backends[b.Backend] {
				w.backends[b.Backend] = b.Failures()
				w.lookAt(ctx, b.Backend)
			}
		}
		w.begun = true
	}
	return slices.SortedFunc(maps.Keys(w.refused), func(a, b refusal) int {
		return slices.Compare([]string{a.backend, a.server}, []string{b.backend, b.server})
	})
}

func (w *watcher) lookAt(ctx context.Context, backend string) {
	servers, err := w.counters.ServerCounters(ctx, backend)
	if err != nil {
		return
	}
	for _, s := range servers {
		server := refusal{s.Backend, s.Server}
		failed := s.Failures()
		if before := w.servers[server]; before <= failed {
			failed -= before
		}
		w.servers[server] = s.Failures()
		if w.begun && failed >= enough {
			w.refused[server] = remembered
		}
	}
}

// refusals are findings for the servers that fail although their endpoints are ready.
func refusals(m *model.Model, refused []refusal) []report.Finding {
	var findings []report.Finding
	for _, r := range refused {
		backend := m.Backends.Lookup(r.backend)
		if backend == nil || len(backend.Origins) == 0 {
			continue
		}
		for _, server := range backend.Servers {
			if server.Name() == r.server && server.State == model.Ready {
				findings = append(findings, report.New(report.EndpointRefuses, backend.Origins[0],
					"%s is a ready endpoint and does not take connections; requests that meet it are sent to another one", r.server))
			}
		}
	}
	return findings
}
