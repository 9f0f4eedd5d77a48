package resolve

import (
	"strings"
	"time"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// RefusingProfile is the profile of backends that close each connection: those of references
// that lead to nothing.
func RefusingProfile() *model.Profile {
	return model.NewProfile(model.Shape{TCP: true, Deny: StatusDenied})
}

// tcp is all that a backend for connections does. Options that speak of requests have no
// effect; one that keeps somebody out and can't do so here closes the connection.
func (b *behaviour) tcp() {
	b.shape.TCP = true
	b.servers.weight = b.set.Int("initial-weight")
	b.tcpBalance()
	b.tcpTimeouts()
	b.retry()
	b.lists()
	if b.set.Text(optionUsers) != "" {
		b.deny(optionUsers, "a TCP service has no requests that could carry a password; set it on the Ingresses instead of the Service")
	}
	b.secure()
	if b.options.SNI == hostSNI {
		b.options.SNI = noSNI
		b.report(report.OptionScope, optionSNI, "a TCP service has no requests that name a host: write the name itself, or sni")
	}
	if b.options.SSL {
		b.options.ALPN = "" // it is the business of client and server
	}
	b.options.Proto = ""
	b.route()
	b.limits()
	b.check()
	if !b.options.Check.On && b.set.IsSet("health-check-interval") {
		b.options.Check = model.Check{On: true, Interval: b.set.Duration("health-check-interval"),
			Rise: b.set.Int("health-check-rise-count"), Fall: b.set.Int("health-check-fall-count")}
	}
}

// tcpBalance is "balance", where the algorithm looks at no request.
func (b *behaviour) tcpBalance() {
	const option = "balance-algorithm"
	algorithm := b.set.Text(option)
	name, _, _ := strings.Cut(algorithm, "(")
	switch name {
	case "roundrobin", "leastconn", "first", "random", "source", "hash src":
		b.shape.Balance = algorithm
		return
	}
	b.shape.Balance = "roundrobin"
	if b.set.IsSet(option) {
		b.report(report.OptionScope, option, "%s looks at requests, which a TCP service does not have: roundrobin takes its place", algorithm)
	}
}

// tcpTimeouts are literals: there is no request at which they could be looked up.
func (b *behaviour) tcpTimeouts() {
	set, global := b.set, b.g.Set
	for option, to := range map[string]*time.Duration{
		"timeout-connect": &b.shape.TimeoutConnect, "timeout-queue": &b.shape.TimeoutQueue,
		"timeout-server": &b.shape.TCPTimeoutServer, "timeout-tunnel": &b.shape.TCPTimeoutTunnel,
	} {
		if t := set.Duration(option); t != global.Duration(option) {
			*to = t
		}
	}
}
