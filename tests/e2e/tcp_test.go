package e2e

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/tests/harness"
)

// tcpServices is the ConfigMap of TCP services. Entries come in pairs of port and text.
func tcpServices(entries ...string) string {
	text := "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: tcp, namespace: test}\ndata:\n  # entries\n"
	for i := 0; i+1 < len(entries); i += 2 {
		text += fmt.Sprintf("  %q: %q\n", entries[i], entries[i+1])
	}
	return text
}

// connections is an Ingress that is a TCP service; a host "" is a rule without one.
func connections(name, address, host, service string) string {
	return harness.Ingress(name, host, service, "tcp-service-port", portOf(address))
}

// withTLS ends TLS for the host of an Ingress, with a Secret of the Ingress' name.
func withTLS(ingress, name, host string) string {
	return ingress + fmt.Sprintf("  tls: [{hosts: [%q], secretName: %s}]\n", host, name)
}

func portOf(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }

// reached tells whether a connection to an address gets to the pod.
func reached(ask harness.Ask, pod string) func() error {
	return func() error {
		answer, err := ask.Do()
		if err != nil {
			return err
		}
		seen, err := answer.Read()
		if err == nil && seen.Pod != pod {
			err = fmt.Errorf("answered by %s, want %s", seen.Pod, pod)
		}
		return err
	}
}

// closed tells whether connections to an address get to nobody.
func closed(ask harness.Ask) func() error {
	return func() error {
		if answer, err := ask.Do(); err == nil {
			return fmt.Errorf("answered: %d %s", answer.Status, answer.Body)
		}
		return nil
	}
}

// A port of the ConfigMap comes and goes with a reload, its servers at run time.
func TestTCPServices(t *testing.T) {
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		one, two := harness.NewPod(t, "web-1"), harness.NewPod(t, "web-2")
		first, second := harness.FreeAddress(t), harness.FreeAddress(t)
		c := start(t, binary, map[string]string{
			"web.yaml": web(one), "tcp.yaml": tcpServices(portOf(first), "test/web:80", portOf(second), "test/later:80:PROXY"), "global.yaml": settings("bind-ip-addr-tcp", "127.0.0.1"),
		}, "--tcp-services-configmap", "test/tcp")
		late := harness.Ask{Address: second, Prelude: "PROXY TCP4 198.51.100.7 127.0.0.1 12345 80\r\n", Path: "/"}
		must(t, reached(harness.Ask{Address: first, Path: "/"}, "web-1"))
		must(t, closed(late))
		must(t, hasFinding(c, "ServiceMissing", "test/later"))
		reloads := c.Metric("sluice_reloads_total", "")

		change(t, c, map[string]string{"web.yaml": web(two), "later.yaml": harness.Service("later") + harness.Slice("later", one)})
		must(t, reached(harness.Ask{Address: first, Path: "/"}, "web-2"))
		must(t, reached(late, "web-1"))
		must(t, closed(harness.Ask{Address: second, Path: "/"}))
		if got := c.Metric("sluice_reloads_total", ""); got != reloads {
			t.Errorf("%v reloads for servers: %v", got-reloads, c.State().Reloads)
		}

		change(t, c, map[string]string{"tcp.yaml": tcpServices(portOf(second), "test/web:80")})
		must(t, reached(harness.Ask{Address: second, Path: "/"}, "web-2"))
		c.Eventually("the port is closed", func() error {
			if conn, err := net.Dial("tcp", first); err == nil {
				conn.Close()
				return errors.New("connected")
			}
			return nil
		})
		if got := c.Metric("sluice_reloads_total", ""); got != reloads+1 {
			t.Errorf("%v reloads for a port, want 1: %v", got-reloads, c.State().Reloads)
		}
		before := c.State().Wanted
		c.Remove("tcp.yaml")
		applied(t, c, before)
		must(t, closed(harness.Ask{Address: second, Path: "/"}))
	})
}

// tlsSerial is the serial number of the certificate that an address serves for a name.
func tlsSerial(address, name string) (int64, error) {
	conn, err := tls.Dial("tcp", address, &tls.Config{ServerName: name, InsecureSkipVerify: true})
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64(), nil
}

func servesSerial(address, name string, want int64) func() error {
	return func() error {
		got, err := tlsSerial(address, name)
		if err == nil && got != want {
			err = fmt.Errorf("%s: serial %d, want %d", name, got, want)
		}
		return err
	}
}

