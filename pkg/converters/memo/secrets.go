package memo

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/pkg/converters/gateway"
	"github.com/sluice-proxy/sluice/pkg/converters/resolve"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
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
		for _, l := range listeners {
			lines = append(lines, m.linesOfListener(f, l, list)...)
		}
	}
	m.pools.release(held)
	f.lines = lines
	m.work.crtLines = true
}

// linesOfListener are the lines of the certificates of one listener.
func (m *Memo) linesOfListener(f *frontend, l *gateway.Listener, list string) []model.CrtLine {
	line := model.CrtLine{List: list}
	if auth := l.ClientAuth; auth != nil {
		file := resolve.Authorities(m.view(), auth.Authorities)
		if file == nil {
			return nil // the converter has closed the listener
		}
		_, h := m.pools.caFiles.hold(file.Origin.String(), file)
		f.authority = append(f.authority, h)
		line.ClientCA, line.Optional = file.Name, auth.Fallback
	}
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
