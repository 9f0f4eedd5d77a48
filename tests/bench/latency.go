package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
)

const (
	latencyChanges = 500 // of one endpoint each
	inOneGo        = 1000
	latencyBatches = 9

	maxToCommand      = 20 * time.Millisecond // p99
	maxBatchToCommand = 50 * time.Millisecond // median
)

// latency measures the time from an event's arrival until HAProxy has acknowledged the last
// runtime command that it led to, and until files and registry have it, too. Garbage
// collections are in these times.
func (b *bench) latency(ctx context.Context, all *world) error {
	progress("measuring from events to commands")
	first := latencyChanges // versions that no other part asks for
	var told, applied []time.Duration
	for i := range latencyChanges {
		t, a, err := all.timed(ctx, []snapshot.Change{all.cluster.slice(i*37%all.cluster.services, first+i)})
		if err != nil {
			return err
		}
		told, applied = append(told, t), append(applied, a)
	}
	t := &b.table
	t.begin("From an event until HAProxy has it")
	p99 := quantile(told, 0.99)
	t.claim("one endpoint changes: last command acknowledged, p99", "<= 20 ms", milliseconds(p99), p99 <= maxToCommand)
	t.inform("the same, p50 and maximum", fmt.Sprintf("%s, %s", milliseconds(median(told)), milliseconds(slices.Max(told))))
	t.inform("files and registry, too, p50 and p99", fmt.Sprintf("%s, %s", milliseconds(median(applied)), milliseconds(quantile(applied, 0.99))))
	told, applied = nil, nil
	for version := range latencyBatches {
		changes := make([]snapshot.Change, inOneGo)
		for i := range changes {
			changes[i] = all.cluster.slice(i*all.cluster.services/inOneGo, first+latencyChanges+version)
		}
		t, a, err := all.timed(ctx, changes)
		if err != nil {
			return err
		}
		told, applied = append(told, t), append(applied, a)
	}
	m := median(told)
	t.claim(fmt.Sprintf("%d endpoints change in one go: last command acknowledged, median", inOneGo), "<= 50 ms", milliseconds(m), m <= maxBatchToCommand)
	t.inform("the same, fastest and slowest", fmt.Sprintf("%s, %s", milliseconds(slices.Min(told)), milliseconds(slices.Max(told))))
	t.inform("files and registry, too, median", milliseconds(median(applied)))
	return nil
}

// timed takes a batch through the line, and tells when its commands were acknowledged and
// when all of it was done.
func (w *world) timed(ctx context.Context, changes []snapshot.Change) (told, applied time.Duration, err error) {
	w.told = time.Time{}
	begin := time.Now()
	s, err := w.take(ctx, changes)
	applied = time.Since(begin)
	if err == nil && (s.out.Reloaded || w.told.IsZero()) {
		err = fmt.Errorf("%d changes of endpoints were not told by commands", len(changes))
	}
	return w.told.Sub(begin), applied, err
}

// quantile is the value that a share of the list does not exceed.
func quantile(list []time.Duration, q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[int(q*float64(len(sorted)-1))]
}
