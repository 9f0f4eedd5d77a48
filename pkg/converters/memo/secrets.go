package memo

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/pkg/converters/gateway"
	"github.com/sluice-proxy/sluice/pkg/converters/resolve"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/converters/vhost"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/token"
)

// askSecrets asks for the certificates of a frontend's listeners.
func (m *Memo) askSecrets(f *frontend) {
	wanted := map[snapshot.Key]*certificateUnit{}
	for _, listeners := range f.listeners {
		for _, l := range listeners {
			for _, key := range l.Secrets {
				unit := m.demandCertificate(key)
				unit.frontends = unit.frontends.with(f)
				wanted[key] = unit
			}
		}
	}
	for key, unit := range f.secrets {
		if wanted[key] == nil {
			unit.frontends = unit.frontends.without(f)
			m.work.idleCertificates.add(unit)
		}
	}
	f.secrets = wanted
}

// settleSecrets brings the lines of a frontend's crt-list in line with the certificates.
func (m *Memo) settleSecrets(f *frontend) {
	held := f.authority
	f.authority = nil
	var lines []model.CrtLine
	list := f.name
	if f.ingress {
		list = model.CrtListHTTPS
	}
	for _, host := range slices.Sorted(maps.Keys(f.listeners)) {
		listeners := slices.SortedFunc(slices.Values(f.listeners[host]), func(a, b *gateway.Listener) int {
			return cmp.Or(snapshot.CompareKeys(a.ID.Gateway, b.ID.Gateway), snapshot.CompareKeys(a.ID.Set, b.ID.Set), cmp.Compare(a.ID.Name, b.ID.Name))
		})
		line := model.CrtLine{List: list}
		if auth := clientAuth(listeners); auth != nil {
			file := resolve.Authorities(m.view(), auth.Authorities)
			if file == nil {
				continue // the converter has closed the listener
			}
			_, h := m.pools.caFiles.hold(file.Origin.String(), file)
			f.authority = append(f.authority, h)
			line.ClientCA, line.Optional = file.Name, auth.Fallback
		}
		for _, l := range listeners {
			lines = append(lines, f.linesOfListener(l, line)...)
		}
	}
	m.pools.release(held)
	f.lines = lines
	m.work.crtLines = true
}

// clientAuth is how the clients of the listeners of one host prove who they are; nil: they need
// not. Listeners of several Gateways may have one host, and then one certificate of a client
// opens all of them: it is what the first strict one asks for, so none is open to those whom it
// keeps out.
func clientAuth(listeners []*gateway.Listener) *gateway.ClientAuth {
	var loose *gateway.ClientAuth
	for _, l := range listeners {
		if l.ClientAuth != nil && !l.ClientAuth.Fallback {
			return l.ClientAuth
		}
		if loose == nil {
			loose = l.ClientAuth
		}
	}
	return loose
}

// anyClient tells whether clients whose certificate is not valid get in on some listener. HAProxy
// knows that for a whole bind only; settleClients is what keeps them out of the other listeners.
func (f *frontend) anyClient() bool {
	for _, listeners := range f.listeners {
		if auth := clientAuth(listeners); auth != nil && auth.Fallback {
			return true
		}
	}
	return false
}

// settleClients says of which listeners no request is served without a client's certificate that
// is valid. A connection that asked for another name was not asked for one.
func (m *Memo) settleClients(f *frontend) {
	wanted := map[string]string{}
	for host, listeners := range f.listeners {
		if auth := clientAuth(listeners); f.role == roleRequests && auth != nil && !auth.Fallback {
			wanted[vhost.Clients(f.name, host)] = "1"
		}
	}
	m.editAll(tableConditions, f.clients, wanted)
	f.clients = wanted
}

// linesOfListener are the lines of the certificates of one listener.
func (f *frontend) linesOfListener(l *gateway.Listener, line model.CrtLine) []model.CrtLine {
	var lines []model.CrtLine
	for _, key := range l.Secrets {
		fragment := &f.secrets[key].fragment
		if fragment.Certificate == nil {
			continue
		}
		line.Certificate, line.Hosts = fragment.Certificate.Name, []string{l.Host}
		if l.Host == token.AnyHost && f.ingress {
			line.Hosts = slices.DeleteFunc(slices.Clone(fragment.Names), func(name string) bool { return !strings.Contains(name, ".") })
		}
		lines = append(lines, line)
	}
	return lines
}

// gatewayLines are the crt-lists of all frontends of Gateways. One that serves all names
// begins with the certificate for that, any other with the controller's own, which answers to
// its own names only.
func (m *Memo) gatewayLines(list string) []model.CrtLine {
	var lines []model.CrtLine
	for _, name := range slices.Sorted(maps.Keys(m.units.frontends)) {
		f := m.units.frontends[name]
		if (list == model.CrtListHTTPS) != f.ingress || !f.ingress && (f.model == nil || !f.model.SSL) && (f.tcp == nil || !f.tcp.SSL) {
			continue
		}
		first := slices.DeleteFunc(slices.Clone(f.lines), func(l model.CrtLine) bool { return !slices.Equal(l.Hosts, []string{token.AnyHost}) })
		others := slices.DeleteFunc(slices.Clone(f.lines), func(l model.CrtLine) bool { return slices.Equal(l.Hosts, []string{token.AnyHost}) })
		if len(first) == 0 && !f.ingress {
			first = []model.CrtLine{{List: f.name, Certificate: m.options.DefaultCertificate.Name}}
		}
		lines = append(append(lines, first...), others...)
	}
	return lines
}
