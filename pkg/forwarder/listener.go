package forwarder

import (
	"container/list"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// listener is one UDP listener with its sessions.
type listener struct {
	name     string
	options  *Options
	counters counters

	mu       sync.Mutex
	from     *model.UDPListener // what the table was made of
	table    *table
	sockets  map[string]*socket // by address
	sessions map[key]*session
	order    *list.List // of sessions, the client that was heard last in front
	closing  bool       // new clients are not taken any more

	last atomic.Int64 // when a datagram of a session came, as clock says it
}

// key is who has a session: a client's address, and the address that it asks.
type key struct {
	socket *socket
	client netip.AddrPort
	local  netip.Addr // not valid where the socket has but one
}

// session is a client's way to a server.
type session struct {
	key    key
	server netip.AddrPort
	conn   *net.UDPConn // nil: what the client sends is dropped
	why    *atomic.Uint64
	oob    []byte       // see from
	last   atomic.Int64 // when a datagram came, from either side
	place  *list.Element
}

func newListener(name string, o *Options) *listener {
	return &listener{name: name, options: o, sockets: map[string]*socket{}, sessions: map[key]*session{}, order: list.New()}
}

// take hands a client's datagram on.
func (l *listener) take(k key, payload []byte) {
	l.counters.received.Add(1)
	for range 2 { // a server that refused the last datagram says so at this one: then another one gets it
		s := l.sessionOf(k)
		if s == nil {
			l.counters.failed.Add(1)
			return
		}
		if s.conn == nil {
			s.why.Add(1)
			return
		}
		_, err := s.conn.Write(payload)
		if err == nil {
			return
		}
		if !errors.Is(err, unix.ECONNREFUSED) && !errors.Is(err, net.ErrClosed) {
			l.counters.failed.Add(1)
			return
		}
		l.end(s)
	}
	l.counters.failed.Add(1)
}

// sessionOf is the session of a client, new if need be; nil: there can't be one.
func (l *listener) sessionOf(k key) *session {
	now := l.options.clock()
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.sessions[k]
	if s != nil && s.conn == nil && now-s.last.Load() > int64(l.options.Idle) {
		l.drop(s)
		s = nil
	}
	if s == nil {
		if s = l.open(k); s == nil {
			return nil
		}
	}
	l.order.MoveToFront(s.place)
	s.last.Store(now)
	if s.conn != nil {
		l.last.Store(now)
	}
	return s
}

// open makes a session for a client. The lock is held.
func (l *listener) open(k key) *session {
	if l.closing || k.socket.shut {
		return nil
	}
	for len(l.sessions) >= l.options.Sessions {
		l.evict()
	}
	s := &session{key: k, why: &l.counters.unserved}
	if t := l.table.pick(); t != nil {
		if !t.admits(k.client.Addr()) {
			s.why = &l.counters.denied
		} else if server, ok := t.server(); ok {
			s.server = server
			if s.conn = l.dial(server); s.conn == nil {
				return nil
			}
			s.oob = from(k.local)
			l.counters.opened.Add(1)
			s.last.Store(l.options.clock())
			go l.relay(s)
		}
	}
	l.sessions[k], s.place = s, l.order.PushFront(s)
	return s
}

// dial is a socket to a server. Where the process has no file descriptor left, the oldest
// session gives up its own.
func (l *listener) dial(server netip.AddrPort) *net.UDPConn {
	for {
		conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(server))
		if err == nil {
			return conn
		}
		if !errors.Is(err, unix.EMFILE) && !errors.Is(err, unix.ENFILE) || l.order.Len() == 0 {
			return nil
		}
		l.evict()
	}
}

// evict ends the session whose client was silent for longest. The lock is held.
func (l *listener) evict() {
	l.drop(l.order.Back().Value.(*session))
	l.counters.evicted.Add(1)
}

// drop takes a session out; its goroutine ends by the closed socket. The lock is held.
func (l *listener) drop(s *session) {
	if l.sessions[s.key] != s {
		return // somebody else did
	}
	delete(l.sessions, s.key)
	l.order.Remove(s.place)
	if s.conn != nil {
		s.conn.Close()
	}
}

func (l *listener) end(s *session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(s)
}

// buffers are those of answers. A session has none while nothing comes.
var buffers = sync.Pool{New: func() any { return new([maxDatagram]byte) }}

// relay hands the answers of a session's server on until the session ends.
func (l *listener) relay(s *session) {
	defer l.end(s)
	raw, err := s.conn.SyscallConn()
	if err != nil {
		return
	}
	var failed error
	answer := func(fd uintptr) (done bool) {
		buffer := buffers.Get().(*[maxDatagram]byte)
		defer buffers.Put(buffer)
		var n int
		if n, failed = unix.Read(int(fd), buffer[:]); failed != nil {
			return !errors.Is(failed, unix.EAGAIN)
		}
		now := l.options.clock()
		s.last.Store(now)
		l.last.Store(now)
		if _, _, err := s.key.socket.conn.WriteMsgUDPAddrPort(buffer[:n], s.oob, s.key.client); err != nil {
			l.counters.failed.Add(1)
		} else {
			l.counters.sent.Add(1)
		}
		return true
	}
	for {
		idle := s.last.Load() + int64(l.options.Idle) - l.options.clock()
		if idle <= 0 {
			return
		}
		if s.conn.SetReadDeadline(time.Now().Add(time.Duration(idle))) != nil {
			return
		}
		for err == nil && failed == nil {
			err = raw.Read(answer)
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(failed, unix.EINTR) {
			return // it was closed, or the server refuses
		}
		err, failed = nil, nil
	}
}

// change puts another table in force. Sessions whose server stands in it stay.
func (l *listener) change(from *model.UDPListener) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.from == from {
		return
	}
	l.table, l.from = newTable(from, l.table), from
	for _, s := range l.sessions {
		if s.conn == nil || !l.table.home(s.server, s.key.client.Addr()) {
			if s.conn != nil {
				l.counters.moved.Add(1)
			}
			l.drop(s)
		}
	}
}

// shut closes the sockets of addresses that are not wanted, and the sessions behind them.
func (l *listener) shut(wanted []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for address, socket := range l.sockets {
		if slices.Contains(wanted, address) {
			continue
		}
		socket.conn.Close()
		socket.shut = true
		delete(l.sockets, address)
		for k, s := range l.sessions {
			if k.socket == socket {
				l.drop(s)
			}
		}
	}
}

// bind opens the sockets that are missing.
func (l *listener) bind(addresses []string) error {
	var failed error
	for _, address := range addresses {
		if l.sockets[address] != nil {
			continue
		}
		s, err := listen(address)
		if err != nil {
			failed = errors.Join(failed, &bindError{address, err})
			continue
		}
		l.mu.Lock()
		l.sockets[address] = s
		l.mu.Unlock()
		go s.serve(l.take)
	}
	return failed
}
