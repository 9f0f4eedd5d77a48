package traffic

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/tests/harness"
)

// Point 5: HAProxy reloads while routes, backends and certificates change.
func TestReloads(t *testing.T) {
	w := newWorld(t, "3.4", nil)
	pods := NewPods(t, w.book, 3)
	w.put("web.yaml", route("web"))
	w.serve("web", pods...)
	var running []*Running
	for _, kind := range Kinds {
		running = append(running, w.load(kind, "web.test", 80).Start(t))
	}
	tunnels := make([]*tunnel, 10)
	for i := range tunnels {
		tunnels[i] = openTunnel(t, w.HTTP, "web.test")
	}
	reloads := size(4, 50)
	stop, changes := make(chan struct{}), make(chan int, 1)
	halt := sync.OnceFunc(func() { close(stop) })
	defer halt()
	go func() { changes <- w.changeAll(pods[0], stop) }()
	most := 0
	for i := range reloads {
		before := w.reloads()
		w.Write("global.yaml", global(fmt.Sprintf("%ds", 20+i%2)))
		w.reloaded(before)
		most = max(most, residentMB())
		for _, tunnel := range tunnels {
			tunnel.ask(t)
		}
	}
	halt()
	n := <-changes
	for _, r := range running {
		none(t, string(r.Load.Kind), r.Stop())
	}
	t.Logf("%d reloads, %d rounds of changes, at most %d MB in all of HAProxy's processes", reloads, n, most)
	for i := range n {
		host := fmt.Sprintf("new%d.test", i)
		w.Eventually(host+" is served with its certificate", func() error {
			answer, state, err := w.GetTLS(host, "/1")
			if err == nil && (answer.Status != http.StatusOK || state.PeerCertificates[0].VerifyHostname(host) != nil) {
				err = fmt.Errorf("status %d, certificate of %v", answer.Status, state.PeerCertificates[0].DNSNames)
			}
			return err
		})
	}
}

// reloaded waits for the end of another reload. It may take long: changes go on, and each of
// them costs the processors something.
func (w *world) reloaded(before int) {
	w.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); w.reloads() == before; <-tick.C {
		if time.Now().After(deadline) {
			w.t.Fatal("no reload within a minute")
		}
	}
}

// changeAll adds a map entry, a backend and a certificate, again and again.
func (w *world) changeAll(pod *Pod, stop chan struct{}) int {
	tick := time.NewTicker(time.Duration(size(200, 5)) * time.Millisecond)
	defer tick.Stop()
	authority := harness.NewAuthority(w.t, "traffic")
	for n := 0; ; n++ {
		service := fmt.Sprintf("new%d", n)
		w.Write(service+".yaml", harness.Service(service)+Slice{Service: service, Ready: []*Pod{pod}}.String()+
			authority.Issue(w.t, service+".test").TLSSecret(service)+strings.Replace(harness.Ingress(service, service+".test", service),
			"spec:\n", "spec:\n  tls: [{hosts: ["+service+".test], secretName: "+service+"}]\n", 1))
		select {
		case <-stop:
			return n + 1
		case <-tick.C:
		}
	}
}

// residentMB is the memory of all processes of HAProxy. There are no others here than those
// of this test.
func residentMB() int {
	pages := 0
	stats, _ := filepath.Glob("/proc/[0-9]*/statm")
	for _, name := range stats {
		comm, err := os.ReadFile(filepath.Join(filepath.Dir(name), "comm"))
		if err != nil || !strings.HasPrefix(string(comm), "haproxy") {
			continue
		}
		var total, resident int
		if text, err := os.ReadFile(name); err == nil {
			_, _ = fmt.Sscan(string(text), &total, &resident)
		}
		pages += resident
	}
	return pages * os.Getpagesize() >> 20
}

// tunnel is a WebSocket, as far as HAProxy can tell.
type tunnel struct{ net.Conn }

func openTunnel(t *testing.T, address, host string) *tunnel {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", host)
	head := make([]byte, 0, 512)
	for !bytes.HasSuffix(head, []byte("\r\n\r\n")) {
		b := make([]byte, 1)
		if _, err := conn.Read(b); err != nil {
			t.Fatalf("opening a WebSocket: %v: %s", err, head)
		}
		head = append(head, b...)
	}
	if !strings.HasPrefix(string(head), "HTTP/1.1 101 ") {
		t.Fatalf("opening a WebSocket: %s", head)
	}
	return &tunnel{conn}
}

// ask sends some bytes, which must come back.
func (c *tunnel) ask(t *testing.T) {
	t.Helper()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	got := make([]byte, 4)
	if _, err := io.WriteString(c, "ping"); err != nil {
		t.Errorf("WebSocket: %v", err)
	} else if _, err := io.ReadFull(c, got); err != nil || string(got) != "ping" {
		t.Errorf("WebSocket: %q, %v", got, err)
	}
}
