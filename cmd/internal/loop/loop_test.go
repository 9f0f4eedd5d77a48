package loop

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/sluice-proxy/sluice/cmd/internal/admin"
	"github.com/sluice-proxy/sluice/cmd/internal/options"
	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/resolve"
	"github.com/sluice-proxy/sluice/pkg/converters/source"
	"github.com/sluice-proxy/sluice/pkg/converters/source/files"
	"github.com/sluice-proxy/sluice/pkg/converters/status"
	"github.com/sluice-proxy/sluice/pkg/haproxy/apply"
	"github.com/sluice-proxy/sluice/pkg/haproxy/plan"
	"github.com/sluice-proxy/sluice/pkg/haproxy/process"
	"github.com/sluice-proxy/sluice/pkg/haproxy/shard"
	"github.com/sluice-proxy/sluice/tests/harness"
)

// applier carries nothing out: what was asked of it is noted, and the test says what
// becomes of a reload.
type applier struct {
	registry *shard.Registry
	did      []*plan.Plan
	early    []*plan.Plan
	reloads  []*plan.Plan
	flight   chan apply.Outcome
	waiting  string
}

func (a *applier) Open(context.Context) (*shard.Registry, error) { return a.registry, nil }
func (a *applier) Expected() *shard.Registry                     { return a.registry }
func (a *applier) Rescan() (*shard.Registry, []string, error)    { return a.registry, nil, nil }
func (a *applier) Restart(context.Context) apply.Outcome         { return apply.Outcome{Registry: a.registry} }
func (a *applier) Waiting() string                               { return a.waiting }
func (a *applier) RetryRemovals(context.Context) (int, bool)     { return 0, false }
func (a *applier) Do(_ context.Context, p *plan.Plan) apply.Outcome {
	a.did, a.registry = append(a.did, p), p.Next
	return apply.Outcome{Registry: p.Next}
}

func (a *applier) Early(_ context.Context, p *plan.Plan) { a.early = append(a.early, p) }

func (a *applier) Reload(_ context.Context, p *plan.Plan) <-chan apply.Outcome {
	a.reloads, a.registry = append(a.reloads, p), p.Next
	a.flight = make(chan apply.Outcome, 1)
	return a.flight
}

// desk is a writer that notes what it is told.
type desk struct {
	posted  []string // "name address" of each item
	notices []status.Notice
}

func (d *desk) Post(items []status.Item) {
	for _, item := range items {
		text := item.Object.Name
		if item.Wanted.LoadBalancer != nil {
			for _, address := range item.Wanted.LoadBalancer.Ingress {
				text += " " + address.IP
			}
		}
		d.posted = append(d.posted, text)
	}
}

func (d *desk) Notice(notices []status.Notice) { d.notices = notices }

// world is a loop with manifests, run by hand.
type world struct {
	*Loop
	t       *testing.T
	applier *applier
	desk    *desk
}

