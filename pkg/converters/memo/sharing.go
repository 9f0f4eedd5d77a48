package memo

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/gateway"
	"github.com/sluice-proxy/sluice/pkg/converters/resolve"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/token"
)

// role is what a frontend does with connections. Each has a section of its own, since HAProxy
// ends TLS at a bind or not at all: where listeners of several roles share a port, the one
// that passes TLS through has the port, tells names apart and hands on to the others.
type role uint8

const (
	roleRequests    role = iota // HTTP and HTTPS
	roleConnections             // TCP
	roleTerminated              // TLS ends here, what is in it is handed on
	roleNames                   // TLS is passed through by the name in the client's first message
	roles
)

// suffix is what the name of a frontend ends in.
func (r role) suffix() string { return [...]string{"", "_tcp", "_tls", "_sni"}[r] }

// roleOf is the role of a listener; false: it is not served.
func roleOf(l *gateway.Listener) (role, bool) {
	switch l.Protocol {
	case gatewayv1.HTTPProtocolType, gatewayv1.HTTPSProtocolType:
		return roleRequests, true
	case gatewayv1.TCPProtocolType:
		return roleConnections, true
	case gatewayv1.TLSProtocolType:
		if l.Passthrough {
			return roleNames, true
		}
		return roleTerminated, true
	}
	return 0, false
}

// speaksTLS tells whether clients of a listener begin with TLS, which tells names apart.
func speaksTLS(l *gateway.Listener) bool {
	return l.Protocol == gatewayv1.HTTPSProtocolType || l.Protocol == gatewayv1.TLSProtocolType
}

// sharing is a port with the frontends of its listeners, which may be those of several
// Gateways.
type sharing struct {
	base      string            // name of the port; that of the frontend of requests
	first     *gateway.Listener // of the oldest Gateway
	owner     *gatewayUnit      // its Gateway
	hosts     map[string]role   // whose a host is
	frontends [roles]*frontend
}

// ofIngresses tells whether the port is that of Ingresses, too.
func (s *sharing) ofIngresses() bool {
	return s.base == resolve.FrontendHTTP || s.base == resolve.FrontendHTTPS
}

// against says why a listener can't have the port that older Gateways, or listeners of its
// own, have; empty: it can.
func (s *sharing) against(unit *gatewayUnit, l *gateway.Listener) string {
	as, _ := roleOf(l)
	other, taken := s.hosts[l.Host]
	switch {
	case s.ofIngresses() && as != roleRequests && l.Host == token.AnyHost:
		return "port " + strconv.Itoa(l.Port) + " is that of Ingresses, too: give the listener a hostname"
	case s.first.Protocol != l.Protocol && !(speaksTLS(s.first) && speaksTLS(l)):
		return "port " + strconv.Itoa(l.Port) + " is served with protocol " + string(s.first.Protocol) + " for an older Gateway"
	case as == roleConnections && s.owner != unit:
		return "port " + strconv.Itoa(l.Port) + " is served for an older Gateway"
	case taken && other != as:
		return "the hostname on port " + strconv.Itoa(l.Port) + " is served in another way for an older Gateway"
	}
	return ""
}

// placed is the frontend of a listener on its port, or why there is none.
func (m *Memo) placed(unit *gatewayUnit, l *gateway.Listener, ports map[string]*sharing) (*frontend, string) {
	base, why := m.frontendFor(unit, l)
	if why != "" {
		return nil, why
	}
	s := ports[base]
	if s == nil {
		s = &sharing{base: base, first: l, owner: unit, hosts: map[string]role{}}
	}
	if why := s.against(unit, l); why != "" {
		return nil, why
	}
	ports[base] = s
	as, _ := roleOf(l)
	s.hosts[l.Host] = as
	s.frontends[as] = m.frontendOfRole(s, as, m.bound(unit, l.Port))
	s.frontends[as].protocol = l.Protocol
	return s.frontends[as], ""
}

// frontendOfRole is the frontend of a role on a port.
func (m *Memo) frontendOfRole(s *sharing, as role, addresses []string) *frontend {
	name := s.base
	if as != roleRequests {
		name = gatewayPrefix + strings.TrimPrefix(name, gatewayPrefix) + as.suffix()
	}
	if s.base == resolve.FrontendHTTPS {
		addresses = m.options.Bind.HTTPS
	}
	f := m.frontend(name, as, addresses)
	f.port = s.first.Port
	return f
}

