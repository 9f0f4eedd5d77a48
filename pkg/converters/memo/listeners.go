package memo

import (
	"cmp"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/gateway"
	"github.com/sluice-proxy/sluice/pkg/converters/resolve"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/converters/vhost"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/token"
)

// frontend is a frontend that serves listeners of Gateways: one for each port, and role, of a
// Gateway that has addresses of its own, else one for each port, which may be that of
// Ingresses.
type frontend struct {
	name      string
	role      role
	ingress   bool // it is the listener of Ingresses, too
	port      int
	addresses []string
	protocol  gatewayv1.ProtocolType
	others    map[string]string              // hosts that are another frontend's on the port -> its name
	listeners map[string][]*gateway.Listener // by host
	vhosts    map[vhostKey]*virtualHost
	known     map[string]int // hosts of listeners and virtual hosts -> how often
	entries   map[string]string
	secrets   map[snapshot.Key]*certificateUnit
	authority []holding
	lines     []model.CrtLine
	clients   map[string]string  // in the table of conditions: listeners whose clients have shown a certificate
	model     *model.Frontend    // nil: that of Ingresses, or one for connections, or nobody is served
	tcp       *model.TCPFrontend // nil: it is not one for connections
}

// frontendFor names the frontend of a listener, or says why there is none.
func (m *Memo) frontendFor(unit *gatewayUnit, l *gateway.Listener) (name, why string) {
	if len(m.options.GatewayAddresses) > 0 {
		if len(unit.addresses) == 0 {
			return "", "the Gateway has no address"
		}
		return gatewayPrefix + token.Name(unit.key.Namespace, unit.key.Name, strconv.Itoa(l.Port)), ""
	}
	switch {
	case slices.Contains(portsOf(m.options.Bind.HTTP...), l.Port) && l.Protocol == gatewayv1.HTTPProtocolType:
		return resolve.FrontendHTTP, ""
	case slices.Contains(portsOf(m.options.Bind.HTTPS...), l.Port) && speaksTLS(l):
		return resolve.FrontendHTTPS, ""
	case slices.Contains(m.takenPorts, l.Port):
		return "", "port " + strconv.Itoa(l.Port) + " belongs to another listener of sluice; see --gateway-addresses"
	case m.ports[l.Port] != nil && len(m.ports[l.Port].claims) > 0 && l.Protocol != gatewayv1.UDPProtocolType:
		return "", "port " + strconv.Itoa(l.Port) + " is that of TCP services; see --gateway-addresses"
	}
	return gatewayPrefix + strconv.Itoa(l.Port), ""
}

// gatewayPrefix begins the names of frontends of Gateways.
const gatewayPrefix = "gateway_"

// frontend is the frontend of a name, new if need be.
func (m *Memo) frontend(name string, as role, addresses []string) *frontend {
	f := m.units.frontends[name]
	if f == nil {
		f = &frontend{
			name: name, role: as, ingress: name == resolve.FrontendHTTP || name == resolve.FrontendHTTPS,
			listeners: map[string][]*gateway.Listener{}, vhosts: map[vhostKey]*virtualHost{}, known: map[string]int{},
			entries: map[string]string{}, secrets: map[snapshot.Key]*certificateUnit{},
		}
		m.units.frontends[name] = f
	}
	f.addresses = addresses
	m.work.listeners.add(f)
	return f
}

// bound are the addresses that a port of a Gateway is bound to.
func (m *Memo) bound(unit *gatewayUnit, port int) []string {
	hosts := unit.addresses
	if len(m.options.GatewayAddresses) == 0 {
		for _, address := range slices.Concat(m.options.Bind.HTTP, m.options.Bind.HTTPS) {
			if host, _, err := net.SplitHostPort(address); err == nil && !slices.Contains(hosts, host) {
				hosts = append(hosts, host)
			}
		}
		if len(hosts) == 0 {
			hosts = []string{"*"}
		}
	}
	list := make([]string, len(hosts))
	for i, host := range hosts {
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		list[i] = host + ":" + strconv.Itoa(port)
	}
	return list
}

