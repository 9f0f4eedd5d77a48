package e2e_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluice-proxy/sluice/tests/kube"
)

// TestRights takes rights away and gives them back, and runs with Roles in few namespaces.
func TestRights(t *testing.T) {
	c := startCluster(t)
	installRights(t, c)
	apply(t, c, pod("apps", "web"), ingress("web", "web.test", "Prefix / web"))
	t.Run("a right that is missing is named, and its return noticed", func(t *testing.T) { missingRight(t, c) })
	t.Run("Secrets that can't be read cost certificates only", func(t *testing.T) { missingSecrets(t, c) })
	t.Run("Roles in the served namespaces suffice", func(t *testing.T) { rolesOnly(t, c) })
}

// withoutRight takes a resource out of the ClusterRole while something is done.
func withoutRight(t *testing.T, c *kube.Cluster, group, resource string, do func()) {
	t.Helper()
	roles := c.Client.RbacV1().ClusterRoles()
	role, err := roles.Get(t.Context(), ownNamespace+"-sluice", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	rules := role.Rules
	set := func(rules []rbacv1.PolicyRule) {
		t.Helper()
		role.Rules = rules
		if role, err = roles.Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	var less []rbacv1.PolicyRule
	for i := range rules {
		rule := *rules[i].DeepCopy()
		rule.Resources = slices.DeleteFunc(rule.Resources, func(r string) bool { return r == resource })
		if len(rule.Resources) > 0 {
			less = append(less, rule)
		}
	}
	set(less)
	verb := "list"
	if strings.Contains(resource, "/") {
		verb = "patch"
	}
	// The API server's authoriser follows the roles with a delay.
	kube.Eventually(t, "the right is gone", func() error {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               "system:serviceaccount:" + ownNamespace + ":sluice",
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: group, Resource: resource},
		}}
		answer, err := c.Client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
		if err == nil && answer.Status.Allowed {
			err = errors.New("it is still there")
		}
		return err
	})
	do()
	set(rules)
}

func missingRight(t *testing.T, c *kube.Cluster) {
	s := newController(t, c, "unready", "10.200.2.1", "--publish-address=10.200.2.1")
	withoutRight(t, c, "discovery.k8s.io", "endpointslices", func() {
		s.start(t)
		kube.Eventually(t, "sluice is not ready and names the right", func() error {
			status, body, err := s.admin("/readyz")
			if err == nil && (status != http.StatusServiceUnavailable || !strings.Contains(body, "list") || !strings.Contains(body, "endpointslices")) {
				err = fmt.Errorf("status %d: %s", status, body)
			}
			return err
		})
		if status, err := health(s); err == nil && status == http.StatusOK {
			t.Error("HAProxy says that it is ready")
		}
	})
	kube.Eventually(t, "sluice is ready", s.ready)
	s.await(t, "http://web.test/", http.StatusOK, "web")
	s.signal(t, syscall.SIGTERM)
}

// health is the status that HAProxy itself answers to a readiness probe.
func health(s *controller) (int, error) {
	a, err := ask(s.address, "http://health.test:10253/readyz")
	return a.status, err
}

func missingSecrets(t *testing.T, c *kube.Cluster) {
	s := newController(t, c, "secretless", "10.200.2.2", "--publish-address=10.200.2.2")
	apply(t, c, tlsSecret(t, "own", "tls.test", "the own one"), `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: tls}
spec:
  ingressClassName: sluice
  tls: [{hosts: [tls.test], secretName: own}]
  rules:
  - {host: tls.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 8080}}}}]}}
`)
	withoutRight(t, c, "", "secrets", func() {
		s.startReady(t)
		s.await(t, "http://web.test/", http.StatusOK, "web")
		s.await(t, "https://tls.test/", http.StatusOK, "web")
		if !slices.ContainsFunc(s.findings(t), func(f finding) bool { return f.Code == "AccessDenied" && strings.Contains(f.Message, "secrets") }) {
			t.Errorf("no finding names the right: %v", s.findings(t))
		}
	})
	kube.Eventually(t, "the certificate is served", func() error {
		a, err := ask(s.address, "https://tls.test/")
		if err == nil && a.subject != "the own one" {
			err = fmt.Errorf("it is %q", a.subject)
		}
		return err
	})
	s.signal(t, syscall.SIGTERM)
}

func rolesOnly(t *testing.T, c *kube.Cluster) {
	// The other file's ClusterRole would hide what the Roles lack.
	err := c.Client.RbacV1().ClusterRoleBindings().Delete(t.Context(), ownNamespace+"-sluice", metav1.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, namespace := range []string{"shop", "blog", "certs", "pages"} {
		apply(t, c, fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", namespace))
	}
	apply(t, c, installed(t, "tests/deploy/testdata/watch-namespaces/golden.yaml", "Deployment"))
	for _, namespace := range []string{"shop", "blog"} {
		apply(t, c, inNamespace(namespace, pod("apps", "web"), ingress("web", namespace+".test", "Prefix / web")))
	}
	s := newController(t, c, "roles", "10.200.2.3", "--publish-service="+ownNamespace+"/sluice", "--watch-namespace=shop", "--watch-namespace=blog",
		"--default-ssl-certificate=certs/wildcard", "--default-backend-service=pages/fallback")
	s.startReady(t)
	balanced(t, c, `{"hostname": "lb.test"}`)
	for _, namespace := range []string{"shop", "blog"} {
		s.await(t, "http://"+namespace+".test/", http.StatusOK, "web")
		kube.Eventually(t, "the Ingress of "+namespace+" has an address", func() error {
			one, err := c.Client.NetworkingV1().Ingresses(namespace).Get(t.Context(), "web", metav1.GetOptions{})
			if now := one.Status.LoadBalancer.Ingress; err == nil && (len(now) != 1 || now[0].Hostname != "lb.test") {
				err = fmt.Errorf("it has %v", now)
			}
			return err
		})
	}
	// The default backend, which does not exist: nobody serves what is elsewhere.
	s.expect(t, "http://web.test/", http.StatusServiceUnavailable, "")
	kube.Eventually(t, "an Event about what a flag names elsewhere", func() error { return hasEvent(t, c, "certs", "Secret/wildcard", "") })
	s.enoughRights(t)
}

// inNamespace puts objects without a namespace into one.
func inNamespace(namespace string, objects ...string) string {
	return strings.ReplaceAll(strings.Join(objects, "\n---\n"), "metadata: {name: ", "metadata: {namespace: "+namespace+", name: ")
}
