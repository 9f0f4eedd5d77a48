package forwarder

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	maxDatagram = 65535
	// queue is what the kernel may keep of a listener's datagrams until they are read, in bytes.
	queue = 1 << 20
	// errorPause is the time between two tries to read a socket that gives errors.
	errorPause = 10 * time.Millisecond
)

// socket is one address of a listener.
type socket struct {
	conn *net.UDPConn
	shut bool // guarded by the listener's lock
	any  bool // it takes datagrams to each address of the machine, so an answer must name its own
}

// listen binds an address, as a Frontend writes it.
func listen(address string) (*socket, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	network := "udp4"
	if strings.Contains(host, ":") {
		network = "udp6"
	}
	if host == "*" {
		host = "0.0.0.0"
	}
	conn, err := (&net.ListenConfig{}).ListenPacket(context.Background(), network, net.JoinHostPort(host, port))
	if err != nil {
		return nil, reason(err)
	}
	s := &socket{conn: conn.(*net.UDPConn)}
	_ = s.conn.SetReadBuffer(queue) // the kernel's own size does, too
	if addr, err := netip.ParseAddr(host); err == nil && addr.IsUnspecified() {
		s.any = true
		if err := s.tellDestination(network == "udp6"); err != nil {
			s.conn.Close()
			return nil, err
		}
	}
	return s, nil
}

// reason is the error without the words that the name of the listener says already.
func reason(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

// tellDestination has the kernel say to which address a datagram came.
func (s *socket) tellDestination(six bool) error {
	raw, err := s.conn.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		if six {
			failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1)
		} else {
			failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_PKTINFO, 1)
		}
	})
	return errors.Join(err, failed)
}

// destination is the address that a datagram came to, as the kernel says it.
func destination(oob []byte) netip.Addr {
	for len(oob) > 0 {
		header, data, rest, err := unix.ParseOneSocketControlMessage(oob)
		if err != nil {
			return netip.Addr{}
		}
		switch {
		case header.Level == unix.IPPROTO_IP && header.Type == unix.IP_PKTINFO && len(data) >= unix.SizeofInet4Pktinfo:
			return netip.AddrFrom4([4]byte(data[4:8])) // ipi_spec_dst
		case header.Level == unix.IPPROTO_IPV6 && header.Type == unix.IPV6_PKTINFO && len(data) >= unix.SizeofInet6Pktinfo:
			return netip.AddrFrom16([16]byte(data[:16]))
		}
		oob = rest
	}
	return netip.Addr{}
}

// from is what tells the kernel to send from an address; nil where it knows by itself.
func from(local netip.Addr) []byte {
	switch {
	case !local.IsValid():
		return nil
	case local.Is4():
		return unix.PktInfo4(&unix.Inet4Pktinfo{Spec_dst: local.As4()})
	}
	return unix.PktInfo6(&unix.Inet6Pktinfo{Addr: local.As16()})
}

// serve reads the socket until it is closed.
func (s *socket) serve(take func(key key, payload []byte)) {
	payload, oob := make([]byte, maxDatagram), make([]byte, 128)
	if !s.any {
		oob = nil
	}
	for {
		n, told, _, client, err := s.conn.ReadMsgUDPAddrPort(payload, oob)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(errorPause)
			continue
		}
		k := key{socket: s, client: client}
		if s.any {
			k.local = destination(oob[:told])
		}
		take(k, payload[:n])
	}
}
