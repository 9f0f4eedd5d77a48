package traffic

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/tests/harness"
)

// soak tells whether the sizes of the project's list are to be run, and how long loads
// last then.
var soak, soakTime = func() (bool, time.Duration) {
	d, err := time.ParseDuration(os.Getenv("SOAK_TIME"))
	return err == nil && d > 0, d
}()

// size is the first number in the short form, the second one in the long one.
func size(short, long int) int {
	if soak {
		return long
	}
	return short
}

// lasting is how long a load lasts: in the long form at least as long as SOAK_TIME says.
func lasting(short, long time.Duration) time.Duration {
	if soak {
		return max(long, soakTime)
	}
	return short
}

// world is a controller with HAProxy in front of pods.
type world struct {
	*harness.Controller
	t    testing.TB
	book *Book
}

func newWorld(t testing.TB, version string, manifests map[string]string, args ...string) *world {
	t.Helper()
	if manifests == nil {
		manifests = map[string]string{}
	}
	manifests["class.yaml"] = harness.Class
	manifests["global.yaml"] = global("50s")
	w := &world{harness.NewController(t, harness.Binary(t, version), manifests), t, NewBook()}
	w.Start(args...)
	return w
}

// global is the ConfigMap of the tests. The access log would fill the memory of the test;
// another timeout-client is a change that needs a reload.
func global(timeoutClient string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: sluice, namespace: sluice-system}\ndata: {syslog-endpoint: none, timeout-client: " + timeoutClient + "}\n"
}

// load is one of GET at the HTTP listener.
func (w *world) load(kind Kind, host string, rate int) Load {
	return Load{Kind: kind, Address: w.HTTP, Host: host, Rate: rate, Book: w.book}
}

// serve makes pods the endpoints of a Service and waits until that is applied.
func (w *world) serve(service string, ready ...*Pod) { w.slice(Slice{Service: service, Ready: ready}) }

func (w *world) slice(s Slice) {
	w.t.Helper()
	w.put(s.Service+"-slice.yaml", s.String())
}

// put writes a manifest and waits until HAProxy serves it.
func (w *world) put(name, content string) {
	w.t.Helper()
	before := w.State().Wanted
	w.Write(name, content)
	w.settled(before)
}

func (w *world) settled(after uint64) {
	w.t.Helper()
	w.Eventually("the change is applied", func() error {
		if s := w.State(); s.Applied <= after || s.Applied != s.Wanted {
			return errNot("wanted " + strconv.FormatUint(s.Wanted, 10) + ", applied " + strconv.FormatUint(s.Applied, 10) + ": " + s.Error)
		}
		return nil
	})
}

type errNot string

func (e errNot) Error() string { return string(e) }

// reloads is the number of reloads so far.
func (w *world) reloads() int { return int(w.Metric("sluice_reloads_total", "")) }

// route are a Service and an Ingress whose host is the Service's name with ".test".
func route(service string, annotations ...string) string {
	return harness.Service(service) + harness.Ingress(service, service+".test", service, annotations...)
}
