package memo

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/ingress"
	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/resolve"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/token"
)

// Kinds of units, as Conversions names them.
const (
	kindGlobal      = "global"
	kindIngress     = "ingress"
	kindBackend     = "backend"
	kindCertificate = "certificate"
	kindClass       = "class"
	kindPolicy      = "policy"
	kindGateway     = "gateway"
	kindRoute       = "route"
)

// ingressUnit is one Ingress, the default backend service, or the ConfigMap of TCP services.
type ingressUnit struct {
	seen
	key      snapshot.Key
	form     *networkingv1.Ingress // the newest one, whatever quarantine shows
	fragment ingress.Fragment
	routes   []routeID // of fragment.Routes
	backends []string  // keys of their backend units
}

// backendUnit is what one or more served paths ask for.
type backendUnit struct {
	seen
	key      string
	ref      resolve.BackendRef
	routes   set[*route] // that it serves
	vhosts   set[*virtualHost]
	udp      set[*udpListener]
	mirrored set[*backendUnit] // units whose requests are copied to it
	mirrors  []*backendUnit    // to which its own are copied
	mirror   string            // what the table of mirrors holds for it
	backend  *model.Backend    // nil until the first run
	held     []holding
}

// certificateUnit is the Secret of one or more served TLS hosts.
type certificateUnit struct {
	seen
	key       snapshot.Key
	hosts     set[*host] // that it serves
	ports     set[*port] // that it serves
	frontends set[*frontend]
	pinned    bool // it is asked for by an option
	fragment  resolve.CertificateFragment
	held      []holding
}

// note remembers the look-ups and the findings of a run.
func (m *Memo) note(unit node, kind string, v *snapshot.View, findings []report.Finding) {
	m.index.note(unit, v.Noted())
	m.say(unit, findings)
	if kind != "" {
		m.counts[kind]++
	}
}

// say replaces the findings of a unit, route or host.
func (m *Memo) say(about any, findings []report.Finding) {
	if len(findings) == 0 {
		delete(m.findings, about)
	} else {
		m.findings[about] = findings
	}
}

func (m *Memo) runIngress(unit *ingressUnit) {
	v := m.view()
	var fragment ingress.Fragment
	switch unit {
	case m.fallback:
		fragment = fallbackFragment(v, unit.key)
	case m.tcpServices:
		fragment = ingress.TCPServices(v, unit.key)
	default:
		fragment = ingress.Convert(v, m.globals(), m.options.Class, unit.key)
	}
	if m.quarantine.denied[unit.key] {
		fragment = fragment.Denied(resolve.StatusDenied)
	}
	kind := ""
	if fragment.Mine || unit.fragment.Mine {
		kind = kindIngress
	}
	m.note(unit, kind, v, fragment.Findings)
	m.unclaim(unit)
	unit.fragment = fragment
	m.claim(unit)
	if unit.key.Kind == snapshot.Ingress {
		unit.form, _ = m.snapshot.Object(unit.key).(*networkingv1.Ingress)
		m.converted[unit.key] = m.ours(unit)
	}
	if m.snapshot.Object(unit.key) == nil && unit != m.fallback && unit != m.tcpServices {
		m.index.note(unit, nil)
		delete(m.ingresses, unit.key)
	}
}

// fallbackFragment is the claim of the default backend service.
func fallbackFragment(v *snapshot.View, key snapshot.Key) ingress.Fragment {
	ref := resolve.BackendRef{Namespace: key.Namespace, Service: key.Name, Origin: key.Origin()}
	if service := v.Service(key.Namespace, key.Name); service != nil {
		for _, port := range service.Spec.Ports {
			if port.Protocol == "" || port.Protocol == corev1.ProtocolTCP {
				ref.Port = strconv.Itoa(int(port.Port))
				break
			}
		}
	}
	return ingress.Fragment{Mine: true, Routes: []ingress.Route{
		{Host: token.AnyHost, Match: ingress.Default, Backend: ref, Origin: key.Origin()},
	}}
}

// backendKeys are the keys of the backend units that the routes ask for.
func backendKeys(routes []ingress.Route) []string {
	keys := make([]string, len(routes))
	for i := range routes {
		keys[i] = routes[i].Backend.Key()
	}
	return keys
}

// demand is the backend unit of a key, new if need be.
func (m *Memo) demand(key string, ref resolve.BackendRef) *backendUnit {
	unit := m.backends[key]
	if unit == nil {
		unit = &backendUnit{key: key, ref: ref}
		m.backends[key] = unit
		m.work.backends.add(unit)
	}
	return unit
}

