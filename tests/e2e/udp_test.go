package e2e

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/tests/harness"
)

// udpPod answers datagrams with its name and is an endpoint of a Service.
type udpPod struct{ conn *net.UDPConn }

func newUDPPod(t *testing.T, name string) udpPod {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	go func() {
		buffer := make([]byte, 1000)
		for {
			_, from, err := conn.ReadFromUDPAddrPort(buffer)
			if err != nil {
				return
			}
			if _, err := conn.WriteToUDPAddrPort([]byte(name), from); err != nil {
				return
			}
		}
	}()
	return udpPod{conn}
}

// udpService is a Service with one pod.
func udpService(name string, pod udpPod) string {
	return fmt.Sprintf(`---
apiVersion: v1
kind: Service
metadata: {name: %[1]s, namespace: test}
spec: {ports: [{port: 53, protocol: UDP}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[1]s-1, namespace: test, labels: {kubernetes.io/service-name: %[1]s}}
addressType: IPv4
ports: [{port: %[2]d, protocol: UDP}]
endpoints: [{addresses: [127.0.0.1]}]
`, name, pod.conn.LocalAddr().(*net.UDPAddr).Port)
}

func udpRoute(refs string) string {
	return `---
apiVersion: gateway.networking.k8s.io/v1
kind: UDPRoute
metadata: {name: dns, namespace: test}
spec: {parentRefs: [{name: gw, sectionName: dns}], rules: [{backendRefs: [` + refs + `]}]}
`
}

// freeUDP is a port of this machine that nobody has, with its socket.
func freeUDP(t *testing.T) *net.UDPConn {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// udpClient asks with one socket.
type udpClient struct{ net.Conn }

func newUDPClient(t *testing.T, address string) udpClient {
	conn, err := net.Dial("udp4", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return udpClient{conn}
}

// wants is nil where the answer is that of a pod.
func (c udpClient) wants(pod string) error {
	if _, err := c.Write([]byte("who")); err != nil {
		return err
	}
	if err := c.SetReadDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
		return err
	}
	buffer := make([]byte, 1000)
	n, err := c.Read(buffer)
	if err == nil && string(buffer[:n]) != pod {
		err = fmt.Errorf("answered by %s, want %s", buffer[:n], pod)
	}
	return err
}

// says waits until status.yaml holds a text.
func says(t *testing.T, c *harness.Controller, text string) {
	t.Helper()
	c.Eventually("status.yaml says "+text, func() error {
		all, err := os.ReadFile(filepath.Join(c.StateDir, "status.yaml"))
		if err == nil && !strings.Contains(string(all), text) {
			err = fmt.Errorf("it says\n%s", all)
		}
		return err
	})
}

func TestUDPRoutes(t *testing.T) {
	t.Parallel()
	socket := freeUDP(t)
	address := socket.LocalAddr().String()
	port := socket.LocalAddr().(*net.UDPAddr).Port
	one, two := newUDPPod(t, "one"), newUDPPod(t, "two")
	// The port is taken at first.
	c := start(t, harness.Binary(t, harness.Versions[0]), map[string]string{
		"services.yaml": udpService("dns", one),
		"gateway.yaml":  gatewayOf("{name: dns, protocol: UDP, port: " + strconv.Itoa(port) + "}"),
		"route.yaml":    udpRoute("{name: dns, port: 53}"),
	}, "--gateway-addresses", "127.0.0.1")
	says(t, c, "address already in use")
	says(t, c, "reason: PortUnavailable")
	socket.Close()
	says(t, c, "message: the listener is served")
	client := newUDPClient(t, address)
	c.Eventually("the pod answers", func() error { return client.wants("one") })

	reloads := c.Metric("sluice_reloads_total", "")
	change(t, c, map[string]string{"services.yaml": udpService("dns", two)})
	c.Eventually("the session moves to the new pod", func() error { return client.wants("two") })
	if moved := c.Metric("sluice_udp_sessions_ended_total", `reason="moved"`); moved != 1 {
		t.Errorf("%v sessions moved, want 1", moved)
	}
	change(t, c, map[string]string{"route.yaml": udpRoute("{name: late, port: 53}")})
	c.Eventually("datagrams are dropped", func() error {
		if err := client.wants(""); err == nil || c.Metric("sluice_udp_dropped_total", `reason="unserved"`) == 0 {
			return fmt.Errorf("they are not")
		}
		return nil
	})
	change(t, c, map[string]string{"late.yaml": udpService("late", one)})
	c.Eventually("the Service that came late is served", func() error { return client.wants("one") })
	if now := c.Metric("sluice_reloads_total", ""); now != reloads {
		t.Errorf("%v reloads of HAProxy for what it has no part in", now-reloads)
	}

	c.Stop()
	again, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		t.Fatalf("the port is not free after the end: %v", err)
	}
	again.Close()
}
