package memo

import (
	"cmp"
	"net"
	"slices"
	"strconv"

	"github.com/sluice-proxy/sluice/pkg/converters/ingress"
	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/token"
)

// port is a port of TCP services with all who claim connections to it. What a port is (TLS,
// the PROXY protocol) is what its first claim says; a claim that says otherwise loses.
type port struct {
	number   int
	taken    bool        // by a listener of sluice's own
	claims   []claim     // in the order of precedence
	routes   set[*route] // that are claimed
	secret   *certificateUnit
	frontend *model.TCPFrontend // in the Model; nil: nobody is served
}

// port is the port of a number, new if need be.
func (m *Memo) port(number int) *port {
	p := m.ports[number]
	if p == nil {
		p = &port{number: number, taken: slices.Contains(m.takenPorts, number)}
		m.ports[number] = p
	}
	return p
}

// portsOf are the ports of addresses.
func portsOf(addresses ...string) []int {
	var ports []int
	for _, address := range addresses {
		if _, text, err := net.SplitHostPort(address); err == nil {
			if number, err := strconv.Atoi(text); err == nil {
				ports = append(ports, number)
			}
		}
	}
	return ports
}

// allows tells whether a claim can have its port.
func (p *port) allows(c claim) bool {
	return !p.taken && c.route().TCP.Agrees(p.claims[0].route().TCP)
}

// refusal says why a claim can't have its port.
func (p *port) refusal(c claim) report.Finding {
	if p.taken {
		return report.New(report.PortConflict, c.route().Origin,
			"port %d belongs to sluice's own listeners, see --http-address, --https-address, --health-address and --admin-address; choose another one", p.number)
	}
	first, what := p.claims[0].route(), "without TLS"
	if first.TCP.TLS {
		what = "with TLS"
	}
	if c.route().TCP.TLS == first.TCP.TLS {
		what = "without the PROXY protocol"
		if first.TCP.AcceptProxy {
			what = "with the PROXY protocol"
		}
	}
	return report.New(report.PortConflict, c.route().Origin,
		"port %d is served %s, as %s asks, which claims it too and comes first", p.number, what, first.Origin)
}

// settlePorts has all routes of a port settled whose claims changed: who comes first decides
// for all of them.
func (m *Memo) settlePorts() {
	for p := range m.work.ports.drain {
		p.routes.each(m.work.claims.add)
		m.work.frontends.add(p)
	}
}

// settlePortSecrets asks for the certificates of ports.
func (m *Memo) settlePortSecrets() {
	for _, p := range m.work.frontends.items {
		var unit *certificateUnit
		if l := p.listener(); l != nil && l.TLS && l.Secret != (snapshot.Key{}) {
			unit = m.demandCertificate(l.Secret)
		}
		if unit == p.secret {
			continue
		}
		if p.secret != nil {
			p.secret.ports = p.secret.ports.without(p)
			m.work.idleCertificates.add(p.secret)
		}
		if unit != nil {
			unit.ports = unit.ports.with(p)
		}
		p.secret = unit
	}
}

// listener is that of whom connections without a known name get to; nil: nobody.
func (p *port) listener() *ingress.Listener {
	var found *ingress.Listener
	p.routes.each(func(r *route) {
		if c, ok := r.owner(); ok && c.route().Host == token.AnyHost {
			found = c.route().TCP
		}
	})
	return found
}

// settleFrontends brings the frontends in line with their ports.
func (m *Memo) settleFrontends() {
	changed := false
	for p := range m.work.frontends.drain {
		next := m.frontendOf(p)
		if next == nil || p.frontend == nil || !next.Equal(p.frontend) {
			changed = changed || next != p.frontend
			p.frontend = next
		}
		m.say(p, p.findings())
		if len(p.claims) == 0 {
			delete(m.ports, p.number)
		}
	}
	if !changed {
		return
	}
	var list []*model.TCPFrontend
	for _, p := range m.ports {
		if p.frontend != nil {
			list = append(list, p.frontend)
		}
	}
	slices.SortFunc(list, func(a, b *model.TCPFrontend) int { return cmp.Compare(a.Port, b.Port) })
	m.frontends = list
}

// frontendOf is the frontend of a port; nil where nobody is served.
func (m *Memo) frontendOf(p *port) *model.TCPFrontend {
	f := &model.TCPFrontend{Port: p.number, LogFormat: m.global.set.Text("tcp-log-format")}
	anyHost := false
	p.routes.each(func(r *route) {
		c, ok := r.owner()
		if !ok || r.entry == "" {
			return
		}
		f.Origins = append(f.Origins, c.unit.key.Origin())
		if c.route().Host == token.AnyHost {
			anyHost = true
		} else {
			f.ByName = true
		}
	})
	if f.Origins == nil {
		return nil
	}
	slices.SortFunc(f.Origins, model.CompareOrigins)
	f.Origins = slices.Compact(f.Origins)
	for _, address := range m.global.set.Names("bind-ip-addr-tcp") {
		f.Addresses = append(f.Addresses, address+":"+strconv.Itoa(p.number))
	}
	first := p.claims[0].route().TCP
	f.AcceptProxy, f.SSL = first.AcceptProxy, first.TLS
	if f.SSL && anyHost {
		f.Certificate = m.global.certificate.Name
		if p.secret != nil && p.secret.fragment.Certificate != nil {
			f.Certificate = p.secret.fragment.Certificate.Name
		}
	}
	return f
}

// findings say what is wrong with the certificate of a port.
func (p *port) findings() []report.Finding {
	if p.secret == nil || p.secret.fragment.Certificate != nil {
		return nil
	}
	var findings []report.Finding
	p.routes.each(func(r *route) {
		c, ok := r.owner()
		if !ok || c.route().Host != token.AnyHost {
			return
		}
		for _, f := range p.secret.fragment.Findings {
			findings = append(findings, report.New(f.Code, c.route().Origin, "port %d is served with the default certificate, because of Secret %s/%s: %s",
				p.number, p.secret.key.Namespace, p.secret.key.Name, f.Message))
		}
	})
	return findings
}