func (m *Memo) runBackend(unit *backendUnit) {
	if unit.idle() {
		return // dropIdle takes it out
	}
	v := m.snapshot.Substituted(m.quarantine.backendForms)
	ref := unit.ref
	service := snapshot.Key{Kind: snapshot.Service, Namespace: ref.Namespace, Name: ref.Service}
	if m.quarantine.denied[service] {
		v.Note(service)
		ref = resolve.BackendRef{Namespace: ref.Namespace, Deny: resolve.StatusDenied, TCP: ref.TCP}
	}
	fragment := resolve.Backend(v, m.globals(), ref)
	m.note(unit, kindBackend, v, fragment.Findings)
	m.adopt(unit, fragment)
	m.askMirrors(unit)
}

// adopt takes over the result of a backend unit's run.
func (m *Memo) adopt(unit *backendUnit, fragment resolve.BackendFragment) {
	if unit.ref.Datagrams() {
		m.adoptUDP(unit, fragment)
		return
	}
	before, after := unit.backend, fragment.Backend
	held := m.pools.hold(fragment, m.globals().Web)
	m.pools.release(unit.held)
	unit.held = held
	if before != nil && sameBackend(before, after) {
		return
	}
	unit.backend = after
	m.work.names.add(after.Name)
	if before != nil && before.Name == after.Name {
		if before.Profile.Shape.Protects() != after.Profile.Shape.Protects() {
			unit.routes.each(m.work.routes.add)
		}
		return
	}
	m.unname(unit, before)
	m.name(unit)
	unit.routes.each(m.work.routes.add)
	unit.vhosts.each(m.work.vhosts.add)
	m.work.mirrors.add(unit)
}

// demandCertificate is the certificate unit of a Secret, new if need be.
func (m *Memo) demandCertificate(key snapshot.Key) *certificateUnit {
	unit := m.certificates[key]
	if unit == nil {
		unit = &certificateUnit{key: key}
		m.certificates[key] = unit
		m.work.certificates.add(unit)
	}
	return unit
}

func (m *Memo) runCertificate(unit *certificateUnit) {
	if unit.idle() {
		return // dropIdle takes it out
	}
	v := m.view()
	fragment := resolve.Certificate(v, unit.key, m.now)
	m.note(unit, kindCertificate, v, fragment.Findings)
	held := m.pools.holdCertificate(fragment.Certificate)
	m.pools.release(unit.held)
	unit.held = held
	unit.fragment = fragment
	m.expect(fragment.Next)
	unit.hosts.each(m.work.hosts.add)
	unit.ports.each(m.work.frontends.add)
	unit.frontends.each(m.work.listeners.add)
}

// idle tells whether nobody asks for the unit any more.
func (u *certificateUnit) idle() bool {
	return u.hosts.empty() && u.ports.empty() && u.frontends.empty() && !u.pinned
}

// idle tells whether nobody asks for the unit any more.
func (u *backendUnit) idle() bool {
	return u.routes.empty() && u.vhosts.empty() && u.udp.empty() && u.mirrored.empty()
}

// expect remembers when the answer of a certificate unit changes next.
func (m *Memo) expect(next time.Time) {
	if !next.IsZero() && (m.expiry.IsZero() || next.Before(m.expiry)) {
		m.expiry = next
	}
}

// markExpired marks the certificates whose answer the time alone has changed.
func (m *Memo) markExpired() {
	if m.expiry.IsZero() || m.now.Before(m.expiry) {
		return
	}
	m.expiry = time.Time{}
	for _, unit := range m.certificates {
		if next := unit.fragment.Next; !next.IsZero() && !m.now.Before(next) {
			m.work.certificates.add(unit)
		} else {
			m.expect(next)
		}
	}
}

// dropIdle takes out the units that no served path or host asks for any more.
func (m *Memo) dropIdle() {
	for unit := range m.work.idleBackends.drain {
		m.dropBackend(unit)
	}
	for unit := range m.work.idleCertificates.drain {
		if !unit.idle() {
			continue
		}
		m.index.note(unit, nil)
		m.say(unit, nil)
		m.pools.release(unit.held)
		delete(m.certificates, unit.key)
	}
}

// dropBackend takes a backend unit out if nobody asks for it, and then those that only it asked for.
func (m *Memo) dropBackend(unit *backendUnit) {
	if !unit.idle() || m.backends[unit.key] != unit {
		return
	}
	m.index.note(unit, nil)
	m.say(unit, nil)
	m.pools.release(unit.held)
	if !unit.ref.Datagrams() {
		m.unname(unit, unit.backend)
	}
	delete(m.backends, unit.key)
	for _, target := range unit.mirrors {
		target.mirrored = target.mirrored.without(unit)
		m.work.mirrors.add(target)
		m.dropBackend(target)
	}
}