// divided tells whether connections of the port are told apart by name before TLS ends.
func (s *sharing) divided() bool {
	return s.frontends[roleNames] != nil || s.frontends[roleTerminated] != nil && (s.frontends[roleRequests] != nil || s.ofIngresses())
}

// divide tells the frontends that share a port from one another: which stands behind which,
// and which hosts are another one's.
func (m *Memo) divide(ports map[string]*sharing) {
	others := map[*frontend]map[string]string{}
	behind := map[string]bool{}
	for _, base := range slices.Sorted(maps.Keys(ports)) {
		s := ports[base]
		if !s.divided() {
			continue
		}
		front := s.frontends[roleNames]
		if front == nil {
			bound := cmp.Or(s.frontends[roleTerminated], s.frontends[roleRequests])
			front = m.frontendOfRole(s, roleNames, bound.addresses)
		}
		others[front] = map[string]string{}
		if s.ofIngresses() {
			others[front][token.AnyHost] = s.base
			behind[s.base] = true
		}
		foreign := map[string]string{}
		for host, as := range s.hosts {
			if as != roleNames {
				others[front][host] = s.frontends[as].name
				behind[s.frontends[as].name] = true
			}
			if as != roleRequests {
				foreign[host] = front.name
			}
		}
		if f := s.frontends[roleRequests]; f != nil {
			others[f] = foreign
		}
	}
	m.units.behind = behind
	for _, f := range m.units.frontends {
		m.setOthers(f, others[f])
	}
}

// setOthers replaces the hosts that are another frontend's.
func (m *Memo) setOthers(f *frontend, others map[string]string) {
	m.work.listeners.add(f)
	before := f.others
	f.others = others
	for host := range others {
		if before[host] != others[host] {
			m.knows(f, host, 1)
		}
	}
	for host := range before {
		if before[host] != others[host] {
			m.knows(f, host, -1)
		}
	}
}

// foreignEntry is what stands in the table for a host that is another frontend's.
func (f *frontend) foreignEntry(host string) string {
	if f.role == roleNames {
		return model.HandOn + f.others[host]
	}
	return f.none(host)
}

// connectionsOf is the frontend for connections as HAProxy has it; nil where it is none.
func (m *Memo) connectionsOf(f *frontend) *model.TCPFrontend {
	if !f.live() || f.role == roleRequests {
		return nil
	}
	next := &model.TCPFrontend{
		Section: f.name, Port: f.port, ByName: f.role != roleConnections, SSL: f.role == roleTerminated, LogFormat: m.global.set.Text("tcp-log-format"),
		Labels: f.labels(), HandsTo: slices.Compact(slices.Sorted(maps.Values(f.others))),
	}
	if next.SSL {
		next.CrtList, next.StrictSNI = f.name, len(f.listeners[token.AnyHost]) == 0
	}
	if next.Behind = m.units.behind[f.name]; !next.Behind {
		next.Addresses, next.AcceptProxy = f.addresses, m.global.set.Bool("use-proxy-protocol")
	}
	for _, listeners := range f.listeners {
		for _, l := range listeners {
			next.Origins = append(next.Origins, l.Origin.Object())
		}
	}
	slices.SortFunc(next.Origins, model.CompareOrigins)
	next.Origins = slices.Compact(next.Origins)
	return next
}

// tcpList are the frontends of TCP services and those for connections of Gateways.
func (m *Memo) tcpList() []*model.TCPFrontend {
	list := slices.Clone(m.frontends)
	for _, f := range m.units.frontends {
		if f.tcp != nil {
			list = append(list, f.tcp)
		}
	}
	slices.SortFunc(list, func(a, b *model.TCPFrontend) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Name(), b.Name()))
	})
	if !slices.Equal(list, m.servedTCP) {
		m.servedTCP = list
	}
	return m.servedTCP
}

// holdRefusal is preload for connections: it has HAProxy know the profile that closes them.
func (m *Memo) holdRefusal() {
	wanted := false
	for _, f := range m.units.frontends {
		wanted = wanted || f.tcp != nil
	}
	if wanted == (m.units.refusal != nil) {
		return
	}
	m.pools.release(m.units.refusal)
	m.units.refusal = nil
	if wanted {
		_, m.units.refusal = m.pools.holdProfile(resolve.RefusingProfile())
	}
}
