package gateway

import (
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/resolve"
	"github.com/sluice-proxy/sluice/pkg/converters/settings"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// draft is a rule before it is known where it stands.
type draft struct {
	name    string
	matches []Match
	targets []target
	closed  bool // see Rule
	origin  model.Origin
}

// target is a backend of a draft.
type target struct {
	weight  int
	backend resolve.BackendRef
	h2, udp bool
	filters filters
}

// filters are resolve.Filters with what the listener decides.
type filters struct {
	resolve.Filters
	port int // that the redirect names; 0: none
}

// site is what of a listener matters to rules. Two listeners of equal sites have the same.
type site struct {
	gateway     snapshot.Key
	port        int // 0 where no rule redirects; so for tls
	tls         bool
	passthrough bool
}

func siteOf(p *place, redirects bool) site {
	s := site{gateway: p.parent.key, passthrough: passesThrough(p.listener)}
	if redirects {
		s.port, s.tls = int(p.listener.Port), p.listener.Protocol == gatewayv1.HTTPSProtocolType
	}
	return s
}

func (d *draft) redirects() bool {
	for i := range d.targets {
		if d.targets[i].filters.Redirect != nil {
			return true
		}
	}
	return false
}

// rule is the rule at a site.
func (d *draft) rule(s site, client snapshot.Key, layers []settings.Layer) Rule {
	rule := Rule{Name: d.name, Matches: d.matches, Closed: d.closed, Origin: d.origin, Targets: make([]Target, len(d.targets))}
	for i := range d.targets {
		t := &d.targets[i]
		ref := t.backend
		if ref.Deny == 0 {
			ref.Layers = layers
			ref.Gateway = &resolve.GatewayRef{Filters: t.filters.at(s, client), H2: t.h2, UDP: t.udp, ClientCertificate: client, Passthrough: s.passthrough}
		}
		rule.Targets[i] = Target{Weight: t.weight, Backend: ref}
	}
	return rule
}

// at are the filters at a site; nil where there are none.
func (f *filters) at(s site, client snapshot.Key) *resolve.Filters {
	if f.empty() {
		return nil
	}
	out := f.Filters
	if out.Redirect != nil {
		redirect := *out.Redirect
		redirect.Port = redirectPort(redirect.Scheme, f.port, s)
		out.Redirect = &redirect
	}
	if len(out.Mirrors) > 0 && client != (snapshot.Key{}) {
		out.Mirrors = make([]resolve.Mirror, len(f.Mirrors))
		for i, m := range f.Mirrors {
			ref := *m.Backend.Gateway
			ref.ClientCertificate = client
			m.Backend.Gateway = &ref
			out.Mirrors[i] = m
		}
	}
	return &out
}

func (f *filters) empty() bool {
	return f.Request.Empty() && f.Response.Empty() && f.Redirect == nil && f.RewriteHost == "" && f.RewritePath == nil &&
		len(f.Mirrors) == 0 && f.CORS == nil && f.Timeout == 0 && f.TryTimeout == 0 && f.Retry == nil
}

// redirectPort is the port of a Location; 0: none. Without a scheme it is the listener's, never
// the one that HAProxy is bound to; with one it is that scheme's. The port that a scheme has
// anyway is not written.
func redirectPort(scheme string, port int, s site) int {
	switch {
	case port == 0 && scheme != "":
		return 0
	case port == 0:
		port = s.port
	}
	if scheme == "" {
		scheme = "http"
		if s.tls {
			scheme = "https"
		}
	}
	if scheme == "http" && port == 80 || scheme == "https" && port == 443 {
		return 0
	}
	return port
}