func newWorld(t *testing.T) *world {
	t.Helper()
	o := &options.Options{}
	o.Bind(pflag.NewFlagSet("run", pflag.ContinueOnError), options.Run)
	own, err := resolve.SelfSigned(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	line, err := NewLine(o, own)
	if err != nil {
		t.Fatal(err)
	}
	a, d := &applier{}, &desk{}
	l := &Loop{Writer: d, Line: line, Apply: a, Log: slog.New(slog.DiscardHandler), Metrics: admin.NewMetrics(), Publish: func(*admin.Status) {}}
	l.prepare()
	return &world{Loop: l, t: t, applier: a, desk: d}
}

// change takes a manifest and runs the loop as Run does.
func (w *world) change(manifest string) {
	w.t.Helper()
	content, err := files.Read([]string{files.Stdin}, strings.NewReader(manifest))
	if err != nil {
		w.t.Fatal(err)
	}
	w.take(source.Batch{Changes: content.Changes, Findings: content.Findings, Synced: true})
	w.run()
}

func (w *world) run() {
	for w.due() {
		w.round(context.Background())
	}
}

// land ends the reload in flight.
func (w *world) land(out apply.Outcome) {
	w.t.Helper()
	if w.flight == nil {
		w.t.Fatal("no reload is in flight")
	}
	if out.Registry == nil {
		out.Registry = w.applier.registry
	}
	w.applier.registry = out.Registry
	w.flight, w.waits = nil, false
	w.finish(context.Background(), w.plan, out)
	w.run()
}

// refuse ends the reload in flight with HAProxy's refusal of the backend of a Service.
func (w *world) refuse(service string) {
	w.t.Helper()
	var name string
	for b := range w.plan.Next.Served.Backends.All {
		if strings.HasPrefix(b.Name, "test_"+service+"_") {
			name = b.Name
		}
	}
	refusal := &process.Refusal{Section: "backend " + name, Message: "bad word"}
	w.land(apply.Outcome{Registry: &shard.Registry{}, Refusal: refusal, Reasons: []string{"x: y"}})
}

func backendNames(p *plan.Plan) string {
	var names []string
	for b := range p.Next.Served.Backends.All {
		names = append(names, b.Name)
	}
	return strings.Join(names, " ")
}

const base = harness.Class + "---\napiVersion: v1\nkind: Service\nmetadata: {name: a, namespace: test}\nspec: {ports: [{port: 80}]}\n"

func endpoint(address string) string {
	return "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: a-1, namespace: test, labels: {kubernetes.io/service-name: a}}\n" +
		"addressType: IPv4\nports: [{port: 8080}]\nendpoints: [{addresses: [" + address + "]}]\n"
}

func TestChangesDuringAReload(t *testing.T) {
	w := newWorld(t)
	w.change(base + harness.Ingress("a", "a.example", "a"))
	if len(w.applier.reloads) != 1 || w.status.Ready {
		t.Fatalf("%d reloads, ready %v before the first one has landed", len(w.applier.reloads), w.status.Ready)
	}
	w.change(endpoint("10.0.0.1"))
	if len(w.applier.did) != 1 {
		t.Errorf("a new endpoint waits for the reload")
	}
	w.change(harness.Ingress("b", "b.example", "b"))
	w.change(endpoint("10.0.0.2"))
	if n := len(w.applier.early); n == 0 || len(w.applier.early[n-1].Commands) == 0 {
		t.Errorf("the endpoint of a plan that waits is not told to the old worker")
	}
	if len(w.applier.reloads) != 1 {
		t.Errorf("a second reload is in flight beside the first one")
	}
	if w.status.Applied != 0 {
		t.Errorf("%d batches are called applied", w.status.Applied)
	}
	w.land(apply.Outcome{Reloaded: true})
	if len(w.applier.reloads) != 2 || !w.status.Ready || w.status.Applied != 2 {
		t.Errorf("%d reloads, ready %v, %d batches applied; want the second reload, ready and 2", len(w.applier.reloads), w.status.Ready, w.status.Applied)
	}
	w.land(apply.Outcome{Reloaded: true})
	if w.status.Applied != 4 || w.dirty {
		t.Errorf("%d batches applied, want 4", w.status.Applied)
	}
}

// TestStatusFollowsHAProxy: an Ingress gets its address when HAProxy serves it, no earlier,
// and keeps it whatever is wrong with it.
func TestStatusFollowsHAProxy(t *testing.T) {
	w := newWorld(t)
	w.Line.Addressed([]string{"192.0.2.1"})
	w.change(base + harness.Ingress("a", "a.example", "a"))
	w.change(harness.Ingress("b", "b.example", "b", "balance-algorithm", "leastconn"))
	if len(w.desk.posted) > 0 {
		t.Errorf("%v is told while the reload is in flight", w.desk.posted)
	}
	w.land(apply.Outcome{Reloaded: true})
	if got := strings.Join(w.desk.posted, ", "); got != "a 192.0.2.1" {
		t.Errorf("told after the first reload: %s", got)
	}
	w.refuse("b")
	w.land(apply.Outcome{Reloaded: true})
	if got := strings.Join(w.desk.posted, ", "); got != "a 192.0.2.1, b 192.0.2.1" {
		t.Errorf("told after the quarantine: %s", got)
	}
	quarantined := func(n status.Notice) bool {
		return n.Code == report.Quarantined && n.Object.Name == "b" && n.APIVersion != ""
	}
	if !slices.ContainsFunc(w.desk.notices, quarantined) {
		t.Errorf("nothing is said of the quarantine: %v", w.desk.notices)
	}
	w.Line.Addressed([]string{"192.0.2.2"})
	w.dirty = true // as Run does
	w.run()
	if got := strings.Join(w.desk.posted[2:], ", "); got != "a 192.0.2.2, b 192.0.2.2" {
		t.Errorf("told of other addresses: %s", got)
	}
}

func TestRefusedObjectIsLeftOut(t *testing.T) {
	w := newWorld(t)
	w.change(base + harness.Ingress("a", "a.example", "a") + harness.Ingress("b", "b.example", "b", "balance-algorithm", "leastconn"))
	w.refuse("b")
	if len(w.applier.reloads) != 2 || strings.Contains(backendNames(w.plan), "test_b_") {
		t.Fatalf("%d reloads, the last with %s", len(w.applier.reloads), backendNames(w.plan))
	}
	if len(w.Line.Quarantined()) != 1 {
		t.Errorf("quarantined: %v", w.Line.Quarantined())
	}
	w.land(apply.Outcome{Reloaded: true})
	w.change(harness.Ingress("b", "b.example", "b"))
	if len(w.Line.Quarantined()) != 0 || !strings.Contains(backendNames(w.plan), "test_b_80") {
		t.Errorf("the corrected object is still in quarantine: %s", backendNames(w.plan))
	}
}

func TestObjectCorrectedDuringTheCheckIsNotQuarantined(t *testing.T) {
	w := newWorld(t)
	w.change(base + harness.Ingress("a", "a.example", "a") + harness.Ingress("b", "b.example", "b", "balance-algorithm", "leastconn"))
	w.change(harness.Ingress("b", "b.example", "b"))
	w.refuse("b")
	if len(w.Line.Quarantined()) != 0 || !strings.Contains(backendNames(w.plan), "test_b_80") {
		t.Errorf("quarantined %v, next plan %s", w.Line.Quarantined(), backendNames(w.plan))
	}
}

// The correction needs no reload, so the old worker was told at once: HAProxy's refusal is
// about the form before it.
func TestObjectCorrectedBehindAReloadIsNotQuarantined(t *testing.T) {
	w := newWorld(t)
	w.change(base + harness.Ingress("a", "a.example", "a"))
	registry := *w.applier.registry
	registry.Worker.Dynamic = true
	w.land(apply.Outcome{Registry: &registry, Reloaded: true})
	w.change(harness.Ingress("b", "b.example", "b", "balance-algorithm", "leastconn"))
	w.change(harness.Ingress("b", "b.example", "b"))
	if len(w.applier.reloads) != 2 || len(w.applier.did) != 1 {
		t.Fatalf("%d reloads, %d other plans", len(w.applier.reloads), len(w.applier.did))
	}
	w.refuse("b")
	if len(w.Line.Quarantined()) != 0 || !strings.Contains(backendNames(w.plan), "test_b_80") {
		t.Errorf("quarantined %v, next plan %s", w.Line.Quarantined(), backendNames(w.plan))
	}
	w.land(apply.Outcome{Reloaded: true})
	if w.status.Applied != w.wanted {
		t.Errorf("%d batches applied, want %d", w.status.Applied, w.wanted)
	}
}

func TestRefusalThatNothingCuresIsRetriedLater(t *testing.T) {
	w := newWorld(t)
	w.change(base + harness.Ingress("a", "a.example", "a"))
	w.land(apply.Outcome{Registry: &shard.Registry{}, Refusal: &process.Refusal{Message: "no memory", Output: "no memory"}, Reasons: []string{"x: y"}})
	if len(w.applier.reloads) != 1 || !strings.Contains(w.status.Error, "no object is to blame") || w.status.Ready {
		t.Errorf("%d reloads, error %q", len(w.applier.reloads), w.status.Error)
	}
	w.dirty = true // the timer of the retry
	w.run()
	w.land(apply.Outcome{Reloaded: true})
	if w.status.Error != "" || !w.status.Ready {
		t.Errorf("error %q after the cause is gone", w.status.Error)
	}
}

func TestRefusalAfterTheLastChoiceIsRetriedLater(t *testing.T) {
	w := newWorld(t)
	w.change(base + harness.Ingress("a", "a.example", "a") + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: sluice, namespace: sluice-system}\ndata: {timeout-client: 1s}\n")
	for tries := 0; w.flight != nil; tries++ {
		if tries > 10 {
			t.Fatal("the same refusal is tried again without a pause")
		}
		w.land(apply.Outcome{Registry: &shard.Registry{}, Refusal: &process.Refusal{Section: "global", Message: "bad word"}, Reasons: []string{"x: y"}})
	}
	if w.status.Error == "" || w.failures == 0 {
		t.Error("no failure was noted")
	}
}

func TestPortInUseEndsTheFirstStart(t *testing.T) {
	w := newWorld(t)
	w.change(base)
	w.land(apply.Outcome{Err: &process.BindError{Address: "127.0.0.1:80", Reason: "Address already in use"}})
	if done, err := w.done(); !done || !strings.Contains(err.Error(), "127.0.0.1:80") {
		t.Errorf("done %v, error %v", done, err)
	}
}

func TestFailuresAreRetried(t *testing.T) {
	w := newWorld(t)
	w.change(base)
	w.land(apply.Outcome{Err: errors.New("disk full")})
	if done, _ := w.done(); done || w.failures != 1 || w.status.Error != "disk full" {
		t.Errorf("%d failures, error %q", w.failures, w.status.Error)
	}
	for failures, want := range []time.Duration{firstRetry, 2 * firstRetry, 4 * firstRetry} {
		if got := delay(failures); got != want {
			t.Errorf("wait %v after %d failures, want %v", got, failures, want)
		}
	}
	if delay(100) != lastRetry {
		t.Errorf("wait %v in the long run", delay(100))
	}
}

// Why a reload does not begin shows in the state, and no longer than it is so.
func TestTheStateTellsWhatAReloadWaitsFor(t *testing.T) {
	w := newWorld(t)
	var shown *admin.Status
	w.Publish = func(s *admin.Status) { shown = s }
	w.change(base)
	w.land(apply.Outcome{Reloaded: true})
	w.applier.waiting = "2 old workers still have connections"
	w.everySecond(context.Background())
	if shown.Waiting != w.applier.waiting {
		t.Errorf("while it waits: %q", shown.Waiting)
	}
	w.applier.waiting = ""
	w.everySecond(context.Background())
	if shown.Waiting != "" {
		t.Errorf("when it has begun: %q", shown.Waiting)
	}
}
