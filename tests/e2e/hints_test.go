package e2e

import (
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/tests/harness"
)

// hinted is the slice of a pod with a hint for a zone.
func hinted(service, zone string, pod *harness.Pod, ready string) string {
	slice := strings.Replace(harness.Slice(service, pod), "name: "+service+"-0", "name: "+service+"-"+zone, 1)
	return strings.Replace(slice, "addresses: [127.0.0.1]", "addresses: [127.0.0.1], conditions: {ready: "+ready+"}, hints: {forZones: [{name: "+zone+"}]}", 1)
}

// Requests stay in HAProxy's zone as long as there is a ready pod, without a reload.
func TestRequestsStayInTheZone(t *testing.T) {
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		here, there := harness.NewPod(t, "here"), harness.NewPod(t, "there")
		near := strings.Replace(harness.Service("web"), "ports: [{port: 80}]", "ports: [{port: 80}], trafficDistribution: PreferClose", 1)
		c := start(t, binary, map[string]string{
			"web.yaml": harness.Class + near + harness.Ingress("web", "web.example", "web"), "a.yaml": hinted("web", "a", here, "true"), "b.yaml": hinted("web", "b", there, "true"),
		}, "--zone", "a")
		reloads := c.Metric("sluice_reloads_total", "")
		ask := harness.Ask{Address: c.HTTP, Host: "web.example", Path: "/"}
		for range 2 {
			for range 6 {
				must(t, reached(ask, "here"))
			}
			change(t, c, map[string]string{"a.yaml": hinted("web", "a", here, "false")})
			for range 6 {
				must(t, reached(ask, "there"))
			}
			change(t, c, map[string]string{"a.yaml": hinted("web", "a", here, "true")})
		}
		change(t, c, map[string]string{"web.yaml": harness.Class + harness.Service("web") + harness.Ingress("web", "web.example", "web")})
		before := there.Hits()
		for range 6 {
			gets(t, ask, 200)
		}
		if there.Hits() == before {
			t.Error("a Service that does not ask for it gets no request of another zone")
		}
		if got := c.Metric("sluice_reloads_total", ""); got != reloads {
			t.Errorf("%v reloads: %v", got-reloads, c.State().Reloads)
		}
	})
}
