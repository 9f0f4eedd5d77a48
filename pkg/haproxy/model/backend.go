package model

import (
	"cmp"
	"net/netip"
	"strconv"
	"time"
)

// Backend is one "backend" section. Its name is a function of what it does, not of
// history: namespace_service_port, followed by _ and 8 hexadecimal characters of
// profile, server options and values where these are not the default ones. So a
// changed behaviour is another backend, and two backends of one name differ in their
// servers only.
type Backend struct {
	Name    string
	Origins []Origin // objects whose settings made it, the Service first; sorted
	Profile *Profile
	Options ServerOptions
	Values  []Value  // sorted by slot
	Servers []Server // sorted by CompareServers, names are unique
	// Static says in words why HAProxy can't change the servers of this backend at run
	// time; empty where it can.
	Static string
	Digest Digest // of everything above but Origins; set by Seal
}

// Value is a text that a rule of the profile looks up at run time in the table
// "values", under the key backend/slot. It is never empty, since a map file can't hold an
// empty value: what would be empty is left out, and the look-up finds nothing.
type Value struct{ Slot, Text string }

// ServerState is the administrative state of a server.
type ServerState uint8

// The states, in the order of preference when one address stands in several slices.
const (
	Ready ServerState = iota // takes requests
	Drain                    // takes requests of clients that stick to it
	Maint                    // takes none
)

// String is the word that "set server <b>/<s> state" takes.
func (s ServerState) String() string {
	return [...]string{"ready", "drain", "maint"}[s]
}

// Server is one "server" line.
type Server struct {
	Addr   netip.AddrPort // not valid where Host is set
	Host   string         // DNS name; makes the backend static
	Port   uint16         // port of Host
	State  ServerState
	Weight int    // 0 to 256
	Cookie string // value of the persistence cookie; empty without affinity
}

// Name is the address with its port: a function of the endpoint, never of history.
// An IPv6 address is written without brackets, the port stands behind the last colon.
func (s Server) Name() string {
	if s.Host != "" {
		return s.Host + ":" + strconv.Itoa(int(s.Port))
	}
	return s.Addr.Addr().String() + ":" + strconv.Itoa(int(s.Addr.Port()))
}

// CompareServers orders servers by address, then port, those with a DNS name last. Two
// servers of one name compare equal. (Not by Name: it would be written out for each
// comparison, which counts with 100 000 servers.)
func CompareServers(a, b Server) int {
	return cmp.Or(cmp.Compare(a.Host, b.Host), a.Addr.Compare(b.Addr), cmp.Compare(a.Port, b.Port))
}

// ServerOptions are the parameters that all servers of a backend share. They stand on
// each server line, since "add server" ignores "default-server". The zero value is a
// plain HTTP/1 server without checks. The type is comparable.
type ServerOptions struct {
	SSL        bool   // "ssl"
	Verify     bool   // "verify required", else "verify none"; only with SSL
	CAFile     string // path below certs/, or SystemCA; needed by Verify
	CertFile   string // client certificate, path below certs/
	SNI        string // sample expression for "sni"; with the empty one HAProxy 3.3 and later send the request's Host
	VerifyHost string // "verifyhost"
	ALPN       string // "alpn", for example h2 or h2,http/1.1
	Proto      string // "proto": empty or h2
	SendProxy  string // "send-proxy", "send-proxy-v2", ...: the keyword itself; empty: none
	MaxConn    int    // 0: unlimited
	MaxQueue   int    // 0: unlimited
	Resolvers  string // name of a resolvers section, for servers by DNS name
	// Pool: connections of HTTP/1 are kept for further requests. Without it each request has
	// one of its own, so that one whose pod vanished is noticed while it is opened.
	Pool      bool
	SlowStart time.Duration // "slowstart"; 0: none
	// Eject takes a server out after so many connections in a row that failed ("observe
	// layer4"), until its checks find it well; 0: never. Only with checks.
	Eject int
	Check Check
}

// SystemCA stands for the authorities of the system that HAProxy runs on.
const SystemCA = "@system-ca"

// Check are the health check parameters of a server; off by default, since readiness
// is Kubernetes' job and a check costs a file descriptor per server.
type Check struct {
	On       bool
	Interval time.Duration // "inter"; 0: HAProxy's default of 2 s
	Rise     int           // 0: HAProxy's default
	Fall     int           // 0: HAProxy's default
	Port     int           // 0: the server's port
	Addr     string        // empty: the server's address
}

// Seal computes the digest. A backend must not be changed afterwards.
func (b *Backend) Seal() *Backend {
	h := NewHasher().Str(b.Name, b.Profile.Name, b.Static)
	b.Options.digest(h)
	h.Int(int64(len(b.Values)))
	for _, v := range b.Values {
		h.Str(v.Slot, v.Text)
	}
	var buf [64]byte
	for i := range b.Servers {
		s := &b.Servers[i]
		text := append(s.Addr.AppendTo(buf[:0]), s.Host...)
		h.Bytes(text).Int(int64(s.Port), int64(s.State), int64(s.Weight)).Str(s.Cookie)
	}
	b.Digest = h.Digest()
	return b
}

// DigestOptions identifies profile, options and values: what a backend's name depends on.
func DigestOptions(p *Profile, o ServerOptions, values []Value) Digest {
	h := NewHasher().Str(p.Name)
	o.digest(h)
	for _, v := range values {
		h.Str(v.Slot, v.Text)
	}
	return h.Digest()
}

func (o ServerOptions) digest(h *Hasher) {
	h.Bool(o.SSL, o.Verify, o.Check.On, o.Pool)
	h.Str(o.CAFile, o.CertFile, o.SNI, o.VerifyHost, o.ALPN, o.Proto, o.SendProxy, o.Resolvers, o.Check.Addr)
	h.Int(int64(o.MaxConn), int64(o.MaxQueue), int64(o.Check.Interval), int64(o.Check.Rise), int64(o.Check.Fall), int64(o.Check.Port),
		int64(o.SlowStart), int64(o.Eject))
}