// openListener puts a listener into its frontend.
func (m *Memo) openListener(unit *gatewayUnit, p placement) {
	f := p.frontend
	f.listeners[p.listener.Host] = append(f.listeners[p.listener.Host], p.listener)
	m.knows(f, p.listener.Host, 1)
	m.work.listeners.add(f)
	if unit.attached[p.listener.ID] == nil {
		unit.attached[p.listener.ID] = map[*routeUnit]bool{}
	}
}

// closeListener takes a listener out of its frontend.
func (m *Memo) closeListener(p placement) {
	f, host := p.frontend, p.listener.Host
	f.listeners[host] = slices.DeleteFunc(f.listeners[host], func(l *gateway.Listener) bool { return l.ID == p.listener.ID })
	if len(f.listeners[host]) == 0 {
		delete(f.listeners, host)
	}
	m.knows(f, host, -1)
	m.work.listeners.add(f)
}

// replace puts the newest form of a listener in the place of the last one.
func (f *frontend) replace(old, l *gateway.Listener) {
	list := f.listeners[l.Host]
	list[slices.Index(list, old)] = l
}

// knows counts who brings a host. Whom a wildcard covers may have another virtual host then,
// and so may a host that a virtual host of another listener brings, too.
func (m *Memo) knows(f *frontend, host string, change int) {
	if f.known[host] += change; f.known[host] == 0 {
		delete(f.known, host)
	}
	m.touch(f, host)
}

// touch has the entries of a host, and of all that it covers, brought in line.
func (m *Memo) touch(f *frontend, host string) {
	m.work.gatewayHosts.add(frontendHost{f, host})
	if host != token.AnyHost && !strings.HasPrefix(host, wildcard) {
		return
	}
	if strings.Count(host, ".") > labelsStep {
		m.work.listeners.add(f)
	}
	for other := range f.known {
		if host == token.AnyHost || strings.HasSuffix(other, host[1:]) {
			m.work.gatewayHosts.add(frontendHost{f, other})
		}
	}
}

// labelsStep is how many labels behind the star of a wildcard are looked at, or a multiple of
// it where a wildcard is longer: nearly none is, and a new number is a reload.
const labelsStep = 8

// labels is the number of labels behind the star that is enough for all wildcards.
func (f *frontend) labels() int {
	most := labelsStep
	for host := range f.known {
		if strings.HasPrefix(host, wildcard) {
			most = max(most, strings.Count(host, "."))
		}
	}
	return (most + labelsStep - 1) / labelsStep * labelsStep
}

// frontendHost is a host of a frontend.
type frontendHost struct {
	frontend *frontend
	host     string
}

// covers calls yield for a host and all wildcards that cover it, the most specific one first.
func covers(host string) func(func(string) bool) {
	return func(yield func(string) bool) {
		if !yield(host) || host == token.AnyHost {
			return
		}
		rest := strings.TrimPrefix(host, wildcard)
		for {
			_, parent, found := strings.Cut(rest, ".")
			if !found {
				break
			}
			if !yield(wildcard + parent) {
				return
			}
			rest = parent
		}
		yield(token.AnyHost)
	}
}

// live tells whether the frontend has anything to serve.
func (f *frontend) live() bool {
	return len(f.listeners) > 0 || f.role == roleNames && len(f.others) > 0
}

// none is what stands in the table of hosts for a listener without a route for a host.
func (f *frontend) none(listener string) string {
	if f.role == roleRequests {
		return vhost.None(f.name, listener)
	}
	return model.NoBackend
}

// table is the one that hosts of the frontend are looked up in.
func (f *frontend) table() int {
	if f.role == roleRequests {
		return tableListeners
	}
	return tableTCP
}

