package memo

import (
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// maxHosts is how many hosts one line of the crt-list has at most: a line that is changed
// at run time is one command.
const maxHosts = 100

// group are the hosts of one certificate.
type group struct {
	hosts []string        // sorted
	lines []model.CrtLine // of the hosts, with the name of the certificate
}

// settleGroups brings the groups in line with the hosts that joined and left. It tells
// whether anything changed.
func (m *Memo) settleGroups() bool {
	itself := func(s string) string { return s }
	changed := m.work.defaultChange
	var names []edit[string]
	for name, members := range m.work.groups {
		g := m.groups[name]
		if g == nil {
			g = &group{}
			m.groups[name] = g
		}
		edits := make([]edit[string], 0, len(members))
		for host, joins := range members {
			edits = append(edits, edit[string]{host, host, joins})
		}
		hosts, differs := merged(g.hosts, itself, edits)
		names = append(names, edit[string]{name, name, len(hosts) > 0})
		if len(hosts) == 0 {
			delete(m.groups, name)
		}
		if differs {
			g.hosts, g.lines = hosts, linesOf(m.fileOf(name), hosts)
			changed = true
		}
	}
	m.groupNames, _ = merged(m.groupNames, itself, names)
	if g := m.groups[""]; g != nil && m.work.defaultChange {
		g.lines = linesOf(m.fileOf(""), g.hosts)
	}
	return changed
}

func (m *Memo) fileOf(group string) string {
	if group == "" {
		return m.global.certificate.Name
	}
	return group
}

// linesOf are the lines of a certificate. Where it needs several, a new one begins at hosts
// that a hash chooses, one in 32: then one more host changes one line, not all that follow.
func linesOf(certificate string, hosts []string) []model.CrtLine {
	if len(hosts) <= maxHosts {
		return []model.CrtLine{{List: model.CrtListHTTPS, Certificate: certificate, Hosts: hosts}}
	}
	var lines []model.CrtLine
	from := 0
	for i, host := range hosts {
		if i > from && (i-from == maxHosts || model.BucketOf(host)%32 == 0) {
			lines = append(lines, model.CrtLine{List: model.CrtListHTTPS, Certificate: certificate, Hosts: hosts[from:i]})
			from = i
		}
	}
	return append(lines, model.CrtLine{List: model.CrtListHTTPS, Certificate: certificate, Hosts: hosts[from:]})
}

// crtList is the line of the controller's own certificate, then those of the hosts that
// are served with the default one, then those of the other certificates by name. The first
// line stays the same for good: it answers no host, since only its own names match it.
func (m *Memo) crtList() []model.CrtLine {
	list := make([]model.CrtLine, 1, 1+len(m.groupNames))
	list[0] = model.CrtLine{List: model.CrtListHTTPS, Certificate: m.options.DefaultCertificate.Name}
	for _, name := range m.groupNames {
		list = append(list, m.groups[name].lines...)
	}
	list = append(list, m.gatewayLines(model.CrtListHTTPS)...)
	return append(list, m.gatewayLines("")...)
}

// certificateList are the controller's own certificate, then all others, sorted by name.
func (m *Memo) certificateList() []*model.Certificate {
	list := []*model.Certificate{m.options.DefaultCertificate}
	others, _ := merged(m.pools.certificates.list, certificateName, []edit[*model.Certificate]{{m.global.certificate.Name, m.global.certificate, true}})
	for _, certificate := range others {
		if certificate.Name != list[0].Name {
			list = append(list, certificate)
		}
	}
	return list
}

func certificateName(c *model.Certificate) string { return c.Name }
