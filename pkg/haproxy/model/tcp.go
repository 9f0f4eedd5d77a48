package model

import (
	"slices"
	"strconv"
)

// TCPFrontend is a "frontend" section in mode tcp: all TCP services of one port, or listeners
// of Gateways. What a connection gets is looked up in the table "tcp", by the port or the
// section and, with ByName, by the name that a TLS client asks for.
type TCPFrontend struct {
	Section     string // name of that of Gateways; empty: it is that of a port of TCP services
	Port        int
	Addresses   []string // with the port, as a Frontend has them; none where it stands behind another one
	AcceptProxy bool     // "accept-proxy" on each bind
	SSL         bool     // TLS ends here, with the crt-list of the https frontend
	Certificate string   // name of the Certificate for clients that ask for no known name; empty: they are refused
	ByName      bool     // the name that the client asks for decides
	LogFormat   string   // log-format text; empty: HAProxy's tcplog
	Origins     []Origin // objects that are served here, sorted

	// Of Gateways only.
	Labels    int      // the most labels that stand behind the star of a wildcard
	CrtList   string   // name of the crt-list, with SSL
	StrictSNI bool     // clients that ask for no known name are refused, with SSL
	Behind    bool     // connections come from the frontend that tells names apart
	HandsTo   []string // frontends that stand behind this one, sorted
}

// Name is that of the section.
func (f *TCPFrontend) Name() string {
	if f.Section != "" {
		return f.Section
	}
	return "tcp-" + strconv.Itoa(f.Port)
}

// Key is the key of the table "tcp" for a host of the port: a name in lower case, "*." and
// such a name, or "*" for all others. It is the beginning of all of them with no host.
func (f *TCPFrontend) Key(host string) string {
	if f.Section != "" {
		return f.Section + "#" + host
	}
	return TCPKey(f.Port, host)
}

// TCPKey is the key of a host of a port in the table "tcp".
func TCPKey(port int, host string) string { return strconv.Itoa(port) + "#" + host }

// Equal tells whether two sections are the same.
func (f *TCPFrontend) Equal(g *TCPFrontend) bool {
	return f == g || f.Section == g.Section && f.Port == g.Port && f.AcceptProxy == g.AcceptProxy && f.SSL == g.SSL && f.ByName == g.ByName &&
		f.Certificate == g.Certificate && f.LogFormat == g.LogFormat &&
		f.Labels == g.Labels && f.CrtList == g.CrtList && f.StrictSNI == g.StrictSNI && f.Behind == g.Behind && slices.Equal(f.HandsTo, g.HandsTo) &&
		slices.Equal(f.Addresses, g.Addresses) && slices.Equal(f.Origins, g.Origins)
}
