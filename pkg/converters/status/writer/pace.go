package writer

import (
	"time"

	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
)

// The least time between two writes of an object that changes with others: a Gateway counts
// its routes. It grows while there is one change after the other, so that a thousand routes
// are some thirty writes, and the last one is not late.
const (
	leastPause = 100 * time.Millisecond
	mostPause  = 800 * time.Millisecond
	calm       = 5 * time.Second // without a write; then the next one does not wait
)

// pace is when an object was written, and how often in a row. The zero value is one that
// was not.
type pace struct {
	last  time.Time
	count int
}

func (p pace) wrote(now time.Time) pace {
	if now.Sub(p.last) > calm {
		return pace{last: now}
	}
	return pace{last: now, count: p.count + 1}
}

// wait is how long the next write has to wait.
func (p pace) wait(kind snapshot.Kind, now time.Time) time.Duration {
	if kind != snapshot.Gateway && kind != snapshot.ListenerSet || now.Sub(p.last) > calm {
		return 0
	}
	pause := min(leastPause<<min(p.count, 10), mostPause)
	return max(0, pause-now.Sub(p.last))
}
