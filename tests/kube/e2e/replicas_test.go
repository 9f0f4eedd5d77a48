package e2e_test

import (
	"errors"
	"fmt"
	"net/http"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluice-proxy/sluice/tests/kube"
)

// TestReplicas has two replicas: both serve, one writes, and either may go.
func TestReplicas(t *testing.T) {
	c := startCluster(t)
	installRights(t, c)
	apply(t, c, pod("apps", "web"))
	const published = "--publish-address=192.0.2.7"
	first := newController(t, c, "first", "10.200.4.1", published)
	second := newController(t, c, "second", "10.200.4.2", published)
	awaitEndpoints(t, c, "web", 1)
	first.startReady(t)
	kube.Eventually(t, "the first leads", func() error { return leads(t, first) })
	second.startReady(t)

	t.Run("an address means that traffic works", func(t *testing.T) {
		for i := range 3 {
			name := fmt.Sprintf("web-%d", i)
			apply(t, c, ingress(name, name+".test", "Prefix / web"))
			awaitAddress(t, c, name, "192.0.2.7")
			first.expect(t, "http://"+name+".test/", http.StatusOK, "web")
			second.await(t, "http://"+name+".test/", http.StatusOK, "web")
		}
		if leads(t, second) == nil {
			t.Error("both lead")
		}
	})
	t.Run("a replica that stops leaves statuses alone and hands over at once", func(t *testing.T) {
		before := version(t, c, "web-0")
		l := startLoad(t, func() error {
			a, err := ask(second.address, "http://web-0.test/")
			return check(a, err, http.StatusOK, "web")
		})
		first.signal(t, syscall.SIGTERM)
		kube.Eventually(t, "the second leads", func() error { return leads(t, second) })
		apply(t, c, ingress("next", "next.test", "Prefix / web"))
		awaitAddress(t, c, "next", "192.0.2.7")
		l.end(t)
		if now := version(t, c, "web-0"); now != before {
			t.Errorf("the Ingress changed from version %s to %s", before, now)
		}
	})
	t.Run("a killed leader is replaced when its lease ends, and its HAProxy goes on", func(t *testing.T) {
		first.startReady(t)
		before := version(t, c, "web-0")
		l := startLoad(t, func() error {
			for _, s := range []*controller{first, second} {
				a, err := ask(s.address, "http://web-0.test/")
				if err := check(a, err, http.StatusOK, "web"); err != nil {
					return err
				}
			}
			return nil
		})
		second.signal(t, syscall.SIGKILL)
		apply(t, c, ingress("orphan", "orphan.test", "Prefix / web"))
		first.await(t, "http://orphan.test/", http.StatusOK, "web") // a follower serves
		awaitAddress(t, c, "orphan", "192.0.2.7")
		l.end(t)
		if now := version(t, c, "web-0"); now != before {
			t.Errorf("the Ingress changed from version %s to %s", before, now)
		}
	})
	first.enoughRights(t)
}

// leads is nil if a replica writes statuses.
func leads(t *testing.T, s *controller) error {
	t.Helper()
	if s.metric(t, "sluice_leader") != 1 {
		return errors.New(s.name + " does not lead")
	}
	return nil
}

// version is the resource version of an Ingress.
func version(t *testing.T, c *kube.Cluster, name string) string {
	t.Helper()
	object, err := c.Client.NetworkingV1().Ingresses("default").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return object.ResourceVersion
}
