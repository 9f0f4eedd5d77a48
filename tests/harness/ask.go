package harness

import (
	"crypto/tls"
	"io"
	"net"
	"strconv"
	"time"
)

// Ask is a request with everything that Request leaves at its usual value.
type Ask struct {
	Address    string
	Source     string // address of the client; empty: 127.0.0.1
	Prelude    string // sent before anything else, such as a header of the PROXY protocol
	ServerName string // of TLS; empty: no TLS; an address: TLS without a name
	Shown      *Pair  // certificate that the server is shown if it asks; nil: none
	Method     string // empty: GET
	Host, Path string // the path goes out byte for byte
	Headers    []string
	Body       string
}

// Do sends the request over a connection of its own.
func (a Ask) Do() (Answer, error) {
	conn, err := a.dial()
	if err != nil {
		return Answer{}, err
	}
	defer conn.Close()
	method, headers := a.Method, a.Headers
	if method == "" {
		method = "GET"
	}
	if a.Body != "" {
		headers = append([]string{"Content-Length", strconv.Itoa(len(a.Body))}, headers...)
	}
	return exchange(withBody{conn, a.Body}, method, a.Host, a.Path, headers)
}

func (a Ask) dial() (net.Conn, error) {
	dialer := net.Dialer{Timeout: 5 * time.Second}
	if a.Source != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(a.Source)}
	}
	conn, err := dialer.Dial("tcp", a.Address)
	if err != nil {
		return nil, err
	}
	if _, err := io.WriteString(conn, a.Prelude); err != nil {
		conn.Close()
		return nil, err
	}
	if a.ServerName == "" {
		return conn, nil
	}
	config := &tls.Config{ServerName: a.ServerName, InsecureSkipVerify: true}
	if a.Shown != nil {
		shown, err := tls.X509KeyPair([]byte(a.Shown.Certificate), []byte(a.Shown.Key))
		if err != nil {
			conn.Close()
			return nil, err
		}
		// Shown whoever the server says that it trusts, as a client does that tries.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &shown, nil }
	}
	secure := tls.Client(conn, config)
	_ = secure.SetDeadline(time.Now().Add(10 * time.Second))
	if err := secure.Handshake(); err != nil {
		conn.Close()
		return nil, err
	}
	return secure, nil
}

// withBody sends the body with the head.
type withBody struct {
	net.Conn
	body string
}

func (c withBody) Write(b []byte) (int, error) {
	_, err := c.Conn.Write(append(b[:len(b):len(b)], c.body...))
	return len(b), err
}
