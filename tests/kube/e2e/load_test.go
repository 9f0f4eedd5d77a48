package e2e_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/tests/kube"
)

// load sends requests at a steady rate, whether or not earlier ones were answered, and
// keeps account of those that fail.
type load struct {
	stop chan struct{}
	sent sync.WaitGroup

	mu       sync.Mutex
	count    int
	failures []string
}

// loadRate is how many requests a second a load sends: as many as a small machine can take
// beside a control plane that starts.
const loadRate = 40

// leastRequests is how many are answered before what the load is there for, in a calm, and
// how many afterwards, since some faults show late.
const leastRequests = 30

// startLoad begins with it and waits for some answers; a request fails by returning an error.
func startLoad(t *testing.T, request func() error) *load {
	t.Helper()
	l := &load{stop: make(chan struct{})}
	l.sent.Add(1)
	go l.run(time.Second/loadRate, request)
	l.more(t, leastRequests)
	return l
}

// more waits until so many more requests were answered.
func (l *load) more(t *testing.T, n int) {
	t.Helper()
	answered := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.count
	}
	before := answered()
	kube.Eventually(t, "the load goes on", func() error {
		if now := answered(); now < before+n {
			return fmt.Errorf("%d answers of %d", now-before, n)
		}
		return nil
	})
}

func (l *load) run(interval time.Duration, request func() error) {
	defer l.sent.Done()
	began := time.Now()
	for i := 0; ; i++ {
		select {
		case <-l.stop:
			return
		case <-time.After(time.Until(began.Add(time.Duration(i) * interval))):
		}
		l.sent.Add(1)
		go func() {
			defer l.sent.Done()
			at := time.Now()
			l.note(at, request())
		}()
	}
}

func (l *load) note(at time.Time, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	if err != nil {
		l.failures = append(l.failures, at.Format("15:04:05.000 ")+err.Error())
	}
}

// end stops the load, waits for the last answers and fails the test if a request failed.
func (l *load) end(t *testing.T) {
	t.Helper()
	l.more(t, leastRequests)
	close(l.stop)
	l.sent.Wait()
	for i, failure := range l.failures {
		if i == 5 {
			t.Errorf("and %d more", len(l.failures)-i)
			break
		}
		t.Errorf("failed request: %s", failure)
	}
}
