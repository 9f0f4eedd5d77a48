package harness

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
)

// proxyListener takes the header of the PROXY protocol off connections that have one.
type proxyListener struct {
	net.Listener
	need bool // refuse connections without one
}

func (l proxyListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &proxyConn{Conn: conn, reader: bufio.NewReader(conn), need: l.need}, nil
}

// proxyConn reads the header with the first bytes, not before: a check may send none.
type proxyConn struct {
	net.Conn
	reader *bufio.Reader
	need   bool
	once   sync.Once
	seen   string
	err    error
}

func (c *proxyConn) Read(b []byte) (int, error) {
	c.once.Do(func() { c.seen, c.err = readProxy(c.reader) })
	if c.err == nil && c.need && c.seen == "" {
		c.err = errors.New("no header of the PROXY protocol")
	}
	if c.err != nil {
		return 0, c.err
	}
	return c.reader.Read(b)
}

const (
	proxyV1 = "PROXY "
	proxyV2 = "\r\n\r\n\x00\r\nQUIT\n"
)

// readProxy reads a header, if there is one, and describes it (HAProxy's
// doc/proxy-protocol.txt, 2.1 and 2.2).
func readProxy(r *bufio.Reader) (string, error) {
	first, err := r.Peek(1)
	if err != nil || first[0] != proxyV1[0] && first[0] != proxyV2[0] {
		return "", err
	}
	if start, err := r.Peek(len(proxyV1)); err == nil && string(start) == proxyV1 {
		line, err := r.ReadString('\n')
		words := strings.Fields(line)
		if err == nil && len(words) == 2 && words[1] == "UNKNOWN" {
			return "v1 local", nil // a check
		}
		if err != nil || len(words) < 3 {
			return "", fmt.Errorf("PROXY header %q: %w", line, err)
		}
		return "v1 " + words[2], nil
	}
	if start, err := r.Peek(len(proxyV2)); err != nil || string(start) != proxyV2 {
		return "", nil
	}
	head := make([]byte, 16)
	if _, err := io.ReadFull(r, head); err != nil {
		return "", err
	}
	body := make([]byte, binary.BigEndian.Uint16(head[14:]))
	if _, err := io.ReadFull(r, body); err != nil {
		return "", err
	}
	if head[12] == 0x20 {
		return "v2 local", nil // a check
	}
	if head[13] != 0x11 || len(body) < 12 { // TCP over IPv4
		return "", errors.New("PROXY header of another family than TCP over IPv4")
	}
	source, _ := netip.AddrFromSlice(body[:4])
	text := "v2 " + source.String()
	if len(body) > 12 {
		text += " with more"
	}
	return text, nil
}

type connKey struct{}

func noteProxy(ctx context.Context, conn net.Conn) context.Context {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	return context.WithValue(ctx, connKey{}, conn)
}

func proxyOf(r *http.Request) string {
	conn, ok := r.Context().Value(connKey{}).(*proxyConn)
	if !ok {
		return ""
	}
	return conn.seen
}
