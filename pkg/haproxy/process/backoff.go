package process

import (
	"context"
	"log/slog"
	"time"
)

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

// Keep runs start again whenever what it started is gone, or could not be started, until
// ctx ends; it then returns the error of ctx. start brings HAProxy up, or adopts it, and
// returns the channel that tells its end, as Supervisor.Exited does.
func (b Backoff) Keep(ctx context.Context, log *slog.Logger, start func(context.Context) (<-chan error, error)) error {
	for wait := time.Duration(0); ; {
		began := time.Now()
		ran := time.Duration(0)
		exited, err := start(ctx)
		if err == nil {
			select {
			case err = <-exited:
				ran = time.Since(began)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		wait = b.Next(wait, ran)
		log.Error("haproxy does not run, it is started again", "in", wait, "ran", ran, "reason", err)
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
	}
}
