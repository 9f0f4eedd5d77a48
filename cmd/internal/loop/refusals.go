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
	if backends, err := w.counters.BackendCounters(ctx); err == nil {
		w.begun = w.compare(ctx, backends) || w.begun
	}
	return slices.SortedFunc(maps.Keys(w.refused), func(a, b refusal) int {
		return slices.Compare([]string{a.backend, a.server}, []string{b.backend, b.server})
	})
}

// compare asks for the servers of the backends that failed since the last look. What HAProxy
// does not name any more is forgotten; what it did not answer is asked for again the next
// time, and compare is false.
func (w *watcher) compare(ctx context.Context, failed []socket.Counters) bool {
	complete := true
	backends, servers := map[string]uint64{}, map[refusal]uint64{}
	for _, b := range failed {
		backends[b.Backend] = b.Failures()
		// Fewer than before: the worker is another one, and counts from 0.
		if b.Failures() != w.backends[b.Backend] && !w.lookAt(ctx, b.Backend, servers) {
			backends[b.Backend] = w.backends[b.Backend]
			complete = false
		}
	}
	for server, failures := range w.servers {
		if same := backends[server.backend]; same > 0 && same == w.backends[server.backend] {
			servers[server] = failures
		}
	}
	w.backends, w.servers = backends, servers
	return complete
}

// lookAt adds a backend's servers to the given ones, unless HAProxy does not answer.
func (w *watcher) lookAt(ctx context.Context, backend string, servers map[refusal]uint64) bool {
	now, err := w.counters.ServerCounters(ctx, backend)
	if err != nil {
		return false
	}
	for _, s := range now {
		server := refusal{s.Backend, s.Server}
		failed := s.Failures()
		if before := w.servers[server]; before <= failed {
			failed -= before
		}
		servers[server] = s.Failures()
		if w.begun && failed >= enough {
			w.refused[server] = remembered
		}
	}
	return true
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
