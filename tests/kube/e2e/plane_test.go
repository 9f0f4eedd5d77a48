package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluice-proxy/sluice/tests/kube"
)

// TestInterruptions ends parts of the control plane, and sluice itself, while clients
// send requests, none of which may fail.
func TestInterruptions(t *testing.T) {
	c := startCluster(t)
	installRights(t, c)
	apply(t, c, pods("web", 2), ingress("web", "web.test", "Prefix / web"))
	s := newController(t, c, "interrupted", "10.200.3.1", "--publish-address=10.200.3.1")
	s.startReady(t)
	awaitEndpoints(t, c, "web", 2)
	s.await(t, "http://web.test/", http.StatusOK, "")

	for _, scenario := range []struct {
		what string
		run  func(*testing.T, *kube.Cluster, *controller)
	}{
		{"the API server is killed", apiServerKilled},
		{"the API server hangs", apiServerHangs},
		{"what happened during an outage is compacted", compacted},
		{"sluice is killed and started again", controllerKilled},
	} {
		t.Run(scenario.what, func(t *testing.T) {
			l := startLoad(t, func() error {
				a, err := ask(s.address, "http://web.test/")
				return check(a, err, http.StatusOK, "")
			})
			scenario.run(t, c, s)
			l.end(t)
		})
	}
	t.Run("sluice is stopped and finishes what it has begun", func(t *testing.T) { stopped(t, s) })
	t.Run("sluice starts before the API server", func(t *testing.T) { noAPIServer(t, c) })
}

func apiServerKilled(t *testing.T, c *kube.Cluster, s *controller) {
	s.noReload(t, func() {
		c.APIServer.Kill()
		kube.Eventually(t, "sluice says that it is cut off", func() error { return troubled(s) })
		if err := s.ready(); err != nil {
			t.Errorf("what it knew last is in force, but it is not ready: %v", err)
		}
		if err := c.APIServer.Start(); err != nil {
			t.Fatal(err)
		}
		apply(t, c, ingress("after", "after.test", "Prefix / web"))
		s.await(t, "http://after.test/", http.StatusOK, "")
		awaitAddress(t, c, "after", s.address)
	})
}

// troubled is nil if sluice says that it can't reach the API server.
func troubled(s *controller) error {
	_, body, err := s.admin("/api/v1/state")
	if err == nil && !strings.Contains(body, "the API server can't be reached") {
		err = fmt.Errorf("state: %s", body)
	}
	return err
}

func apiServerHangs(t *testing.T, c *kube.Cluster, s *controller) {
	s.noReload(t, func() {
		if err := c.APIServer.Freeze(); err != nil {
			t.Fatal(err)
		}
		// So many requests are sent while nothing answers.
		for range 20 {
			s.expect(t, "http://web.test/", http.StatusOK, "")
		}
		if err := c.APIServer.Thaw(); err != nil {
			t.Fatal(err)
		}
		apply(t, c, ingress("thawed", "thawed.test", "Prefix / web"))
		s.await(t, "http://thawed.test/", http.StatusOK, "")
	})
}

// compacted: sluice stands still while its watches break, things happen, and the past is
// forgotten. Its watches are answered 410 Gone then.
func compacted(t *testing.T, c *kube.Cluster, s *controller) {
	apply(t, c, ingress("doomed", "doomed.test", "Prefix / web"))
	s.await(t, "http://doomed.test/", http.StatusOK, "")
	// An answer of HAProxy that comes while sluice stands still is late, and then a reload.
	kube.Eventually(t, "nothing is under way", func() error {
		if wanted, applied := s.metric(t, "sluice_generation_wanted"), s.metric(t, "sluice_generation_applied"); wanted != applied {
			return fmt.Errorf("generation %v is wanted, %v applied", wanted, applied)
		}
		return nil
	})
	s.noReload(t, func() {
		if err := s.command.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		c.APIServer.Kill()
		if err := c.APIServer.Start(); err != nil {
			t.Fatal(err)
		}
		if err := c.Client.NetworkingV1().Ingresses("default").Delete(t.Context(), "doomed", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		apply(t, c, ingress("missed", "missed.test", "Prefix / web"))
		if err := c.Compact(); err != nil {
			t.Fatal(err)
		}
		s.expect(t, "http://doomed.test/", http.StatusOK, "")
		if err := s.command.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		s.await(t, "http://missed.test/", http.StatusOK, "")
		s.await(t, "http://doomed.test/", http.StatusNotFound, "")
		apply(t, c, ingress("later", "later.test", "Prefix / web"))
		s.await(t, "http://later.test/", http.StatusOK, "")
	})
}

// controllerKilled: HAProxy outlives sluice, and the next sluice takes it over as it is.
func controllerKilled(t *testing.T, c *kube.Cluster, s *controller) {
	master := s.haproxyPID()
	s.signal(t, syscall.SIGKILL)
	apply(t, c, ingress("meanwhile", "meanwhile.test", "Prefix / web"))
	s.startReady(t)
	s.await(t, "http://meanwhile.test/", http.StatusOK, "")
	if now := s.haproxyPID(); now != master || master == 0 {
		t.Errorf("HAProxy has pid %d, it had %d", now, master)
	}
	if reloads := s.metric(t, "sluice_reloads_total"); reloads != 0 {
		t.Errorf("%v reloads: %v", reloads, s.state(t).Reloads)
	}
}

// stopped: a request in flight is answered before HAProxy goes.
func stopped(t *testing.T, s *controller) {
	type result struct {
		answer answer
		err    error
	}
	slow := make(chan result)
	go func() {
		a, err := ask(s.address, "http://web.test/?delay=3s")
		slow <- result{a, err}
	}()
	kube.Eventually(t, "the request is in flight", func() error { return inFlight(s) })
	s.signal(t, syscall.SIGTERM)
	r := <-slow
	if err := check(r.answer, r.err, http.StatusOK, ""); err != nil {
		t.Errorf("the request that was in flight: %v", err)
	}
	if a, err := ask(s.address, "http://web.test/"); err == nil {
		t.Errorf("HAProxy is still there: status %d", a.status)
	}
	s.startReady(t)
	s.await(t, "http://web.test/", http.StatusOK, "")
	s.signal(t, syscall.SIGTERM)
}

// inFlight is nil if a server of HAProxy has a request now.
func inFlight(s *controller) error {
	text, err := s.runtime("show servers conn")
	if err != nil {
		return err
	}
	for line := range strings.Lines(text) {
		// bkname/svname bkid/svid addr port - purge_delay used_cur ...
		if f := strings.Fields(line); len(f) > 6 && strings.HasPrefix(f[0], "default_web_") && f[6] != "0" {
			return nil
		}
	}
	return fmt.Errorf("%s", text)
}

func noAPIServer(t *testing.T, c *kube.Cluster) {
	s := newController(t, c, "early", "10.200.3.2", "--publish-address=10.200.3.2")
	c.APIServer.Kill()
	s.start(t)
	kube.Eventually(t, "sluice is not ready and says why", func() error {
		status, body, err := s.admin("/readyz")
		if err == nil && (status != http.StatusServiceUnavailable || !strings.Contains(body, "the API server can't be reached")) {
			err = fmt.Errorf("status %d: %s", status, body)
		}
		return err
	})
	if err := c.APIServer.Start(); err != nil {
		t.Fatal(err)
	}
	kube.Eventually(t, "sluice is ready", s.ready)
	s.await(t, "http://web.test/", http.StatusOK, "")
}
