package traffic

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"
)

// Verdict is what became of a request.
type Verdict struct {
	Number  string
	Reason  string // why it failed; empty: it was served
	Excuse  string // why that does not count
	Status  int
	Pod     string
	At      time.Duration // when it was due, since the start
	Latency time.Duration // from then on
	Twice   bool          // the client sent it again, as it may
}

// Report is what became of all requests of a load.
type Report struct {
	mu       sync.Mutex
	verdicts []Verdict
}

func (r *Report) add(v Verdict) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.verdicts = append(r.verdicts, v)
}

// Failed are the requests that failed without an excuse.
func (r *Report) Failed() []Verdict {
	return r.filter(func(v Verdict) bool { return v.Reason != "" && v.Excuse == "" })
}

// Excused are those that failed with one.
func (r *Report) Excused() []Verdict { return r.filter(func(v Verdict) bool { return v.Excuse != "" }) }

// All is the number of requests.
func (r *Report) All() int { return len(r.filter(func(Verdict) bool { return true })) }

func (r *Report) filter(keep func(Verdict) bool) []Verdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	var kept []Verdict
	for _, v := range r.verdicts {
		if keep(v) {
			kept = append(kept, v)
		}
	}
	return kept
}

// Quantile is a latency that a share of the requests did not exceed, failed ones included.
func (r *Report) Quantile(share float64) time.Duration {
	all := r.filter(func(Verdict) bool { return true })
	if len(all) == 0 {
		return 0
	}
	slices.SortFunc(all, func(a, b Verdict) int { return int(a.Latency - b.Latency) })
	return all[min(int(share*float64(len(all))), len(all)-1)].Latency
}

// String sums up.
func (r *Report) String() string {
	var b strings.Builder
	ms := func(share float64) time.Duration { return r.Quantile(share).Round(100 * time.Microsecond) }
	fmt.Fprintf(&b, "%d requests, %d failed, %d excused; p50 %s, p99 %s, max %s", r.All(), len(r.Failed()), len(r.Excused()), ms(0.5), ms(0.99), ms(1))
	if twice := len(r.filter(func(v Verdict) bool { return v.Twice })); twice > 0 {
		fmt.Fprintf(&b, "; %d sent twice by the client", twice)
	}
	counts := map[string]int{}
	for _, v := range r.filter(func(v Verdict) bool { return v.Reason != "" }) {
		reason := v.Reason
		if v.Excuse != "" {
			reason += " (" + v.Excuse + ")"
		}
		counts[reason]++
	}
	reasons := make([]string, 0, len(counts))
	for reason := range counts {
		reasons = append(reasons, reason)
	}
	sort.Strings(reasons)
	for _, reason := range reasons {
		fmt.Fprintf(&b, "\n    %d x %s", counts[reason], reason)
	}
	return b.String()
}

// first are the first failures, for the log of a test.
func (r *Report) first(n int) string {
	var b strings.Builder
	failed := r.Failed()
	for _, v := range failed[:min(n, len(failed))] {
		fmt.Fprintf(&b, "\n    request %s, due at %s, took %s: %s", v.Number, v.At.Round(time.Millisecond), v.Latency.Round(time.Millisecond), v.Reason)
	}
	return b.String()
}
