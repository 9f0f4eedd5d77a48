package main

import (
	"time"

	"github.com/sluice-proxy/sluice/pkg/converters/ingress"
	"github.com/sluice-proxy/sluice/pkg/converters/memo"
	"github.com/sluice-proxy/sluice/pkg/converters/resolve"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/plan"
	"github.com/sluice-proxy/sluice/pkg/haproxy/shard"
	"github.com/sluice-proxy/sluice/pkg/template"
	"github.com/sluice-proxy/sluice/rootfs"
)

// configMap is where the global settings stand.
var configMap = snapshot.Key{Kind: snapshot.ConfigMap, Namespace: "sluice-system", Name: "sluice"}

// setup is what a line and those that replace it have in common.
type setup struct {
	memo     memo.Options
	renderer *template.Renderer
	runDir   string
	now      time.Time
}

// newSetup prepares lines whose HAProxy listens on the given address and has its socket in
// a folder.
func newSetup(http, runDir string) (setup, error) {
	renderer, err := template.New(rootfs.Templates())
	if err != nil {
		return setup{}, err
	}
	now := time.Now()
	certificate, err := resolve.SelfSigned(now)
	if err != nil {
		return setup{}, err
	}
	certificate.Name = "default.pem"
	options := memo.Options{
		Class:              ingress.Class{Name: className, Controller: controllerName, Namespace: configMap.Namespace},
		ConfigMap:          configMap,
		DefaultCertificate: certificate,
		Bind:               resolve.Bind{HTTP: []string{http}, HTTPS: []string{"unix@" + runDir + "/https.sock"}},
	}
	return setup{memo: options, renderer: renderer, runDir: runDir, now: now}, nil
}

// line is the line from changes to a plan, as cmd/internal/loop has it.
type line struct {
	setup
	snapshot *snapshot.Snapshot
	memo     *memo.Memo
	model    *model.Model
}

func newLine(s setup) *line {
	return &line{setup: s, snapshot: snapshot.New(), memo: memo.New(s.memo)}
}

// take converts what depends on the changes.
func (l *line) take(changes []snapshot.Change) {
	l.model = l.memo.Update(l.snapshot, l.snapshot.Apply(changes), l.now)
}

// anew converts everything with an empty memo.
func (l *line) anew() {
	var keys []snapshot.Key
	for _, kind := range []snapshot.Kind{snapshot.ConfigMap, snapshot.IngressClass, snapshot.Ingress, snapshot.Service, snapshot.EndpointSlice, snapshot.Secret} {
		keys = append(keys, l.snapshot.Keys(kind)...)
	}
	l.memo = memo.New(l.setup.memo)
	l.model = l.memo.Update(l.snapshot, keys, l.now)
}

// plan is the way from the old registry, which may be nil, to the model.
func (l *line) plan(old *shard.Registry) *plan.Plan {
	layout := shard.Place(old, l.model, shard.Options{Shards: l.model.Shards, Templates: l.renderer.Digest()})
	t, err := l.renderer.Render(template.Input{Model: l.model, Layout: layout, Old: old, RunDir: l.runDir})
	if err != nil {
		panic(err) // the templates are the built-in ones
	}
	return plan.Make(plan.Input{Old: old, Layout: layout, Tree: t, Model: l.model})
}