// Three hosts with certificates of their own on one port (C072); a renewed one needs no reload.
func TestTCPServicesEndTLS(t *testing.T) {
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		ca, address := harness.NewAuthority(t, "ca"), harness.FreeAddress(t)
		manifests := map[string]string{"web.yaml": web(harness.NewPod(t, "web")), "global.yaml": settings("bind-ip-addr-tcp", "127.0.0.1")}
		pairs := map[string]*harness.Pair{}
		for _, name := range []string{"a", "b", "c"} {
			pairs[name] = ca.Issue(t, name+".example")
			manifests[name+".yaml"] = harness.Service(name) + harness.Slice(name, harness.NewPod(t, name)) +
				withTLS(connections(name, address, name+".example", name), name, name+".example")
			manifests["secret-"+name+".yaml"] = pairs[name].TLSSecret(name)
		}
		c := start(t, binary, manifests)
		for name, pair := range pairs {
			must(t, servesSerial(address, name+".example", pair.Serial))
			must(t, reached(harness.Ask{Address: address, ServerName: name + ".example", Path: "/"}, name))
		}
		must(t, closed(harness.Ask{Address: address, ServerName: "other.example", Path: "/"}))
		reloads := c.Metric("sluice_reloads_total", "")
		renewed := ca.Issue(t, "b.example")
		change(t, c, map[string]string{"secret-b.yaml": renewed.TLSSecret("b")})
		must(t, servesSerial(address, "b.example", renewed.Serial))
		must(t, servesSerial(address, "a.example", pairs["a"].Serial))
		if got := c.Metric("sluice_reloads_total", ""); got != reloads {
			t.Errorf("%v reloads for a certificate: %v", got-reloads, c.State().Reloads)
		}

		// A rule without a host serves everybody else, with its own certificate.
		all := ca.Issue(t, "all.example")
		change(t, c, map[string]string{"all.yaml": all.TLSSecret("all") + withTLS(strings.Replace(connections("all", address, "all.example", "web"), "- host: \"all.example\"\n    http", "- http", 1), "all", "all.example")})
		must(t, servesSerial(address, "other.example", all.Serial))
		must(t, reached(harness.Ask{Address: address, ServerName: "other.example", Path: "/"}, "web"))
		must(t, reached(harness.Ask{Address: address, ServerName: "a.example", Path: "/"}, "a"))
	})
}

// Without a tls part the pod ends TLS, and is chosen by the name that the client asks for.
func TestTCPServicesByName(t *testing.T) {
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		address, manifests := harness.FreeAddress(t), map[string]string{"class.yaml": harness.Class, "global.yaml": settings("bind-ip-addr-tcp", "127.0.0.1")}
		for name, host := range map[string]string{"one": "one.db.example", "wild": "*.db.example", "plain": ""} {
			pod := harness.NewPodWith(t, name, harness.PodOptions{TLS: name != "plain"})
			manifests[name+".yaml"] = harness.Service(name) + harness.Slice(name, pod) + connections(name, address, host, name)
		}
		c := start(t, binary, manifests)
		must(t, reached(harness.Ask{Address: address, ServerName: "one.db.example", Path: "/"}, "one"))
		must(t, reached(harness.Ask{Address: address, ServerName: "ONE.db.example", Path: "/"}, "one"))
		must(t, reached(harness.Ask{Address: address, ServerName: "two.db.example", Path: "/"}, "wild"))
		must(t, reached(harness.Ask{Address: address, Path: "/"}, "plain"))
		change(t, c, map[string]string{"one.yaml": harness.Service("one")})
		must(t, reached(harness.Ask{Address: address, ServerName: "one.db.example", Path: "/"}, "wild"))
	})
}

// A port that somebody else holds costs only the object that asks for it.
func TestTCPServiceOnATakenPort(t *testing.T) {
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		other, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		free := harness.FreeAddress(t)
		bad := connections("bad", other.Addr().String(), "", "web")
		c := start(t, binary, map[string]string{
			"web.yaml": web(harness.NewPod(t, "web")) + harness.Ingress("web", "web.example", "web"), "global.yaml": settings("bind-ip-addr-tcp", "127.0.0.1"), "bad.yaml": bad,
		})
		answers(t, c, "web.example/", 200, "web")
		c.Eventually("the Ingress is in quarantine", quarantined(c, "Ingress/test/bad"))
		before := c.State().Wanted
		c.Remove("bad.yaml")
		applied(t, c, before)
		must(t, quarantined(c))
		change(t, c, map[string]string{"bad.yaml": bad})
		c.Eventually("the Ingress is in quarantine again", quarantined(c, "Ingress/test/bad"))
		change(t, c, map[string]string{"good.yaml": connections("good", free, "", "web")})
		must(t, reached(harness.Ask{Address: free, Path: "/"}, "web"))
	})
}
