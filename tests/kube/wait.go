package kube

import (
	"testing"
	"time"
)

// Patience bounds every wait for something that must come true.
const Patience = time.Minute

// Eventually polls until the condition holds, and fails the test when it never does.
func Eventually(t testing.TB, what string, condition func() error) {
	t.Helper()
	deadline := time.Now().Add(Patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := condition()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s: %v", Patience, what, err)
		}
		<-tick.C
	}
}
