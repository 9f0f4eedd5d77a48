package forwarder

import (
	"net/netip"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// table is what a listener's clients get.
type table struct {
	targets []target
	homes   map[netip.AddrPort]int // servers at which sessions may stay -> their target
}

// target is a backend with its share of the clients.
type target struct {
	name    string // of the backend; empty: there is none
	weight  int
	current int // see pick
	servers []netip.AddrPort
	next    int // in servers
	lists   [4][]netip.Prefix
	listed  [4]bool
}

// The lists of a target, in the order of precedence of the rules of HAProxy's profiles.
const (
	allow = iota
	allowExcept
	deny
	denyExcept
)

// newTable compiles the targets of a listener. Targets that stood in the old table, too, go on
// where they were.
func newTable(l *model.UDPListener, old *table) *table {
	t := &table{homes: map[netip.AddrPort]int{}}
	for i, from := range l.Targets {
		to := target{weight: from.Weight}
		if from.Serves() {
			to.name = from.Backend.Name
			to.read(from.Backend)
			for _, s := range from.Backend.Servers {
				if s.State != model.Maint {
					t.homes[s.Addr] = i
				}
			}
		}
		to.goOn(old)
		t.targets = append(t.targets, to)
	}
	return t
}

// read takes over the servers and lists of a backend.
func (t *target) read(b *model.Backend) {
	for _, s := range b.Servers {
		if s.State == model.Ready {
			t.servers = append(t.servers, s.Addr)
		}
	}
	shape := &b.Profile.Shape
	for i, list := range []*model.List{allow: shape.AllowList, allowExcept: shape.AllowExcept, deny: shape.DenyList, denyExcept: shape.DenyExcept} {
		if list == nil {
			continue
		}
		t.listed[i] = true
		for _, entry := range list.Entries {
			t.lists[i] = append(t.lists[i], prefix(entry))
		}
	}
}

// prefix is an entry of a list. Entries are written by sluice, in canonical form.
func prefix(entry string) netip.Prefix {
	if p, err := netip.ParsePrefix(entry); err == nil {
		return p
	}
	a, err := netip.ParseAddr(entry)
	if err != nil {
		panic("forwarder: an entry of a list is no address: " + err.Error())
	}
	return netip.PrefixFrom(a, a.BitLen())
}

// goOn continues the turns of the same target of an older table.
func (t *target) goOn(old *table) {
	if old == nil {
		return
	}
	for i := range old.targets {
		if o := &old.targets[i]; o.name == t.name && o.weight == t.weight {
			t.current, t.next = o.current, o.next
			return
		}
	}
}

// admits tells whether the lists let a client in.
func (t *target) admits(client netip.Addr) bool {
	client = client.WithZone("")
	has := func(list int) bool {
		for _, p := range t.lists[list] {
			if p.Contains(client) {
				return true
			}
		}
		return false
	}
	switch {
	case t.listed[allow] && !has(allow), t.listed[allowExcept] && has(allowExcept):
		return false
	case t.listed[deny] && has(deny):
		return t.listed[denyExcept] && has(denyExcept)
	}
	return true
}

// pick is the target of the next client. Each gets its share exactly: of as many clients as the
// sum of the weights, as many as its own weight says (smooth weighted round robin).
func (t *table) pick() *target {
	var best *target
	sum := 0
	for i := range t.targets {
		c := &t.targets[i]
		sum += c.weight
		c.current += c.weight
		if best == nil || c.current > best.current {
			best = c
		}
	}
	if best != nil {
		best.current -= sum
	}
	return best
}

// server is the next one of the target, in turn.
func (t *target) server() (netip.AddrPort, bool) {
	if len(t.servers) == 0 {
		return netip.AddrPort{}, false
	}
	t.next = (t.next + 1) % len(t.servers)
	return t.servers[t.next], true
}

// home tells whether the session of a client may stay at a server.
func (t *table) home(server netip.AddrPort, client netip.Addr) bool {
	at, ok := t.homes[server]
	return ok && t.targets[at].admits(client)
}
