package loop

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/sluice-proxy/sluice/cmd/internal/options"
	"github.com/sluice-proxy/sluice/pkg/converters/gateway"
	"github.com/sluice-proxy/sluice/pkg/converters/ingress"
	"github.com/sluice-proxy/sluice/pkg/converters/memo"
	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/resolve"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/converters/status"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/plan"
	"github.com/sluice-proxy/sluice/pkg/haproxy/process"
	"github.com/sluice-proxy/sluice/pkg/haproxy/shard"
	"github.com/sluice-proxy/sluice/pkg/template"
	"github.com/sluice-proxy/sluice/rootfs"
)

// OwnCertificate is the file name of the controller's own certificate. Unlike others it
// is not named after its content: it stands in the first line of the crt-list, which
// can't be changed at run time.
const OwnCertificate = "default.pem"

// Line is the straight line from changes to a plan. It is not safe for concurrent use.
type Line struct {
	snapshot *snapshot.Snapshot
	memo     *memo.Memo
	renderer *template.Renderer
	settings memo.Options
	shards   int
	runDir   string

	model    *model.Model
	findings []report.Finding // of the source

	publish   status.Publish
	statuses  *status.Ledger
	converted map[snapshot.Key]bool           // Ingresses on their way to HAProxy; see memo.Converted
	wanted    map[snapshot.Key]gateway.Status // of objects of the Gateway API on their way to HAProxy
	seen      []snapshot.Key                  // objects of the Gateway API that changed since Applied
}

// NewLine prepares a line. The certificate is the controller's own.
func NewLine(o *options.Options, own *model.Certificate) (*Line, error) {
	var folder fs.FS = rootfs.Templates()
	if o.Templates != "" {
		folder = os.DirFS(o.Templates)
	}
	renderer, err := template.New(folder)
	if err != nil {
		return nil, fmt.Errorf("--templates: %w", err)
	}
	pool, err := o.GatewayPool()
	if err != nil {
		return nil, err
	}
	l := &Line{
		snapshot: snapshot.New(),
		renderer: renderer,
		shards:   o.BackendShards,
		runDir:   o.RunDir,
		publish:  status.Publish{Service: key(snapshot.Service, o.PublishService), Addresses: o.PublishAddress},
		statuses: status.NewLedger(o.ControllerName()),
		settings: memo.Options{
			Class:                    ingress.Class{Name: o.IngressClass, Controller: o.ControllerName(), WatchWithout: o.WatchWithoutClass},
			ConfigMap:                key(snapshot.ConfigMap, o.GlobalConfigMap()),
			ConfigMapNamed:           o.ConfigMap != "",
			DefaultCertificate:       own,
			DefaultCertificateSecret: key(snapshot.Secret, o.DefaultSSLCertificate),
			DefaultBackendService:    key(snapshot.Service, o.DefaultBackendService),
			TCPServices:              key(snapshot.ConfigMap, o.TCPServicesConfigMap),
			AdminAddress:             o.AdminAddress,
			GatewayAddresses:         pool,
			AllowCrossNamespace:      o.AllowCrossNamespace,
			AllowLocalEndpoints:      o.AllowLocalEndpoints,
			Place:                    resolve.Place{Zone: o.Zone, Node: o.NodeName},
			Bind:                     resolve.Bind{HTTP: o.HTTPAddress, HTTPS: o.HTTPSAddress},
			Health:                   model.Health{Addresses: o.HealthAddress, Starting: o.Bootstrap},
		},
	}
	l.settings.Class.Namespace, _, _ = options.SplitName(o.GlobalConfigMap())
	l.memo = memo.New(l.settings)
	l.converted = map[snapshot.Key]bool{}
	l.wanted = map[snapshot.Key]gateway.Status{}
	return l, nil
}

func key(kind snapshot.Kind, name string) snapshot.Key {
	namespace, name, ok := options.SplitName(name)
	if !ok {
		return snapshot.Key{}
	}
	return snapshot.Key{Kind: kind, Namespace: namespace, Name: name}
}

// Take applies changes of the source and converts what depends on them. The findings
// are all that the source has to say, replacing what it said before.
func (l *Line) Take(changes []snapshot.Change, findings []report.Finding, now time.Time) {
	l.findings = findings
	for _, c := range changes {
		if status.HasStatus(c.Key.Kind) {
			l.seen = append(l.seen, c.Key)
		}
	}
	l.model = l.memo.Update(l.snapshot, l.snapshot.Apply(changes), now)
}

// Again converts what depends on the clock or on a quarantine.
func (l *Line) Again(now time.Time) {
	l.model = l.memo.Update(l.snapshot, nil, now)
}

// Wanted are the Secrets and ConfigMaps that conversion looks up now and did not at the
// last call, and those that it no longer looks up.
func (l *Line) Wanted() (wanted, unwanted []snapshot.Key) { return l.memo.Wanted() }

