package model

import "slices"

// UDPListener is a port whose datagrams are handed on. HAProxy is no proxy for UDP, so nothing
// of this is rendered: package forwarder serves it, beside HAProxy. A listener that did not
// change is the same pointer in the next Model.
type UDPListener struct {
	Name      string
	Addresses []string // with the port, as a Frontend has them
	// Targets share the clients by their weights. Without any, all datagrams are dropped.
	Targets []UDPTarget
	Origin  Origin // the listener
}

// UDPTarget is a backend of a UDPListener. The share of one that can't be served is dropped: it
// has no Backend, or one that denies, or one without servers.
type UDPTarget struct {
	Weight  int      // above 0
	Backend *Backend // not one of Model.Backends; of its servers the address and the state count
}

// Serves tells whether clients may get a server of the target.
func (t UDPTarget) Serves() bool {
	return t.Backend != nil && t.Backend.Profile.Shape.Deny == 0 && len(t.Backend.Servers) > 0
}

// Equal tells whether two targets are the same.
func (t UDPTarget) Equal(o UDPTarget) bool {
	a, b := t.Backend, o.Backend
	return t.Weight == o.Weight && (a == b || a != nil && b != nil && a.Digest == b.Digest &&
		slices.EqualFunc(a.Profile.Shape.Lists(), b.Profile.Shape.Lists(), sameList))
}

// sameList tells whether two lists are the same; a Digest knows only what they are called.
func sameList(a, b *List) bool { return a.Name == b.Name && slices.Equal(a.Entries, b.Entries) }

// Equal tells whether two listeners are the same.
func (l *UDPListener) Equal(o *UDPListener) bool {
	return l == o || l != nil && o != nil && l.Name == o.Name && l.Origin == o.Origin && slices.Equal(l.Addresses, o.Addresses) && slices.EqualFunc(l.Targets, o.Targets, UDPTarget.Equal)
}
