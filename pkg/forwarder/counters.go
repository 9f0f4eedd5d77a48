package forwarder

import (
	"cmp"
	"slices"
	"sync/atomic"
)

// counters are those of a listener since it was opened.
type counters struct {
	received, sent           atomic.Uint64 // datagrams of clients; answers
	unserved, denied, failed atomic.Uint64 // datagrams that were dropped
	opened, evicted, moved   atomic.Uint64 // sessions
}

// Counters are what a listener has done since it was opened.
type Counters struct {
	Listener string
	Received uint64 // datagrams of clients
	Sent     uint64 // datagrams of servers that went to clients
	// Dropped datagrams of clients: nobody is there to take them, or the client is not let in;
	// or they, or an answer, could not be sent.
	Unserved, Denied, Failed uint64
	Sessions                 int    // open now
	Opened                   uint64 // sessions
	Evicted                  uint64 // sessions that made room
	Moved                    uint64 // sessions whose server went
}

// Counters are those of all listeners, sorted by name.
func (f *Forwarder) Counters() []Counters {
	all := f.all()
	list := make([]Counters, len(all))
	for i, l := range all {
		c := &l.counters
		list[i] = Counters{
			Listener: l.name, Received: c.received.Load(), Sent: c.sent.Load(), Unserved: c.unserved.Load(), Denied: c.denied.Load(),
			Failed: c.failed.Load(), Sessions: l.alive(), Opened: c.opened.Load(), Evicted: c.evicted.Load(), Moved: c.moved.Load(),
		}
	}
	slices.SortFunc(list, func(a, b Counters) int { return cmp.Compare(a.Listener, b.Listener) })
	return list
}

// alive is the number of sessions that have a server.
func (l *listener) alive() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, s := range l.sessions {
		if s.conn != nil {
			n++
		}
	}
	return n
}
