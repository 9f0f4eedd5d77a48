package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/tests/harness"
)

// What a rule says of retries and time limits: statuses, failing connections, tries that take too
// long, and a limit over all tries together.
func TestRetriesAndTimeLimits(t *testing.T) {
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		address := harness.FreeAddress(t)
		var given atomic.Int64
		failing := func(status int) *harness.Pod { // each time
			return harness.NewPodWith(t, "failing", harness.PodOptions{Status: func() int { return status }})
		}
		status := failing(503)
		gone := harness.NewPodWith(t, "gone", harness.PodOptions{Before: func(*http.Request) { panic(http.ErrAbortHandler) }})
		slow := harness.NewPodWith(t, "slow", harness.PodOptions{Before: func(r *http.Request) {
			select {
			case <-r.Context().Done():
				given.Add(1)
			case <-time.After(20 * time.Second):
			}
		}})
		tired := harness.NewPodWith(t, "tired", harness.PodOptions{Before: func(*http.Request) { time.Sleep(150 * time.Millisecond) }, Status: func() int { return 503 }})
		manifests := gatewayOf("{name: http, port: " + portOf(address) + ", protocol: HTTP}")
		for name, pod := range map[string]*harness.Pod{"status": status, "gone": gone, "slow": slow, "tired": tired, "web": harness.NewPod(t, "web")} {
			manifests += harness.Service(name) + harness.Slice(name, pod)
		}
		rule := func(path, retry, timeouts, service string) string {
			return "{matches: [{path: {value: " + path + "}}], retry: {" + retry + "}, timeouts: {" + timeouts + "}, " + to(service) + "}"
		}
		manifests += routeOf("retry", "r.example", strings.Join([]string{
			rule("/status", "codes: [503], attempts: 2", "", "status"),
			rule("/other", "codes: [500], attempts: 2", "", "status"),
			rule("/gone", "attempts: 2", "", "gone"),
			rule("/slow", "attempts: 1", "backendRequest: 200ms", "slow"),
			rule("/limit", "attempts: 50", "request: 700ms, backendRequest: 300ms", "slow"),
			rule("/tired", "codes: [503], attempts: 50", "request: 500ms", "tired"),
			rule("/fine", "attempts: 2", "request: 5s", "web"),
			"{matches: [{path: {value: /one}}], timeouts: {request: 300ms}, " + to("slow") + "}",
		}, ","))
		protected := routeOf("protected", "p.example", rule("/", "attempts: 2", "request: 5s", "web"))
		manifests += strings.Replace(protected, "namespace: test,", `namespace: test, annotations: {sluice-proxy.github.io/allowlist-source-range: 127.0.0.2},`, 1)
		c := start(t, binary, map[string]string{"a.yaml": manifests}, "--gateway-addresses", "127.0.0.1")
		for _, r := range []struct {
			path   string
			pod    *harness.Pod
			status int
			tries  [2]int64 // at least and at most
			took   [2]time.Duration
		}{
			{"/status", status, 503, [2]int64{3, 3}, [2]time.Duration{0, 5 * time.Second}},
			{"/other", status, 503, [2]int64{1, 1}, [2]time.Duration{0, 5 * time.Second}},
			{"/gone", gone, 502, [2]int64{3, 3}, [2]time.Duration{0, 5 * time.Second}},
			{"/slow", slow, 504, [2]int64{2, 2}, [2]time.Duration{400 * time.Millisecond, 5 * time.Second}},
			{"/one", slow, 504, [2]int64{1, 1}, [2]time.Duration{300 * time.Millisecond, 5 * time.Second}},
			{"/limit", slow, 504, [2]int64{2, 3}, [2]time.Duration{700 * time.Millisecond, 5 * time.Second}},
			{"/tired", tired, 504, [2]int64{2, 4}, [2]time.Duration{500 * time.Millisecond, 4 * time.Second}},
		} {
			before, start := r.pod.Hits(), time.Now()
			answer, err := harness.Request(address, "GET", "r.example", r.path)
			if err != nil {
				t.Fatal(err)
			}
			took, tries := time.Since(start), r.pod.Hits()-before
			if answer.Status != r.status || tries < r.tries[0] || tries > r.tries[1] || took < r.took[0] || took > r.took[1] {
				t.Errorf("%s: status %d after %d tries and %s, want %d, %v, %v", r.path, answer.Status, tries, took, r.status, r.tries, r.took)
			}
		}
		// Nobody waits for a server longer than a client does.
		c.Eventually("the tries end with the limit", func() error {
			if n := given.Load(); n < 5 {
				return fmt.Errorf("%d tries were given up", n)
			}
			return nil
		})
		answer, err := harness.Request(address, "GET", "r.example:99", "/fine/%41?q=1", "Sluice-Backend", "test_status_80", "X-Forwarded-Proto", "https")
		if err != nil {
			t.Fatal(err)
		}
		seen, err := answer.Read()
		if err != nil {
			t.Fatal(err)
		}
		if h := seen.Headers; seen.Pod != "web" || seen.Path != "/fine/%41?q=1" || seen.Host != "r.example:99" || h.Get("X-Forwarded-For") != "127.0.0.1" ||
			h.Get("X-Real-Ip") != "127.0.0.1" || h.Get("X-Forwarded-Proto") != "http" || h.Get("Sluice-Backend")+h.Get("Sluice-Https") != "" {
			t.Errorf("the pod saw %+v", seen)
		}
		for source, want := range map[string]int{"127.0.0.1": 403, "127.0.0.2": 200} { // the second way knows the client
			gets(t, harness.Ask{Address: address, Source: source, Host: "p.example", Path: "/"}, want)
		}
	})
}
