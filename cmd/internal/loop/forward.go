package loop

import "github.com/sluice-proxy/sluice/pkg/haproxy/model"

// Forwarder serves the listeners for datagrams; *forwarder.Forwarder is one.
type Forwarder interface {
	// Apply returns which listeners have no socket, and why.
	Apply(listeners []*model.UDPListener) map[string]string
}

// noForwarder is why listeners for datagrams are not served with --once.
const noForwarder = "datagrams are forwarded by sluice itself, which runs with --once and ends"

// forward hands the listeners for datagrams of the newest model to the forwarder. It tells
// whether another set of them has no socket than before: then statuses differ.
func (l *Loop) forward() bool {
	listeners := l.Line.Model().UDP
	var unbound map[string]string
	if l.Forwarder != nil {
		unbound = l.Forwarder.Apply(listeners)
	} else if len(listeners) > 0 {
		unbound = map[string]string{}
		for _, listener := range listeners {
			unbound[listener.Name] = noForwarder
		}
	}
	l.portless = len(unbound) > 0
	return l.Line.Unbound(unbound)
}