// entryOf is what stands in the table of hosts for a host: the virtual host of the most
// specific listener that covers it; never that of a less specific one. For connections it is
// what the virtual host leads to.
func (f *frontend) entryOf(host string) string {
	if f.known[host] == 0 {
		return ""
	}
	for listener := range covers(host) {
		if len(f.listeners[listener]) == 0 {
			if f.others[listener] != "" {
				return f.foreignEntry(listener)
			}
			continue
		}
		for pattern := range covers(host) {
			if v := f.vhosts[vhostKey{listener, pattern}]; v != nil && len(v.members) > 0 {
				if f.role != roleRequests {
					return v.action
				}
				return v.id
			}
		}
		return f.none(listener)
	}
	return ""
}

// settleGatewayHosts brings the table of hosts in line with listeners and virtual hosts.
func (m *Memo) settleGatewayHosts() {
	for h := range m.work.gatewayHosts.drain {
		entry := h.frontend.entryOf(h.host)
		if entry == h.frontend.entries[h.host] {
			continue
		}
		m.work.edit(h.frontend.table(), h.frontend.name+"#"+h.host, entry)
		if h.frontend.entries[h.host] = entry; entry == "" {
			delete(h.frontend.entries, h.host)
		}
	}
}

// settleListeners brings the frontends of Gateways in line with their listeners.
func (m *Memo) settleListeners() {
	for f := range m.work.listeners.drain {
		m.settleSecrets(f)
		m.settleClients(f)
		next := m.modelOf(f)
		if (next == nil) != (f.model == nil) || next != nil && !next.Equal(f.model) {
			f.model = next
		}
		if next := m.connectionsOf(f); next == nil || f.tcp == nil || !next.Equal(f.tcp) {
			f.tcp = next
		}
		if len(f.listeners) == 0 && len(f.known) == 0 && len(f.vhosts) == 0 {
			delete(m.units.frontends, f.name)
		}
	}
	m.holdRefusal()
}

// modelOf is the frontend as HAProxy has it; nil where it is not one of its own.
func (m *Memo) modelOf(f *frontend) *model.Frontend {
	if len(f.listeners) == 0 || f.ingress || f.role != roleRequests {
		return nil
	}
	secure := f.protocol == gatewayv1.HTTPSProtocolType
	next := resolve.GatewayFrontend(m.global.set, f.name, f.addresses, secure)
	next.Labels = f.labels()
	if secure {
		next.CrtList, next.AnyClient = f.name, f.anyClient()
		next.StrictSNI = len(f.listeners[token.AnyHost]) == 0
	}
	if next.Behind = m.units.behind[f.name]; next.Behind {
		next.Addresses, next.AcceptProxy = nil, false
	}
	return next
}

// frontendList are all frontends, sorted by name: those of Ingresses, which serve Gateways,
// too, where these have no addresses, and those of Gateways.
func (m *Memo) frontendList() []*model.Frontend {
	var list []*model.Frontend
	for _, f := range m.global.process.Frontends {
		if shared := m.units.frontends[f.Name]; shared != nil && len(shared.listeners) > 0 {
			both := *f
			both.Gateway, both.Labels, both.AnyClient = true, shared.labels(), shared.anyClient()
			f = &both
		}
		if m.units.behind[f.Name] {
			behind := *f
			behind.Behind, behind.Addresses, behind.AcceptProxy = true, nil, false
			f = &behind
		}
		list = append(list, f)
	}
	for _, name := range slices.Sorted(maps.Keys(m.units.frontends)) {
		if f := m.units.frontends[name].model; f != nil {
			list = append(list, f)
		}
	}
	slices.SortFunc(list, func(a, b *model.Frontend) int { return cmp.Compare(a.Name, b.Name) })
	if !slices.EqualFunc(list, m.served, func(a, b *model.Frontend) bool { return a == b || a.Equal(b) }) {
		m.served = list
	}
	return m.served
}
