package model

import (
	"reflect"
	"slices"
	"time"
)

// Model is everything that HAProxy shall do.
type Model struct {
	Process      Process
	Frontends    []*Frontend    // sorted by name
	TCP          []*TCPFrontend // sorted by port, then by name
	UDP          []*UDPListener // sorted by name; not HAProxy's
	Defaults     Defaults
	Profiles     []*Profile // in use by a backend, sorted by name; the default one is always there
	Backends     *Backends
	Tables       []*Table // one for each Table constant, in the order of their names
	Lists        []*List  // sorted by name
	Userlists    []*Userlist
	Certificates []*Certificate // [0] is the controller's own, the others are sorted by name; client certificates too
	CAFiles      []*Certificate // certificates without a key that servers are verified with, sorted by name
	CrtList      []CrtLine      // of all crt-lists, each in one piece; the first line of one can't be changed at run time
	Resolvers    *Resolvers     // nil: no server has a DNS name
	Health       Health
	Shards       int // wanted number of shards; 0: automatic
}

// Process is the "global" section.
type Process struct {
	MaxConn       int           // 0: as many as the file descriptors allow
	NbThread      int           // 0: one per CPU
	HardStopAfter time.Duration // bounds an old worker
	LogTargets    []string      // "stdout", "stderr" or address:port; none: no log
	LogFormat     string        // raw, rfc3164 or rfc5424
	LogLength     int           // bytes of a line
	LogTag        string
}

// Defaults are the base sections that all frontends and all profiles inherit from.
type Defaults struct {
	TimeoutClient      time.Duration
	TimeoutClientFin   time.Duration
	TimeoutConnect     time.Duration
	TimeoutServer      time.Duration
	TimeoutServerFin   time.Duration
	TimeoutQueue       time.Duration
	TimeoutTunnel      time.Duration
	TimeoutHTTPRequest time.Duration
	TimeoutKeepAlive   time.Duration
	Retry              Retry
}

// Frontend is one "frontend" section with its binds.
type Frontend struct {
	Name           string // http or https
	Addresses      []string
	SSL            bool
	ALPN           string
	AcceptProxy    bool   // "accept-proxy" on each bind
	TrustedProxies *List  // sources whose X-Forwarded-* headers are kept; nil: nobody's
	ForwardFor     string // add, update, ignore or ifmissing
	LogFormat      string // log-format text; empty: the built-in one
	StrictHost     bool   // no fallback from a known host to the rules without a host
	Ingress        bool   // the rules of Ingresses are looked up
	Gateway        bool   // the hosts of Gateways are looked up, before those of Ingresses
	Labels         int    // the most labels that stand behind the star of a wildcard, with Gateway
	CrtList        string // name of the crt-list, with SSL
	StrictSNI      bool   // clients that ask for no known name are refused, with SSL
	AnyClient      bool   // clients whose certificate is not valid get in, too: ssl_c_verify tells, with SSL
	Behind         bool   // connections come from the TCPFrontend that tells names apart, not from Addresses
	// NoTLSRedirect are beginnings of paths that no profile redirects to https, sorted.
	NoTLSRedirect []string
}

// Equal tells whether two frontends are the same; lists count as what they are called.
func (f *Frontend) Equal(g *Frontend) bool {
	one, other := *f, *g
	for _, copied := range []*Frontend{&one, &other} {
		if copied.TrustedProxies != nil {
			copied.TrustedProxies = &List{Name: copied.TrustedProxies.Name}
		}
	}
	return reflect.DeepEqual(one, other)
}

// Health is the frontend that load balancers and probes ask.
type Health struct {
	Addresses []string // none: there is no such frontend
	// Starting is the state before the first configuration: every request to the other
	// frontends is answered 503, and the health frontend says that this is so.
	Starting bool
}

// Equal tells whether two health frontends are the same.
func (h Health) Equal(other Health) bool {
	return h.Starting == other.Starting && slices.Equal(h.Addresses, other.Addresses)
}

// Certificate is a PEM file below certs/, named after a digest of its content; only the
// controller's own has a fixed name.
type Certificate struct {
	Name   string // file name below certs/
	PEM    Secret // certificate chain and private key, re-encoded
	Origin Origin
}

// CrtLine is one line of the crt-list: a certificate and the server names it answers.
type CrtLine struct {
	List        string   // name of the crt-list
	Certificate string   // name of a Certificate
	Hosts       []string // SNI filters, sorted; none on the first line only
	ClientCA    string   // name of the file of authorities that sign clients' certificates; empty: none is asked for
	Optional    bool     // with ClientCA: clients get in without one, too
}

// CrtListHTTPS is the crt-list of the Ingress listener, and of TCP services.
const CrtListHTTPS = "https"

// Equal tells whether two lines say the same.
func (l CrtLine) Equal(other CrtLine) bool {
	return l.List == other.List && l.Certificate == other.Certificate && l.ClientCA == other.ClientCA && l.Optional == other.Optional &&
		slices.Equal(l.Hosts, other.Hosts)
}

// Resolvers is the "resolvers" section for servers that are DNS names.
type Resolvers struct {
	Name        string
	Nameservers []string // "name address:port", sorted; none: those of /etc/resolv.conf
	HoldValid   time.Duration
}

// Same tells whether two slices are one: the same length and the same memory. Parts of a
// Model that did not change are handed on as they are, so this says "unchanged" without
// looking at the elements; false says nothing.
func Same[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// Equal tells whether two global sections are the same.
func (p Process) Equal(q Process) bool {
	return p.MaxConn == q.MaxConn && p.NbThread == q.NbThread && p.HardStopAfter == q.HardStopAfter &&
		p.LogFormat == q.LogFormat && p.LogLength == q.LogLength && p.LogTag == q.LogTag &&
		slices.Equal(p.LogTargets, q.LogTargets)
}
