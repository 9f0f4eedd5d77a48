package resolve

import (
	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/settings"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// NewGlobals computes what follows from the global settings for every backend, the
// default profile above all.
func NewGlobals(set *settings.Set) *Globals {
	g := &Globals{Set: set}
	b := &behaviour{g: g, set: set}
	b.affinity()
	g.servers = b.servers
	if b.needsSecret() {
		// No backend is the default one then: each has the users or the authorities that
		// the Secret holds. Should one be, nobody must get through it.
		g.Web = &model.Profile{Name: model.DefaultProfile, Shape: model.Shape{Deny: StatusDenied}}
		return g
	}
	b.fill()
	b.digest = b.shape.Digest()
	g.Web = &model.Profile{Name: model.DefaultProfile, Shape: b.shape, Literals: b.values}
	g.Findings = report.Sort(b.findings)
	b.profile, b.values, b.findings = g.Web, nil, nil
	g.web = b
	return g
}

// unusual is what the options say of each server; nil where it is what the global settings
// say, or where no server is asked.
func (g *Globals) unusual(b *behaviour) *serverValues {
	own := b.servers
	if b.shape.Deny != 0 || own.weight == g.servers.weight && own.podUID == g.servers.podUID {
		return nil
	}
	return &own
}
