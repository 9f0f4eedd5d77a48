package memo

import (
	"reflect"
	"slices"

	"github.com/sluice-proxy/sluice/pkg/converters/ingress"
	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/resolve"
	"github.com/sluice-proxy/sluice/pkg/converters/settings"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// globalUnit are the global settings and what the options ask for.
type globalUnit struct {
	seen
	set         *settings.Set    // nil until the first run
	globals     *resolve.Globals // what the other units read; newer than it only where it makes no difference to them
	process     resolve.ProcessFragment
	heldWeb     []holding
	heldProcess []holding
	secret      *certificateUnit   // of the default certificate; nil: none asked for
	certificate *model.Certificate // the default one in force
}

func (m *Memo) globals() *resolve.Globals { return m.global.globals }

// scopesOfBackends are the scopes of options whose global values a backend or an Ingress unit
// reads.
const scopesOfBackends = settings.Host | settings.Path | settings.Backend | settings.TCP

// globalsOfBackends are the options of other scopes that a backend unit reads.
func globalsOfBackends() []string {
	return []string{"cookie-key", "https-port", "ssl-redirect-code", "cross-namespace-secrets-ca", "cross-namespace-secrets-crt", "cross-namespace-secrets-passwd"}
}

// runGlobal reads the global ConfigMap and marks the units to which its change matters.
func (m *Memo) runGlobal() {
	if !m.work.global {
		return
	}
	g := m.global
	v := m.view()
	var layer settings.Layer
	var missing []report.Finding
	if key := m.options.ConfigMap; key != (snapshot.Key{}) {
		if object := v.ConfigMap(key.Namespace, key.Name); object != nil {
			layer = resolve.ConfigMapLayer(object)
		} else if m.options.ConfigMapNamed {
			missing = []report.Finding{report.New(report.ConfigMapMissing, key.Origin(), "the ConfigMap of global settings does not exist: all have their defaults")}
		}
	}
	set, findings := settings.Globals(layer)
	globals := resolve.NewGlobals(set)
	globals.AnyNamespace = m.options.AllowCrossNamespace
	globals.LocalEndpoints = m.options.AllowLocalEndpoints
	globals.Place = m.options.Place
	findings = slices.Concat(missing, findings, globals.Findings)
	if g.set == nil || !set.Equal(g.set, settings.AnyScope) {
		m.runProcess(set)
		for _, p := range m.ports {
			m.work.frontends.add(p)
		}
		for _, f := range m.units.frontends {
			m.work.listeners.add(f)
		}
	}
	m.note(g, kindGlobal, v, slices.Concat(findings, g.process.Findings))

	var before *settings.Set
	if g.globals != nil {
		before = g.globals.Set
	}
	if before == nil || !sameForBackends(before, set) {
		m.editLiterals(g.globals, globals)
		g.globals = globals
		// Its name stays, whatever it holds: the old one must not stand for it.
		m.pools.release(g.heldWeb)
		_, g.heldWeb = m.pools.holdProfile(globals.Web)
		for _, unit := range m.backends {
			m.work.backends.add(unit)
		}
	}
	if before != nil && !ingress.SameFor(before, set) {
		for _, unit := range m.ingresses {
			m.work.ingresses.add(unit)
		}
	}
	g.set = set
	if key := m.options.DefaultCertificateSecret; key != (snapshot.Key{}) && g.secret == nil {
		g.secret = m.demandCertificate(key)
		g.secret.pinned = true
	}
}

// editLiterals replaces the values of the default profile, which its rules look up under
// the profile's own name.
func (m *Memo) editLiterals(before, after *resolve.Globals) {
	if before != nil {
		for _, value := range before.Web.Literals {
			m.work.edit(tableValues, model.DefaultProfile+"/"+value.Slot, "")
		}
	}
	for _, value := range after.Web.Literals {
		m.work.edit(tableValues, model.DefaultProfile+"/"+value.Slot, value.Text)
	}
}

func sameForBackends(a, b *settings.Set) bool {
	for _, name := range globalsOfBackends() {
		if a.Text(name) != b.Text(name) {
			return false
		}
	}
	return a.Equal(b, scopesOfBackends)
}

// runProcess computes the process, the base sections and the frontends. Parts that stay
// the same stay the same memory.
func (m *Memo) runProcess(set *settings.Set) {
	g := m.global
	before, after := g.process, resolve.Process(set, m.options.Bind)
	if reflect.DeepEqual(before.Frontends, after.Frontends) {
		after.Frontends = before.Frontends
	}
	if reflect.DeepEqual(before.Resolvers, after.Resolvers) {
		after.Resolvers = before.Resolvers
	}
	held := g.heldProcess
	g.heldProcess = nil
	for _, list := range after.Lists {
		g.heldProcess, _ = m.pools.holdList(list, g.heldProcess)
	}
	m.pools.release(held)
	g.process = after
}

// settleDefaultCertificate chooses the certificate of the option's Secret, or, where that
// can't be used, the controller's own. Every host may be served with another one then.
func (m *Memo) settleDefaultCertificate() {
	g, want := m.global, m.options.DefaultCertificate
	if g.secret != nil && g.secret.fragment.Certificate != nil {
		want = g.secret.fragment.Certificate
	}
	if g.certificate != nil && g.certificate.Name == want.Name && g.certificate.Origin == want.Origin {
		return
	}
	g.certificate = want
	m.work.defaultChange = true
	for _, h := range m.hosts {
		m.work.hosts.add(h)
	}
	for _, p := range m.ports {
		m.work.frontends.add(p)
	}
}
