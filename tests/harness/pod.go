package harness

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// Pod is a server that answers with what it received.
type Pod struct {
	*httptest.Server
	Name string
	hits atomic.Int64
}

// Seen is what a Pod received.
type Seen struct {
	Pod, Method, Path, Host, Proto string
	TLS                            bool
	ServerName                     string // of TLS
	Client                         string // common name of the client certificate
	Proxy                          string // version and source of the PROXY protocol's header; empty: there was none
	Body                           int64  // bytes
	Headers                        http.Header
}

// PodOptions are what a Pod does otherwise than usual.
type PodOptions struct {
	TLS         bool
	Certificate *Pair               // served with TLS; nil: that of net/http/httptest
	AskClient   bool                // ask for a client certificate, and take any
	NeedProxy   bool                // refuse connections without a header of the PROXY protocol
	Before      func(*http.Request) // called before the answer
	Status      func() int          // of each answer; nil: 200
}

// NewPod starts a pod on a loopback address.
func NewPod(t testing.TB, name string) *Pod { return NewPodWith(t, name, PodOptions{}) }

// NewTLSPod starts a pod that speaks TLS.
func NewTLSPod(t testing.TB, name string) *Pod { return NewPodWith(t, name, PodOptions{TLS: true}) }

// NewPodWith starts a pod. Any pod takes HTTP/1 and HTTP/2, and a header of the PROXY
// protocol where there is one.
func NewPodWith(t testing.TB, name string, o PodOptions) *Pod {
	t.Helper()
	p := &Pod{Name: name}
	p.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.hits.Add(1)
		if o.Before != nil {
			o.Before(r)
		}
		if o.Status != nil {
			w.WriteHeader(o.Status())
		}
		_ = json.NewEncoder(w).Encode(p.see(r))
	}))
	p.Config.Protocols = new(http.Protocols)
	p.Config.Protocols.SetHTTP1(true)
	p.Config.Protocols.SetUnencryptedHTTP2(true)
	p.Config.Protocols.SetHTTP2(true)
	p.Config.ConnContext = noteProxy
	p.Listener = proxyListener{p.Listener, o.NeedProxy}
	p.EnableHTTP2 = o.TLS
	if o.TLS {
		p.Server.TLS = o.tls(t)
		p.StartTLS()
	} else {
		p.Server.Start()
	}
	t.Cleanup(p.Close)
	return p
}

func (o PodOptions) tls(t testing.TB) *tls.Config {
	c := &tls.Config{}
	if o.Certificate != nil {
		c.Certificates = []tls.Certificate{o.Certificate.TLS(t)}
	}
	if o.AskClient {
		c.ClientAuth = tls.RequestClientCert
	}
	return c
}

func (p *Pod) see(r *http.Request) Seen {
	seen := Seen{Pod: p.Name, Method: r.Method, Path: r.RequestURI, Host: r.Host, Proto: r.Proto, TLS: r.TLS != nil, Headers: r.Header}
	seen.Proxy = proxyOf(r)
	seen.Body, _ = io.Copy(io.Discard, r.Body)
	if r.TLS != nil {
		seen.ServerName = r.TLS.ServerName
		for _, certificate := range r.TLS.PeerCertificates[:min(1, len(r.TLS.PeerCertificates))] {
			seen.Client = certificate.Subject.CommonName
		}
	}
	return seen
}

// Hits is the number of requests so far.
func (p *Pod) Hits() int64 { return p.hits.Load() }

// Port is the pod's port.
func (p *Pod) Port() string { return p.Listener.Addr().String()[len("127.0.0.1:"):] }

// Read decodes the answer of a Pod.
func (a Answer) Read() (Seen, error) {
	var seen Seen
	if err := json.Unmarshal([]byte(a.Body), &seen); err != nil {
		return Seen{}, fmt.Errorf("status %d, not the answer of a pod: %q", a.Status, a.Body)
	}
	return seen, nil
}

// Class is the IngressClass of the tests.
const Class = `apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: sluice, annotations: {ingressclass.kubernetes.io/is-default-class: "true"}}
spec: {controller: sluice-proxy.github.io/controller}
`

// Service is a Service in namespace "test" with one port, 80.
func Service(name string) string {
	return "---\napiVersion: v1\nkind: Service\nmetadata: {name: " + name + ", namespace: test}\nspec: {ports: [{port: 80}]}\n"
}

// Slice is the EndpointSlice of a Service. All pods have the same port: endpoints are
// loopback addresses, and each port has a slice of its own.
func Slice(service string, pods ...*Pod) string {
	var b strings.Builder
	for i, p := range pods {
		fmt.Fprintf(&b, "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: %s-%d, namespace: test, labels: {kubernetes.io/service-name: %s}}\n"+
			"addressType: IPv4\nports: [{port: %s}]\nendpoints: [{addresses: [127.0.0.1]}]\n", service, i, service, p.Port())
	}
	return b.String()
}

// Ingress routes the prefix / of a host to a Service. The annotations come in pairs of
// option name and value.
func Ingress(name, host, service string, annotations ...string) string {
	return IngressPath(name, host, "/", service, annotations...)
}

// IngressPath is like Ingress for any prefix.
func IngressPath(name, host, path, service string, annotations ...string) string {
	var b strings.Builder
	for i := 0; i+1 < len(annotations); i += 2 {
		fmt.Fprintf(&b, "    sluice-proxy.github.io/%s: %q\n", annotations[i], annotations[i+1])
	}
	notes := ""
	if b.Len() > 0 {
		notes = "  annotations:\n" + b.String()
	}
	return fmt.Sprintf("---\napiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata:\n  name: %s\n  namespace: test\n%sspec:\n  rules:\n  - host: %q\n    http:\n      paths:\n"+
		"      - {path: %q, pathType: Prefix, backend: {service: {name: %s, port: {number: 80}}}}\n", name, notes, host, path, service)
}
