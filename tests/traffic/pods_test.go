package traffic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const podPort = "8080"

// Headers of requests and answers.
const (
	numberHeader = "X-Number" // of the request, within the book
	podHeader    = "X-Pod"    // who answered
)

// Book is what pods know of requests: how often each arrived, and whether its answer began.
type Book struct {
	mu      sync.Mutex
	next    int
	arrived map[string]int
	began   map[string]bool
}

// NewBook is an empty one.
func NewBook() *Book { return &Book{arrived: map[string]int{}, began: map[string]bool{}} }

func (b *Book) number() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next++
	return strconv.Itoa(b.next)
}

func (b *Book) note(number string, began bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if began {
		b.began[number] = true
	} else {
		b.arrived[number]++
	}
}

func (b *Book) begun(number string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.began[number]
}

// Twice is the number of POST requests that arrived more than once.
func (b *Book) Twice() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, times := range b.arrived {
		if times > 1 {
			n++
		}
	}
	return n
}

// Pod is a server at an address of its own.
type Pod struct {
	Name, IP string
	Book     *Book
	// Before is called when the head of a request was read, and before its body is.
	Before func(*http.Request)

	t        testing.TB
	server   *http.Server
	listener net.Listener
	slams    atomic.Bool // closes accepted connections without a word
	vanished atomic.Bool
}

// NewPod starts a pod.
func NewPod(t testing.TB, book *Book) *Pod {
	t.Helper()
	p := &Pod{IP: newAddress(), Book: book, t: t}
	p.Name = "pod-" + strings.ReplaceAll(p.IP, ".", "-")
	p.Listen()
	t.Cleanup(func() { p.Exit(); p.Return() })
	return p
}

// NewPods starts some pods.
func NewPods(t testing.TB, book *Book, n int) []*Pod {
	t.Helper()
	pods := make([]*Pod, n)
	for i := range pods {
		pods[i] = NewPod(t, book)
	}
	return pods
}

// Listen opens the pod's address, anew after an Exit.
func (p *Pod) Listen() {
	p.t.Helper()
	err := inPods(func() (err error) {
		p.listener, err = net.Listen("tcp", net.JoinHostPort(p.IP, podPort))
		return err
	})
	if err != nil {
		p.t.Fatalf("pod %s: %v", p.Name, err)
	}
	p.server = &http.Server{Handler: http.HandlerFunc(p.answer)}
	server, listener := p.server, p.listener
	go func() {
		if err := server.Serve(slammer{listener, &p.slams}); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			p.t.Errorf("pod %s: %v", p.Name, err)
		}
	}()
}

// slammer closes connections as it accepts them, as a proxy in a pod does whose
// application is gone.
type slammer struct {
	net.Listener
	slams *atomic.Bool
}

func (s slammer) Accept() (net.Conn, error) {
	for {
		conn, err := s.Listener.Accept()
		if err != nil || !s.slams.Load() {
			return conn, err
		}
		_ = conn.Close()
	}
}

// answer sends as many bytes as the path says.
func (p *Pod) answer(w http.ResponseWriter, r *http.Request) {
	number := r.Header.Get(numberHeader)
	if r.Method == http.MethodPost {
		p.Book.note(number, false)
	}
	if p.Before != nil {
		p.Before(r)
	}
	if r.Header.Get("Upgrade") != "" {
		p.echo(w)
		return
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	size, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
	p.Book.note(number, true)
	w.Header().Set(podHeader, p.Name)
	w.Header().Set("Content-Length", strconv.Itoa(size))
	_, _ = w.Write(make([]byte, size))
}

// echo is the other end of a WebSocket, as far as HAProxy can tell: bytes come back.
func (p *Pod) echo(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		p.t.Errorf("pod %s: %v", p.Name, err)
		return
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"); err == nil {
		_, _ = io.Copy(conn, conn)
	}
}

// Vanish drops all packets from and to the pod from now on.
func (p *Pod) Vanish() {
	p.t.Helper()
	if err := p.rule("add"); err != nil {
		p.t.Fatal(err)
	}
	p.vanished.Store(true)
}

// Return ends what Vanish began.
func (p *Pod) Return() {
	if !p.vanished.Swap(false) {
		return
	}
	if err := p.rule("del"); err != nil {
		p.t.Error(err)
	}
}

func (p *Pod) rule(verb string) error {
	return inPods(func() error {
		return ip("rule "+verb+" pref 10 to "+p.IP+" blackhole", "rule "+verb+" pref 10 from "+p.IP+" blackhole")
	})
}

// StopListening is what well-behaved servers do on SIGTERM: no new connections, and those
// that are there are served on.
func (p *Pod) StopListening() { _ = p.listener.Close() }

// Finish ends the pod when all requests that it has are answered.
func (p *Pod) Finish() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = p.server.Shutdown(ctx)
}

// Exit ends the pod at once, with everything that it is doing.
func (p *Pod) Exit() { _ = p.server.Close() }

// Slice is an EndpointSlice of a Service.
type Slice struct {
	Service string
	Ready   []*Pod
	Leaving []*Pod // terminating, but serving
}

// String is the slice as YAML.
func (s Slice) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: %s-0, namespace: test, labels: {kubernetes.io/service-name: %s}}\n"+
		"addressType: IPv4\nports: [{port: %s}]\nendpoints:", s.Service, s.Service, podPort)
	if len(s.Ready)+len(s.Leaving) == 0 {
		b.WriteString(" []")
	}
	b.WriteString("\n")
	for _, p := range s.Ready {
		fmt.Fprintf(&b, "- {addresses: [%s]}\n", p.IP)
	}
	for _, p := range s.Leaving {
		fmt.Fprintf(&b, "- {addresses: [%s], conditions: {ready: false, serving: true, terminating: true}}\n", p.IP)
	}
	return b.String()
}
