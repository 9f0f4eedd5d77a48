package traffic

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

func newClient(kind Kind, address string) client {
	if kind == HTTP2 {
		return newHTTP2(address)
	}
	return &http1{address: address, keep: kind == KeepAlive}
}

// http1 speaks HTTP/1.1 and never sends a request twice.
type http1 struct {
	address string
	keep    bool

	mu   sync.Mutex
	idle []*connection // those used last at the end
}

type connection struct {
	*net.TCPConn
	reader *bufio.Reader
}

func (c *http1) do(r request) (answer, error) {
	conn, err := c.take(r.deadline)
	if err != nil {
		return answer{}, err
	}
	got, reusable, err := conn.exchange(r, c.keep)
	if err == nil && reusable {
		c.mu.Lock()
		c.idle = append(c.idle, conn)
		c.mu.Unlock()
	} else {
		_ = conn.Close()
	}
	return got, err
}

// take is an idle connection, or else a new one. One that was closed while it was idle is
// none: any client notices that before it sends.
func (c *http1) take(deadline time.Time) (*connection, error) {
	for conn := c.pop(); conn != nil; conn = c.pop() {
		if conn.alive() {
			return conn, nil
		}
		_ = conn.Close()
	}
	dialer := net.Dialer{Deadline: deadline}
	conn, err := dialer.Dial("tcp", c.address)
	if err != nil {
		return nil, err
	}
	return &connection{conn.(*net.TCPConn), bufio.NewReader(conn)}, nil
}

func (c *http1) pop() *connection {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.idle) == 0 {
		return nil
	}
	conn := c.idle[len(c.idle)-1]
	c.idle = c.idle[:len(c.idle)-1]
	return conn
}

// alive tells, without waiting, whether nothing came while the connection was idle.
func (c *connection) alive() bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	alive := false
	_ = raw.Control(func(fd uintptr) {
		_, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
		alive = errors.Is(err, unix.EAGAIN)
	})
	return alive
}

func (c *connection) exchange(r request, keep bool) (got answer, reusable bool, err error) {
	_ = c.SetDeadline(r.deadline)
	head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\n%s: %s\r\n", r.method, r.path, r.host, numberHeader, r.number)
	if r.body > 0 {
		head += "Content-Length: " + strconv.Itoa(r.body) + "\r\n"
	}
	if !keep {
		head += "Connection: close\r\n"
	}
	// The answer may come before the body is sent, and tells more than the error of writing.
	wrote := make(chan error, 1)
	body := make([]byte, r.body)
	if r.body > 64<<10 {
		go func() { wrote <- c.send(head, body) }()
	} else {
		wrote <- c.send(head, body)
	}
	response, err := http.ReadResponse(c.reader, &http.Request{Method: r.method})
	if err != nil {
		return answer{}, false, err
	}
	got, err = read(response)
	if err != nil {
		return got, false, err
	}
	return got, keep && !response.Close && <-wrote == nil, nil
}

func (c *connection) send(head string, body []byte) error {
	_, err := c.Write(append([]byte(head+"\r\n"), body...))
	return err
}

func (c *http1) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.idle {
		_ = conn.Close()
	}
	c.idle = nil
}

func read(response *http.Response) (answer, error) {
	defer response.Body.Close()
	got := answer{status: response.StatusCode, pod: response.Header.Get(podHeader)}
	content, err := io.ReadAll(response.Body)
	got.size = len(content)
	if got.pod == "" {
		got.text = string(content[:min(len(content), 60)])
	}
	return got, err
}

// http2 speaks HTTP/2 in clear text, as it does over TLS.
type http2 struct {
	address string
	client  *http.Transport

	mu    sync.Mutex
	conns []net.Conn
}

func newHTTP2(address string) *http2 {
	c := &http2{address: address, client: &http.Transport{Protocols: new(http.Protocols)}}
	c.client.Protocols.SetUnencryptedHTTP2(true)
	c.client.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err == nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.conns = append(c.conns, conn)
		}
		return conn, err
	}
	return c
}

func (c *http2) do(r request) (answer, error) {
	ctx, cancel := context.WithDeadline(context.Background(), r.deadline)
	defer cancel()
	sent := 0
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent++ }})
	q, err := http.NewRequestWithContext(ctx, r.method, "http://"+c.address+r.path, nil)
	if err != nil {
		return answer{}, err
	}
	if r.body > 0 {
		q.Body = io.NopCloser(io.LimitReader(zeros{}, int64(r.body)))
		q.ContentLength = int64(r.body)
	}
	q.Host = r.host
	q.Header.Set(numberHeader, r.number)
	response, err := c.client.RoundTrip(q)
	if err != nil {
		return answer{twice: sent > 1}, err
	}
	got, err := read(response)
	got.twice = sent > 1
	return got, err
}

// close closes all connections. CloseIdleConnections leaves out those whose last stream has
// only just ended, and HAProxy would wait for them at its end.
func (c *http2) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		_ = conn.Close()
	}
}

// zeros is a stream of zeros without end.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}