// Quarantine leaves the present form of objects out, since HAProxy refuses it.
// The result is false where that changes nothing any more.
func (l *Line) Quarantine(origins []model.Origin, why string, now time.Time) bool {
	differs := l.memo.Quarantine(origins, why)
	l.Again(now)
	return differs
}

// Unbound says which listeners for datagrams have no socket, and why; it tells whether that is
// news. It shows in what Applied returns after the next Planned.
func (l *Line) Unbound(why map[string]string) bool { return l.memo.Unbound(why) }

// Quarantined are the objects that are left out.
func (l *Line) Quarantined() []model.Origin { return l.memo.Quarantined() }

// Planned notes that the model is on its way to HAProxy.
func (l *Line) Planned() {
	l.memo.Planned()
	maps.Copy(l.converted, l.memo.Converted())
	maps.Copy(l.wanted, l.memo.Statuses(l.published()))
}

// Applied notes that HAProxy serves the model that was last planned: its parts are the last
// good ones. It returns the statuses that change by it.
func (l *Line) Applied() []status.Item {
	l.memo.Applied()
	changed := l.statuses.Update(l.snapshot, l.converted, l.publish.Resolve(l.snapshot))
	clear(l.converted)
	changed = append(changed, l.statuses.UpdateGateway(l.snapshot, l.wanted, l.seen)...)
	l.seen = nil
	clear(l.wanted)
	return changed
}

// published are the addresses of Ingresses, and of Gateways that have none of their own.
func (l *Line) published() []string {
	var texts []string
	for _, address := range l.publish.Resolve(l.snapshot) {
		texts = append(texts, cmp.Or(address.IP, address.Hostname))
	}
	return texts
}

// Addressed replaces the addresses that Ingresses get in their status. They show in what
// Applied returns next.
func (l *Line) Addressed(addresses []string) { l.publish.Addresses = addresses }

// Addresses are those that Ingresses get in their status at present, for people.
func (l *Line) Addresses() []string {
	var texts []string
	for _, address := range l.statuses.Addresses() {
		texts = append(texts, cmp.Or(address.IP, address.Hostname))
	}
	return texts
}

// Notices are findings with what an Event needs besides.
func (l *Line) Notices(findings []report.Finding) []status.Notice {
	return status.Notices(l.snapshot, findings)
}

// Conversions are the numbers of units converted so far, by kind.
func (l *Line) Conversions() map[string]int { return l.memo.Conversions() }

// IsGlobal tells whether an object holds the global settings.
func (l *Line) IsGlobal(key snapshot.Key) bool { return key == l.settings.ConfigMap }

// Trace finds the objects behind a refusal of a plan's tree.
func (l *Line) Trace(refusal *process.Refusal, p *plan.Plan) []model.Origin {
	r := refused{refusal: refusal, model: p.Next.Served, content: func(path string) []byte { return l.content(p, path) }}
	if key := l.settings.ConfigMap; l.snapshot.Object(key) != nil {
		r.global = key.Origin()
	}
	return r.trace()
}

// content is what stands in a file of a plan's tree. Of the files that did not change
// only shards are rendered again; what HAProxy says of others needs no look inside.
func (l *Line) content(p *plan.Plan, path string) []byte {
	file, _ := p.Tree.Lookup(path)
	if text := file.Bytes(); text != nil {
		return text
	}
	for i, record := range p.Next.Records {
		if record.Path == path {
			text, _ := l.renderer.Shard(p.Layout, i) // it was rendered before
			return text
		}
	}
	return nil
}

// Model is the model of everything taken so far.
func (l *Line) Model() *model.Model { return l.model }

// Report are the findings of the source and of the conversion.
func (l *Line) Report() []report.Finding {
	findings := slices.Concat(l.memo.Report(), l.findings)
	for i := range findings {
		findings[i] = l.Locate(findings[i])
	}
	return report.Sort(findings)
}

// Locate adds the file and line of the finding's object.
func (l *Line) Locate(f report.Finding) report.Finding {
	if f.File == "" {
		where := l.snapshot.Position(snapshot.Key{Kind: snapshot.Kind(f.Object.Kind), Namespace: f.Object.Namespace, Name: f.Object.Name})
		f.File, f.Line = where.File, where.Line
	}
	return f
}

// Templates identifies the templates that render.
func (l *Line) Templates() model.Digest { return l.renderer.Digest() }

// Plan is the way from the old registry, which may be nil, to the model.
func (l *Line) Plan(old *shard.Registry) (*plan.Plan, error) {
	shards := l.shards
	if shards == 0 {
		shards = l.model.Shards
	}
	layout := shard.Place(old, l.model, shard.Options{Shards: shards, Templates: l.renderer.Digest()})
	t, err := l.renderer.Render(template.Input{Model: l.model, Layout: layout, Old: old, RunDir: l.runDir})
	if err != nil {
		return nil, err
	}
	return plan.Make(plan.Input{Old: old, Layout: layout, Tree: t, Model: l.model}), nil
}
