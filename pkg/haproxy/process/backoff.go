package process

import "time"

// Backoff spaces out restarts: First, doubling up to Max, starting again with First
// after a run of at least Reset.
type Backoff struct{ First, Max, Reset time.Duration }

// DefaultBackoff is 100 ms, doubling up to 30 s, reset after a run of 60 s.
func DefaultBackoff() Backoff {
	return Backoff{First: 100 * time.Millisecond, Max: 30 * time.Second, Reset: 60 * time.Second}
}

// Next is how long to wait after a run of the given length, or 0 for one that failed to
// start, if the wait before it was previous (0 before the first one).
func (b Backoff) Next(previous, ran time.Duration) time.Duration {
	if previous == 0 || ran >= b.Reset {
		return b.First
	}
	return min(2*previous, b.Max)
}
