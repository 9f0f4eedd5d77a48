package socket

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/plan"
)

// onDynamic is versions with those that can add backends only.
func onDynamic(t *testing.T, test func(t *testing.T, h *haproxy)) {
	t.Helper()
	seen := 0
	versions(t, func(t *testing.T, h *haproxy, version string) {
		can, err := h.run.Probe(deadline(t, 10*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		if can.Backends {
			seen++
			test(t, h)
		}
	})
	if seen == 0 {
		t.Error("no version can add backends")
	}
}

func newBackendOf(name, profile string, servers ...model.Server) plan.AddBackend {
	return plan.AddBackend{Backend: (&model.Backend{Name: name, Profile: &model.Profile{Name: profile}, Servers: servers}).Seal()}
}

// names are the backends, and the servers of one of them.
func (h *haproxy) names(t *testing.T, backend string) (backends, servers []string) {
	t.Helper()
	backends, err := h.run.Backends(deadline(t, 5*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if slices.Contains(backends, backend) {
		list, err := h.run.Servers(deadline(t, 5*time.Second), backend)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range list {
			servers = append(servers, fmt.Sprintf("%s %v %d", s.Name, s.Ready, s.Weight))
		}
	}
	slices.Sort(servers)
	return backends, servers
}

func TestBackendsComeAndGo(t *testing.T) {
	onDynamic(t, func(t *testing.T, h *haproxy) {
		one, two, three := server("10.0.0.1:80", model.Ready, 1), server("10.0.0.2:80", model.Drain, 5), server("10.0.0.3:80", model.Maint, 3)
		value := "n_n_80"
		route := plan.EditMap{Map: "routes", Edits: []model.Edit{{Key: "n", Value: &value}}}
		stream := newBackendOf("n_t_80", "stream")
		stream.Backend.Profile.Shape.TCP = true
		h.must(t, newBackendOf("n_n_80", "web", one, two), newBackendOf("n_m_80", "web"), stream, route)
		backends, servers := h.names(t, "n_n_80")
		if diff := cmp.Diff([]string{"b", "n_n_80", "n_m_80", "n_t_80"}, backends); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"10.0.0.1:80 true 1", "10.0.0.2:80 true 0"}, servers); diff != "" {
			t.Error(diff)
		}
		// It comes again in another form, and a server more in the same row of commands.
		two.State = model.Ready
		h.must(t, newBackendOf("n_n_80", "web", two, three), plan.AddServer{Backend: "n_n_80", Server: one})
		_, servers = h.names(t, "n_n_80")
		if diff := cmp.Diff([]string{"10.0.0.1:80 true 1", "10.0.0.2:80 true 5", "10.0.0.3:80 false 3"}, servers); diff != "" {
			t.Error(diff)
		}
		del := []plan.Command{plan.DelBackend{Backend: "n_t_80"}, plan.DelBackend{Backend: "n_n_80"}, plan.DelBackend{Backend: "n_m_80"}, plan.DelBackend{Backend: "b"}}
		h.must(t, del...)
		h.must(t, del...)
		if backends, _ := h.names(t, ""); len(backends) != 0 {
			t.Errorf("%v are left", backends)
		}
	})
}

// What stands behind a backend that can't be added is not sent: a route might lead there.
func TestNothingFollowsABackendThatCanNotBeAdded(t *testing.T) {
	onDynamic(t, func(t *testing.T, h *haproxy) {
		value := "n_n_80"
		results, err := h.run.Run(deadline(t, 5*time.Second), []plan.Command{
			newBackendOf("n_m_80", "web"), newBackendOf("n_n_80", "nope", server("10.0.0.1:80", model.Ready, 1)),
			plan.EditMap{Map: "routes", Edits: []model.Edit{{Key: "n", Value: &value}}}, plan.DelBackend{Backend: "b"},
		})
		if err != nil {
			t.Fatal(err)
		}
		var unexpected *UnexpectedAnswer
		if results[0].Err != nil || !errors.As(results[1].Err, &unexpected) {
			t.Errorf("errors %v, %v", results[0].Err, results[1].Err)
		}
		for _, r := range results[2:] {
			var notSent *NotSent
			if !errors.As(r.Err, &notSent) || notSent.Backend != "n_n_80" {
				t.Errorf("%s: %v", r.Command.Verb(), r.Err)
			}
		}
		if n, err := h.run.MapCount(deadline(t, 5*time.Second), "routes"); err != nil || n != 0 {
			t.Errorf("%d routes, %v", n, err)
		}
		if backends, _ := h.names(t, ""); !slices.Contains(backends, "b") {
			t.Errorf("backends %v", backends)
		}
	})
}

// A backend with a stream waits, and the stream goes on, whether it is at a server yet or not.
func TestBackendWithStream(t *testing.T) {
	for name, profile := range map[string]string{"at a server": "web", "before a server is chosen": "paused"} {
		t.Run(name, func(t *testing.T) {
			onDynamic(t, func(t *testing.T, h *haproxy) {
				pod := newBackend(t)
				value, add := "n_n_80", newBackendOf("n_n_80", profile, server(pod.addr, model.Ready, 1))
				h.must(t, add, plan.EditMap{Map: "routes", Edits: []model.Edit{{Key: "n", Value: &value}}})
				conn, err := net.Dial("unix", filepath.Join(h.dir, "http.sock"))
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				if _, err := conn.Write([]byte("POST / HTTP/1.1\r\nHost: n\r\nContent-Length: 1\r\n\r\n")); err != nil {
					t.Fatal(err)
				}
				streams := func() int {
					text, err := h.run.query(deadline(t, 5*time.Second), "show stat n_n_80 2 -1")
					n, _ := streamsOf(text)
					if err != nil {
						t.Fatal(err)
					}
					return n
				}
				eventually(t, "the stream is there", func() bool { return streams() == 1 })
				var pending *Pending
				del := plan.DelBackend{Backend: "n_n_80"}
				results, err := h.run.Run(deadline(t, 5*time.Second), []plan.Command{del})
				if err != nil || !errors.As(results[0].Err, &pending) {
					t.Fatalf("errors %v, %v", err, results[0].Err)
				}
				// It comes back with another server, and goes again. The stream finishes all the same.
				other := newBackendOf("n_n_80", profile, server("10.0.0.7:80", model.Ready, 1))
				if profile == "paused" {
					other = add
				}
				for _, command := range []plan.Command{other, del} {
					results, err = h.run.Run(deadline(t, 5*time.Second), []plan.Command{command})
					if r := results[0]; err != nil || r.Err != nil && !errors.As(r.Err, &pending) {
						t.Errorf("errors %v, %v", err, r.Err)
					}
				}
				s := h.session(t)
				if answers, err := s.ask(request{line: "set server n_n_80/" + pod.addr + " state ready"}, request{line: "del backend n_n_80"}); err != nil ||
					meaningOf("del backend", answers[1]) != busy {
					t.Errorf("answers %q, %v", answers, err)
				}
				close(pod.release)
				if _, err := conn.Write([]byte("x")); err != nil {
					t.Fatal(err)
				}
				buf := make([]byte, 100)
				if n, err := conn.Read(buf); err != nil || !strings.Contains(string(buf[:n]), "200 OK") {
					t.Errorf("the request in flight got %q, %v", buf[:n], err)
				}
				conn.Close()
				eventually(t, "the backend is gone", func() bool {
					results, err := h.run.Run(deadline(t, 5*time.Second), []plan.Command{del})
					return err == nil && results[0].Err == nil
				})
				if backends, _ := h.names(t, ""); slices.Contains(backends, "n_n_80") {
					t.Errorf("backends %v", backends)
				}
			})
		})
	}
}

// A CA and a client certificate are loaded before the backend whose servers name them.
func TestCAFile(t *testing.T) {
	versions(t, func(t *testing.T, h *haproxy, version string) {
		ca, other := certificate(t, "ca", nil), certificate(t, "other", nil)
		for _, c := range []*model.Certificate{ca, other} {
			text := c.PEM.Reveal()
			c.PEM = model.NewSecret([]byte(text[:strings.Index(text, "-----BEGIN PRIVATE")]))
		}
		// A controller that was killed between set and commit left this one behind.
		if _, err := h.session(t).ask(
			request{line: "new ssl ca-file certs/" + ca.Name},
			request{line: "set ssl ca-file certs/" + ca.Name, payload: ca.PEM.Reveal()},
		); err != nil {
			t.Fatal(err)
		}
		secure := model.ServerOptions{SSL: true, Verify: true, CAFile: ca.Name}
		h.must(t, plan.AddCAFile{Certificate: other}, plan.AddCAFile{Certificate: ca}, plan.AddCAFile{Certificate: other},
			plan.AddServer{Backend: "b", Server: server("10.0.0.4:443", model.Ready, 1), Options: secure})
		junk := &model.Certificate{Name: "junk.pem", PEM: model.NewSecret([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))}
		results, err := h.run.Run(deadline(t, 5*time.Second), []plan.Command{plan.AddCAFile{Certificate: junk}})
		var unexpected *UnexpectedAnswer
		if err != nil || !errors.As(results[0].Err, &unexpected) {
			t.Errorf("errors %v, %v", err, results[0].Err)
		}
		if text, err := h.run.query(deadline(t, 5*time.Second), "show ssl ca-file"); err != nil || strings.Contains(text, "junk.pem") {
			t.Errorf("CA files %q, %v", text, err)
		}
	})
}
