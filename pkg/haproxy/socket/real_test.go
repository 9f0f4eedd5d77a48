package socket

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// haproxy is a real HAProxy in master-worker mode on a small tree.
type haproxy struct {
	dir    string
	run    *Runtime
	master *Master
}

// versions are the binaries that every test on a real HAProxy runs on.
func versions(t *testing.T, test func(t *testing.T, h *haproxy, version string)) {
	t.Helper()
	_, file, _, _ := runtime.Caller(0)
	root := filepath.Join(filepath.Dir(file), "..", "..", "..")
	for _, v := range []string{"3.2", "3.4"} {
		binary := os.Getenv("SLUICE_HAPROXY_" + v[:1] + v[2:])
		if binary == "" {
			binary = filepath.Join(root, ".tools", "bin", "haproxy-"+v)
		}
		t.Run(v, func(t *testing.T) { test(t, start(t, binary), v) })
	}
}

const config = `global
    stats socket DIR/stats.sock mode 600 level admin
    default-path parent
    hard-stop-after 5s
defaults base
    mode http
    timeout client 5s
    timeout server 5s
    timeout connect 1s
frontend http from base
    bind unix@DIR/http.sock
    http-request set-header x-generation %[str(generation),map(maps/sluice.map)]
    http-request set-header x-value %[path,map(maps/values.map)]
    http-request deny if { src -f lists/l.lst }
    use_backend %[req.hdr(host),map_beg(maps/routes.map)]
frontend https from base
    bind unix@DIR/https.sock ssl crt-list crt-lists/https.list strict-sni
defaults web from base
    balance roundrobin
defaults stream
    mode tcp
    timeout server 5s
    timeout connect 1s
defaults fixed from base
    balance source
defaults paused from base
    http-request wait-for-body time 10s at-least 1
backend b from web
    server 10.0.0.1:80 10.0.0.1:80 weight 1
`

func start(t *testing.T, binary string) *haproxy {
	t.Helper()
	h := &haproxy{dir: folder(t)}
	h.write(t, "conf.d/00-all.cfg", strings.ReplaceAll(config, "DIR", h.dir))
	h.write(t, "maps/sluice.map", "generation 1\n")
	h.write(t, "maps/values.map", "")
	h.write(t, "maps/routes.map", "")
	h.write(t, "lists/l.lst", "")
	h.write(t, "crt-lists/https.list", "certs/own.pem\n")
	h.write(t, "certs/own.pem", certificate(t, "own.example", nil).PEM.Reveal())

	cmd := exec.Command(binary, "-W", "-S", filepath.Join(h.dir, "master.sock")+",mode,600", "-f", "conf.d")
	cmd.Dir = h.dir
	log, err := os.Create(filepath.Join(h.dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatalf("haproxy can't be started (make tools, or set SLUICE_HAPROXY_32 and SLUICE_HAPROXY_34): %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("haproxy said: %s", text)
		}
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	h.run = NewRuntime(filepath.Join(h.dir, "stats.sock"), Options{})
	h.master = NewMaster(filepath.Join(h.dir, "master.sock"))
	eventually(t, "haproxy answers", func() bool {
		_, err := h.run.PID(t.Context())
		return err == nil
	})
	return h
}

func (h *haproxy) write(t *testing.T, path, content string) {
	t.Helper()
	path = filepath.Join(h.dir, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// session is an open connection to the worker.
func (h *haproxy) session(t *testing.T) *session {
	t.Helper()
	s, err := h.run.open(deadline(t, 20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s
}

// handshake returns the common name of the certificate that is served for a name; empty
// if the handshake is refused.
func (h *haproxy) handshake(t *testing.T, name string) string {
	t.Helper()
	d := tls.Dialer{Config: &tls.Config{ServerName: name, InsecureSkipVerify: true}}
	conn, err := d.DialContext(deadline(t, 5*time.Second), "unix", filepath.Join(h.dir, "https.sock"))
	if err != nil {
		return ""
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Subject.CommonName
}

// certificate is a self-signed certificate; padding makes it larger by that many further
// certificates behind it.
func certificate(t *testing.T, name string, padding []string) *model.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var text []byte
	for i, cn := range append([]string{name}, padding...) {
		template := &x509.Certificate{
			SerialNumber: big.NewInt(int64(i + 1)), Subject: pkix.Name{CommonName: cn},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		}
		der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})...)
	return &model.Certificate{Name: model.DigestOf(text).String() + ".pem", PEM: model.NewSecret(text)}
}

// eventually polls until the condition holds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second); ; {
		if condition() {
			cancel()
			return
		}
		select {
		case <-ctx.Done():
			cancel()
			t.Fatalf("it never happened that %s", what)
		case <-tick.C:
		}
	}
}

// backend is a listener on loopback that answers "ok" to each connection when told to.
type backend struct {
	addr    string
	release chan struct{}
}

func newBackend(t *testing.T) *backend {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &backend{addr: l.Addr().String(), release: make(chan struct{})}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				buf := make([]byte, 4096)
				if _, err := conn.Read(buf); err != nil {
					return
				}
				<-b.release
				body := "ok"
				_, _ = conn.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body))
				_, _ = conn.Read(buf) // keeps the connection open for reuse
			}()
		}
	}()
	return b
}
