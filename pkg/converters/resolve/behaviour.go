package resolve

import (
	"cmp"
	"slices"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/settings"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// behaviour is what a set of options makes of a backend, whatever its servers are.
type behaviour struct {
	g   *Globals
	v   *snapshot.View // nil only where needsSecret is false
	set *settings.Set
	ref BackendRef
	// terms are what a reference of the Gateway API asks for beside; nil for all others.
	terms *routeTerms

	profile *model.Profile
	shape   model.Shape
	digest  model.Digest  // of shape; set in Globals.web only
	values  []model.Value // sorted by slot
	options model.ServerOptions
	servers serverValues
	ca      *model.Certificate
	client  *model.Certificate

	findings []report.Finding
}

// serverValues are the parameters of servers that differ from one server to the next, or
// that can be changed at run time.
type serverValues struct {
	weight    int
	affinity  bool
	podUID    bool   // the cookie's value is the pod's UID, where it has one
	cookieKey string // salt of the cookie's value
}

// asks is a reference with what it depends on.
type asks struct {
	ref   BackendRef
	terms *routeTerms // nil but for the Gateway API
}

// behaviourOf is what the backend does. It denies every request where a protection can't be
// honoured.
func behaviourOf(v *snapshot.View, g *Globals, set *settings.Set, asks asks) *behaviour {
	ref := asks.ref
	if set == g.Set && g.web != nil && ref.StripPath == "" && ref.Deny == 0 && !ref.TCP && asks.terms.plain(&ref) {
		return g.web
	}
	b := &behaviour{g: g, v: v, set: set, ref: ref, terms: asks.terms}
	b.fill()
	if g.web != nil && b.equal(g) {
		b.profile, b.values = g.Web, nil
	} else {
		b.profile = model.NewProfile(b.shape)
	}
	return b
}

// equal tells whether the profile would be the default one under another name.
func (b *behaviour) equal(g *Globals) bool {
	return slices.Equal(b.values, g.Web.Literals) && b.shape.Digest() == g.web.digest
}

// needsSecret tells whether a Secret has to be looked up.
func (b *behaviour) needsSecret() bool {
	for _, option := range []string{optionUsers, optionAuthority, optionClient} {
		if b.set.Text(option) != "" {
			return true
		}
	}
	return false
}

// fill computes everything but the profile. A new feature is a method in http or tcp.
func (b *behaviour) fill() {
	if b.ref.Deny != 0 {
		b.shape = model.Shape{TCP: b.ref.TCP, Deny: b.ref.Deny}
		if b.ref.TCP {
			b.shape.Deny = StatusDenied // a connection has no status
		}
		return
	}
	if why := b.set.Denied(); len(why) > 0 {
		b.shape.Deny = StatusDenied
		b.findings = append(b.findings, why...)
	}
	switch {
	case b.ref.Datagrams():
		b.udp()
	case b.ref.TCP:
		b.tcp()
	default:
		b.http()
	}
	slices.SortFunc(b.values, func(a, b model.Value) int { return cmp.Compare(a.Slot, b.Slot) })
	if b.shape.Deny != 0 {
		// Nothing of the rest has an effect, and half a protection must not look like one.
		b.shape, b.values, b.options = model.Shape{TCP: b.ref.TCP, Deny: StatusDenied}, nil, model.ServerOptions{}
		b.servers, b.ca, b.client = serverValues{}, nil, nil
	}
}

// http is all that a backend for requests does.
func (b *behaviour) http() {
	b.balance()
	b.timeouts()
	b.retry()
	b.affinity()
	b.lists()
	b.tls()
	b.cors()
	b.users()
	b.redirect()
	b.body()
	b.rewrite()
	b.headers()
	b.filters()
	b.secure()
	b.route()
	b.limits()
	b.check()
}

// deny denies every request, since an option that protects can't be honoured.
func (b *behaviour) deny(option, format string, args ...any) {
	b.shape.Deny = StatusDenied
	why := report.New(report.ProtectionDenied, b.set.Origin(option), format, args...)
	why.Message = b.denies() + ", since " + option + " can't be honoured: " + why.Message
	b.findings = append(b.findings, why)
}

// denies says what becomes of who asks for something that is denied.
func (b *behaviour) denies() string {
	if b.ref.Datagrams() {
		return "datagrams are dropped"
	}
	if b.ref.TCP {
		return "connections are closed"
	}
	return "the path answers 503"
}

func (b *behaviour) report(code report.Code, option, format string, args ...any) {
	b.findings = append(b.findings, report.New(code, b.set.Origin(option), format, args...))
}

// value puts a text where the rules of the profile look it up. The empty text is left out:
// a map file can't hold it, and a look-up without a hit gives just that.
func (b *behaviour) value(slot, text string) {
	if text != "" {
		b.values = append(b.values, model.Value{Slot: slot, Text: text})
	}
}
