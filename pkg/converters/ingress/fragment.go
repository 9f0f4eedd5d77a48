package ingress

import (
	"time"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/resolve"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/token"
)

// Match says which requests a Route takes.
type Match uint8

// The matches, in the words of the Ingress API where it has one.
const (
	Exact      Match = iota // the path itself
	Prefix                  // the path and what is below it, element by element
	Begin                   // every path that begins with the text
	Default                 // what no other route of the host takes
	Connection              // a connection to a TCP service
)

// Route is a claim on one path of one host or, with Connection, on the connections to one
// host of a port.
type Route struct {
	Host    string // in lower case, "*.example.com", or token.AnyHost
	Path    string // normalised; without a slash at its end for Prefix, but for "/"; empty for Default
	Match   Match
	Backend resolve.BackendRef
	TCP     *Listener    // with Connection only
	Origin  model.Origin // with the field
}

// Listener is what a claim on connections asks of its port.
type Listener struct {
	Port        int
	AcceptProxy bool
	TLS         bool         // TLS ends at the port
	Secret      snapshot.Key // with TLS, for the host token.AnyHost: its certificate; zero: the default one
}

// Agrees tells whether two claims can share a port.
func (l *Listener) Agrees(other *Listener) bool {
	return l.AcceptProxy == other.AcceptProxy && l.TLS == other.TLS
}

// TLS is a claim on the certificate of one host.
type TLS struct {
	Host   string
	Secret snapshot.Key // zero: the default certificate
	Origin model.Origin
}

// Fragment is what one Ingress comes to.
type Fragment struct {
	Mine     bool // of a class of this controller; otherwise there are at most findings
	Created  time.Time
	Routes   []Route // in the order of precedence within the Ingress
	TLS      []TLS
	Findings []report.Finding
}

// Denied is the fragment with every path answering the given status and nothing else.
func (f Fragment) Denied(status int) Fragment {
	routes := make([]Route, len(f.Routes))
	for i, route := range f.Routes {
		route.Backend = resolve.BackendRef{Namespace: route.Backend.Namespace, Deny: status, TCP: route.TCP != nil}
		routes[i] = route
	}
	f.Routes = routes
	return f
}

// Key is the route's key in the table of TCP services, of exact routes or of prefixes.
// Routes of one key are one claim, however the Ingress words them.
func (r Route) Key() (key string, exact bool) {
	var err error
	switch r.Match {
	case Connection:
		return model.TCPKey(r.TCP.Port, r.Host), false
	case Exact:
		key, err = token.ExactKey(r.Host, r.Path)
	case Prefix:
		key, err = token.PrefixKey(r.Host, r.Path)
	case Begin:
		key, err = token.BeginKey(r.Host, r.Path)
	default:
		key, err = token.DefaultKey(r.Host)
	}
	if err != nil {
		panic("ingress: a checked host or path has no key: " + err.Error())
	}
	return key, r.Match == Exact
}
