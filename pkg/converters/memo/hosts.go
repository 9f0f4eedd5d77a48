package memo

import (
	"cmp"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/token"
)

// host is a host name with its routes and all who claim its certificate.
type host struct {
	name        string
	routes      set[*route]
	claims      []claim          // TLS, in the order of precedence
	certificate *certificateUnit // of the first claim; nil: the default certificate, or no TLS
	// What the tables and the crt-list hold.
	tls     string // empty: no entry
	flags   string // empty: no entry
	grouped bool   // it has a place in the crt-list, in group
	group   string
}

// Letters that stand for facts about a host, and what stands in their place.
const (
	flagTLS   = "t"
	flagGuard = "g"
	flagNone  = "-"
)

const wildcard = "*."

// host is the host of a name, new if need be.
func (m *Memo) host(name string) *host {
	h := m.hosts[name]
	if h == nil {
		h = &host{name: name}
		m.hosts[name] = h
		if parent := parentOf(name); parent != "" {
			m.below[parent] = m.below[parent].with(h)
		}
	}
	return h
}

// parentOf is the name behind the first label; empty for a wildcard and for a single label.
func parentOf(name string) string {
	if strings.HasPrefix(name, wildcard) {
		return ""
	}
	_, parent, _ := strings.Cut(name, ".")
	return parent
}

// settleTLS gives the certificate of each host to its first claim, which then asks for it.
func (m *Memo) settleTLS() {
	for h := range m.work.tls.drain {
		var unit *certificateUnit
		if len(h.claims) > 0 {
			if secret := h.claims[0].tls().Secret; secret != (snapshot.Key{}) {
				unit = m.demandCertificate(secret)
			}
		}
		if unit != h.certificate {
			if h.certificate != nil {
				h.certificate.hosts = h.certificate.hosts.without(h)
				m.work.idleCertificates.add(h.certificate)
			}
			if unit != nil {
				unit.hosts = unit.hosts.with(h)
			}
			h.certificate = unit
		}
		m.work.hosts.add(h)
		if name, ok := strings.CutPrefix(h.name, wildcard); ok {
			m.below[name].each(m.work.hosts.add)
		}
	}
}

// settleHosts brings the host tables and the groups of the crt-list in line with the routes
// and the certificates.
func (m *Memo) settleHosts() {
	for h := range m.work.hosts.drain {
		if tls := m.tlsOf(h); tls != h.tls {
			m.work.edit(tableTLS, h.name, tls)
			h.tls = tls
		}
		if flags := h.flagsOf(); flags != h.flags {
			key, isWildcard, err := token.HostKey(h.name)
			if err != nil {
				panic("memo: a checked host has no key: " + err.Error())
			}
			table := tableHosts
			if isWildcard {
				table = tableWildcards
			}
			m.work.edit(table, key, flags)
			h.flags = flags
		}
		m.regroup(h)
		m.say(h, h.findings())
		if h.routes.empty() && len(h.claims) == 0 {
			m.forget(h)
		}
	}
}

func (m *Memo) forget(h *host) {
	delete(m.hosts, h.name)
	if parent := parentOf(h.name); parent != "" {
		if left := m.below[parent].without(h); left.empty() {
			delete(m.below, parent)
		} else {
			m.below[parent] = left
		}
	}
}

// tlsOf is the entry of a host with routes and TLS.
func (m *Memo) tlsOf(h *host) string {
	if m.hasTLS(h) {
		return flagTLS
	}
	return ""
}

// flagsOf are the flags of a host with routes. A host that is only named in a TLS entry has
// none: it would be a known host then, and keep its wildcard's rules from serving it.
func (h *host) flagsOf() string {
	switch {
	case h.routes.empty():
		return ""
	case h.guarded():
		return flagGuard
	}
	return cmp.Or(h.whole(), flagNone)
}

// whole is the backend that takes all paths of the host, if its only route says so: then a
// request needs one look-up. Empty for the hosts that are no host's name.
func (h *host) whole() string {
	if h.name == token.AnyHost || strings.HasPrefix(h.name, wildcard) {
		return ""
	}
	entry, routes := "", 0
	h.routes.each(func(r *route) {
		routes++
		if r.takesAll() {
			entry = r.entry
		}
	})
	if routes != 1 {
		return ""
	}
	return entry
}

// hasTLS tells whether the host, or the wildcard that covers it, has a certificate. It counts
// only if a namespace asks for it that serves a path of the host, too: nobody sends another
// one's clients to https.
func (m *Memo) hasTLS(h *host) bool {
	claims := h.claims
	if parent := parentOf(h.name); parent != "" {
		if above := m.hosts[wildcard+parent]; above != nil {
			claims = slices.Concat(claims, above.claims)
		}
	}
	if len(claims) == 0 {
		return false
	}
	found := false
	h.routes.each(func(r *route) {
		found = found || len(r.claims) > 0 && slices.ContainsFunc(claims, func(c claim) bool {
			return c.unit.key.Namespace == r.claims[0].unit.key.Namespace
		})
	})
	return found
}

// guarded tells whether the spelling of a path decides about a protection: some route of the
// host protects, and not every path leads to the same backend.
func (h *host) guarded() bool {
	protects, same, all, entry := false, true, false, ""
	h.routes.each(func(r *route) {
		protects = protects || r.protects
		same = same && (entry == "" || entry == r.entry)
		entry = r.entry
		all = all || r.takesAll()
	})
	return protects && !(same && all)
}

// regroup moves the host to the group of its certificate.
func (m *Memo) regroup(h *host) {
	grouped, group := len(h.claims) > 0, ""
	if grouped && h.certificate != nil && h.certificate.fragment.Certificate != nil {
		group = h.certificate.fragment.Certificate.Name
		if group == m.global.certificate.Name {
			group = ""
		}
	}
	if grouped == h.grouped && group == h.group {
		return
	}
	if h.grouped {
		m.work.regroup(h.group, h.name, false)
	}
	if grouped {
		m.work.regroup(group, h.name, true)
	}
	h.grouped, h.group = grouped, group
}

// findings say who lost the certificate of the host, and what is wrong with the winner's.
func (h *host) findings() []report.Finding {
	if len(h.claims) == 0 {
		return nil
	}
	var findings []report.Finding
	first := h.claims[0].tls()
	for _, c := range h.claims[1:] {
		if c.tls().Secret != first.Secret {
			findings = append(findings, report.New(report.TLSConflict, c.tls().Origin,
				"host %s is served with the certificate that %s names, which claims it too and comes first", h.name, first.Origin))
		}
	}
	if h.certificate == nil {
		return findings
	}
	secret, fragment := h.certificate.key, &h.certificate.fragment
	if fragment.Certificate == nil {
		for _, f := range fragment.Findings {
			findings = append(findings, report.New(f.Code, first.Origin,
				"host %s is served with the default certificate, because of Secret %s/%s: %s", h.name, secret.Namespace, secret.Name, f.Message))
		}
	} else if !fragment.Covers(h.name) {
		findings = append(findings, report.New(report.CertificateHost, first.Origin,
			"the certificate in Secret %s/%s does not cover host %s", secret.Namespace, secret.Name, h.name))
	}
	return findings
}
