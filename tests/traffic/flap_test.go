package traffic

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Point 7: readiness flaps every 200 ms; the last state is the one that counts.
func TestFlapping(t *testing.T) {
	w := newWorld(t, "3.4", nil)
	pods := NewPods(t, w.book, 2)
	services := make([]string, size(20, 100))
	var b strings.Builder
	for i := range services {
		services[i] = fmt.Sprintf("web%d", i)
		b.WriteString(route(services[i]))
	}
	w.put("web.yaml", b.String())
	slices := func(flap int) string {
		var b strings.Builder
		for i, service := range services {
			s := Slice{Service: service, Ready: pods[:1]}
			if (i+flap)%2 == 0 {
				s.Ready = pods[:0]
			}
			b.WriteString(s.String())
		}
		return b.String()
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	flaps := int(lasting(3*time.Second, 30*time.Second) / (200 * time.Millisecond))
	for flap := range flaps {
		w.Write("slices.yaml", slices(flap))
		<-tick.C
	}
	last := time.Now()
	w.Write("slices.yaml", slices(flaps))
	right := 0
	for i, service := range services {
		want := http.StatusOK
		if (i+flaps)%2 == 0 {
			want = http.StatusServiceUnavailable
		}
		w.Eventually(service+" is in its last state", func() error {
			answer, err := w.Get(service+".test", "/1")
			if err == nil && answer.Status != want {
				err = fmt.Errorf("status %d, wanted %d", answer.Status, want)
			}
			return err
		})
		if time.Since(last) <= time.Second {
			right++
		}
	}
	t.Logf("%d flaps of %d Services; all in their last state %s after it was written", flaps, len(services), time.Since(last).Round(time.Millisecond))
	if right != len(services) {
		t.Errorf("only %d of %d Services were seen in their last state within a second", right, len(services))
	}
}
