package resolve

import (
	"slices"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// udp is all that a backend for datagrams does: it has servers, and lists of who is let in. What
// asks for more protection than that can't be honoured, and drops the datagrams.
func (b *behaviour) udp() {
	b.shape.TCP = true
	b.servers.weight = b.set.Int("initial-weight")
	b.lists()
	if b.set.Text(optionUsers) != "" {
		b.deny(optionUsers, "datagrams carry no password")
	}
	if b.set.Bool("secure-backends") {
		b.deny("secure-backends", "there is no TLS over UDP here")
	}
	if text := b.set.Text(optionProtocol); text == "h1-ssl" || text == "h2-ssl" {
		b.deny(optionProtocol, "there is no TLS over UDP here")
	}
}

// keepAddresses leaves out the servers that are DNS names: nobody looks them up for datagrams.
func (e *endpoints) keepAddresses(ref *BackendRef) []report.Finding {
	if !e.dns {
		return nil
	}
	e.dns = false
	e.servers = slices.DeleteFunc(e.servers, func(s model.Server) bool { return s.Host != "" })
	return []report.Finding{report.New(report.EndpointInvalid, ref.Origin,
		"Service %s/%s leads to a DNS name: datagrams are forwarded to addresses only", ref.Namespace, ref.Service)}
}
