package e2e_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluice-proxy/sluice/tests/kube"
)

// TestTurns has objects that make no sense, and objects that change their nature, go and come
// back, beside an Ingress that is served all the time.
func TestTurns(t *testing.T) {
	c := startCluster(t)
	installRights(t, c)
	apply(t, c, pod("apps", "web", "other"), ingress("web", "web.test", "Prefix / web"))
	s := newController(t, c, "turns", "10.200.5.1", "--publish-address=10.200.5.1")
	awaitEndpoints(t, c, "web", 1)
	s.startReady(t)
	s.await(t, "http://web.test/", http.StatusOK, "web")
	l := startLoad(t, func() error {
		a, err := ask(s.address, "http://web.test/")
		return check(a, err, http.StatusOK, "web")
	})
	for _, scenario := range []struct {
		what string
		run  func(*testing.T, *kube.Cluster, *controller)
	}{
		{"what makes no sense is a finding", nonsense},
		{"a Secret goes, comes back and changes its type", secretTurns},
		{"a Service changes its type", serviceTurns},
		{"a namespace goes and comes back", namespaceTurns},
		{"a class goes and comes back", classTurns},
		{"the global ConfigMap goes, comes back and is all wrong", globalTurns},
		{"a right is taken away and given back", rightTurns},
	} {
		t.Run(scenario.what, func(t *testing.T) { scenario.run(t, c, s) })
	}
	l.end(t)
	t.Run("two installations leave each other alone", func(t *testing.T) { twoInstallations(t, c, s) })
}

// awaitFinding waits until something is found about an object, and in it a text.
func (s *controller) awaitFinding(t *testing.T, code, object, text string) {
	t.Helper()
	kube.Eventually(t, fmt.Sprintf("finding %s about %s", code, object), func() error {
		about := s.about(t, object)
		if slices.ContainsFunc(about, func(f finding) bool { return f.Code == code && strings.Contains(f.Message, text) }) {
			return nil
		}
		return fmt.Errorf("findings: %v", about)
	})
}

// about are the findings about an object, such as Ingress/web.
func (s *controller) about(t *testing.T, object string) []finding {
	t.Helper()
	return slices.DeleteFunc(s.findings(t), func(f finding) bool { return f.Object.Kind+"/"+f.Object.Name != object })
}

// awaitNothing waits until nothing is found about an object.
func (s *controller) awaitNothing(t *testing.T, object string) {
	t.Helper()
	kube.Eventually(t, "no finding about "+object, func() error {
		if about := s.about(t, object); len(about) > 0 {
			return fmt.Errorf("findings: %v", about)
		}
		return nil
	})
}

// nonsense: the API server takes all of this.
func nonsense(t *testing.T, c *kube.Cluster, s *controller) {
	path := func(kind, path string) string {
		return fmt.Sprintf(`{pathType: %s, path: %q, backend: {service: {name: web, port: {number: 8080}}}}`, kind, path)
	}
	rule := func(host, paths string) string {
		return fmt.Sprintf(`rules: [{host: %q, http: {paths: [%s]}}]`, host, paths)
	}
	service := func(name string) string {
		return rule(name+".test", fmt.Sprintf(`{pathType: Prefix, path: /, backend: {service: {name: %s, port: {number: 80}}}}`, name))
	}
	for _, test := range []struct{ name, spec, code, more string }{
		{"pathless", `rules: [{host: pathless.test}]`, "ObjectInvalid", ""},
		{"ruleless", `rules: [{}]`, "ObjectInvalid", ""},
		{"blank", rule("blank.test", path("Prefix", "/a b")), "PathInvalid", ""},
		{"newline", rule("newline.test", path("ImplementationSpecific", "/a\nb")), "PathInvalid", ""},
		{"long", rule("long.test", path("Exact", "/"+strings.Repeat("a", 100000))), "PathInvalid", ""},
		{"resource", rule("resource.test", `{pathType: Prefix, path: /, backend: {resource: {kind: Bucket, name: x}}}`), "ResourceBackend", ""},
		{"hostless", `tls: [{secretName: none}], rules: [{http: {paths: [` + path("Prefix", "/hostless") + `]}}]`, "ObjectInvalid", ""},
		{"orphan", service("orphan"), "ServiceMissing", `
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: orphan, labels: {kubernetes.io/service-name: orphan}},
 addressType: IPv4, endpoints: [{addresses: [10.244.9.9]}], ports: [{port: 80}]}`},
		{"portless", service("portless"), "ServicePortMissing", `{apiVersion: v1, kind: Service, metadata: {name: portless}, spec: {clusterIP: None, selector: {app: apps}}}`},
		{"datagrams", service("datagrams"), "ServicePortMissing", `{apiVersion: v1, kind: Service, metadata: {name: datagrams}, spec: {ports: [{port: 80, protocol: UDP}]}}`},
		{"empty", `tls: [{hosts: [empty.test], secretName: empty}], ` + rule("empty.test", path("Prefix", "/")), "SecretInvalid",
			`{apiVersion: v1, kind: Secret, metadata: {name: empty}, type: kubernetes.io/tls, stringData: {tls.crt: "", tls.key: ""}}`},
	} {
		apply(t, c, test.more, fmt.Sprintf(`{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: %s}, spec: {ingressClassName: sluice, %s}}`, test.name, test.spec))
		s.awaitFinding(t, test.code, "Ingress/"+test.name, "")
		kube.Eventually(t, "an Event about "+test.name, func() error { return hasEvent(t, c, "default", "Ingress/"+test.name, "") })
	}
	for _, test := range []struct{ name, code, kind, more string }{
		{"local", "EndpointInvalid", "Service", `{apiVersion: v1, kind: Service, metadata: {name: local}, spec: {type: ExternalName, externalName: 127.0.0.1, ports: [{port: 80}]}}`},
		{"numberless", "EndpointInvalid", "EndpointSlice", `
{apiVersion: v1, kind: Service, metadata: {name: numberless}, spec: {ports: [{port: 80}]}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: numberless, labels: {kubernetes.io/service-name: numberless}},
 addressType: IPv4, endpoints: [{addresses: [10.244.9.9]}], ports: [{name: ""}]}`},
	} {
		apply(t, c, test.more, fmt.Sprintf(`{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: %s}, spec: {ingressClassName: sluice, %s}}`, test.name, service(test.name)))
		s.awaitFinding(t, test.code, test.kind+"/"+test.name, "")
		s.await(t, "http://"+test.name+".test/", http.StatusServiceUnavailable, "")
	}
}

func secretTurns(t *testing.T, c *kube.Cluster, s *controller) {
	shows := func(subject string) {
		t.Helper()
		kube.Eventually(t, "clients see the certificate "+subject, func() error {
			a, err := ask(s.address, "https://secret.test/")
			if err == nil && a.subject != subject {
				err = fmt.Errorf("they see %q", a.subject)
			}
			return err
		})
	}
	remove := func() {
		t.Helper()
		if err := c.Client.CoreV1().Secrets("default").Delete(t.Context(), "turning", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	pair := tlsSecret(t, "turning", "secret.test", "the own one")
	apply(t, c, pair, `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: secret}
spec:
  ingressClassName: sluice
  tls: [{hosts: [secret.test], secretName: turning}]
  rules:
  - {host: secret.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 8080}}}}]}}`)
	shows("the own one")
	a, err := ask(s.address, "https://unknown.test/")
	if err == nil {
		t.Errorf("a handshake for an unknown name succeeds: %d", a.status)
	}
	s.noReload(t, func() {
		remove()
		s.awaitFinding(t, "SecretMissing", "Ingress/secret", "turning")
		apply(t, c, `{apiVersion: v1, kind: Secret, metadata: {name: turning}, type: kubernetes.io/basic-auth, stringData: {username: "joe", password: "secret"}}`)
		s.awaitFinding(t, "SecretInvalid", "Ingress/secret", "turning")
		s.expect(t, "https://secret.test/", http.StatusOK, "web")
		remove()
		apply(t, c, strings.Replace(pair, "type: kubernetes.io/tls", "type: Opaque", 1))
		shows("the own one")
		s.awaitNothing(t, "Ingress/secret")
	})
}

func serviceTurns(t *testing.T, c *kube.Cluster, s *controller) {
	services := c.Client.CoreV1().Services("default")
	apply(t, c, `{apiVersion: v1, kind: Service, metadata: {name: turning}, spec: {selector: {app: apps}, ports: [{name: web, port: 8080, targetPort: 3000}]}}`,
		strings.Replace(ingress("turning", "service.test", "Prefix / turning"), "number: 8080", "name: web", 1))
	s.await(t, "http://service.test/", http.StatusOK, "web")
	update := func(spec string) {
		t.Helper()
		if err := services.Delete(t.Context(), "turning", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		apply(t, c, "{apiVersion: v1, kind: Service, metadata: {name: turning}, spec: "+spec+"}")
	}
	endpoint := func(service string) string {
		t.Helper()
		ready, err := readyAddresses(t, c, "default", service)
		if err != nil || len(ready) == 0 {
			t.Fatalf("no endpoint of %s: %v", service, err)
		}
		return ready[0]
	}
	external := `{type: ExternalName, externalName: ` + endpoint("web") + `, ports: [{name: %s, port: 3001}]}`
	update(fmt.Sprintf(external, "unnamed"))
	s.awaitFinding(t, "ServicePortMissing", "Ingress/turning", "web")
	update(fmt.Sprintf(external, "web"))
	s.await(t, "http://service.test/", http.StatusOK, "other")
	update(`{clusterIP: None, selector: {app: apps}, ports: [{name: web, port: 8080, targetPort: 3000}]}`)
	s.await(t, "http://service.test/", http.StatusOK, "web")
	update(`{type: NodePort, selector: {app: apps}, ports: [{name: web, port: 8080, targetPort: 3001}]}`)
	s.await(t, "http://service.test/", http.StatusOK, "other")
	update(`{type: LoadBalancer, selector: {app: nobody}, ports: [{name: web, port: 8080, targetPort: 3001}]}`)
	s.await(t, "http://service.test/", http.StatusServiceUnavailable, "")
	s.awaitNothing(t, "Ingress/turning")
}

func namespaceTurns(t *testing.T, c *kube.Cluster, s *controller) {
	objects := inNamespace("fleeting", `{apiVersion: v1, kind: Service, metadata: {name: fleeting}, spec: {ports: [{port: 8080}]}}`, `
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: fleeting, labels: {kubernetes.io/service-name: fleeting}},
 addressType: IPv4, endpoints: [{addresses: [192.0.2.1]}], ports: [{port: 8080, name: ""}]}`,
		tlsSecret(t, "fleeting", "fleeting.test", "of a namespace"), `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: fleeting, annotations: {sluice-proxy.github.io/bogus: "1"}}
spec:
  ingressClassName: sluice
  tls: [{hosts: [fleeting.test], secretName: fleeting}]
  rules:
  - {host: fleeting.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: fleeting, port: {number: 8080}}}}]}}`)
	for range 2 {
		apply(t, c, `{apiVersion: v1, kind: Namespace, metadata: {name: fleeting}}`, objects)
		kube.Eventually(t, "the certificate is served", func() error {
			a, err := ask(s.address, "https://fleeting.test/")
			if a.subject != "of a namespace" {
				return fmt.Errorf("it is %q: %w", a.subject, err)
			}
			return nil
		})
		if err := c.Client.CoreV1().Namespaces().Delete(t.Context(), "fleeting", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		s.await(t, "http://fleeting.test/", http.StatusNotFound, "")
		s.awaitNothing(t, "Ingress/fleeting")
		kube.Eventually(t, "the namespace is gone", func() error {
			_, err := c.Client.CoreV1().Namespaces().Get(t.Context(), "fleeting", metav1.GetOptions{})
			if !apierrors.IsNotFound(err) {
				return fmt.Errorf("still there: %w", err)
			}
			return nil
		})
	}
	s.enoughRights(t)
}

func classTurns(t *testing.T, c *kube.Cluster, s *controller) {
	const class = "{apiVersion: networking.k8s.io/v1, kind: IngressClass, metadata: {name: turning}, spec: {controller: %s}}"
	ours := fmt.Sprintf(class, "sluice-proxy.github.io/controller")
	classes := c.Client.NetworkingV1().IngressClasses()
	remove := func() {
		t.Helper()
		if err := classes.Delete(t.Context(), "turning", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	apply(t, c, ours, strings.Replace(ingress("classy", "class.test", "Prefix / web"), "Name: sluice", "Name: turning", 1))
	awaitAddress(t, c, "classy", s.address)
	remove()
	s.await(t, "http://class.test/", http.StatusNotFound, "")
	s.awaitFinding(t, "ClassMissing", "Ingress/classy", "turning")
	apply(t, c, fmt.Sprintf(class, "example.com/other"))
	s.awaitNothing(t, "Ingress/classy")
	kube.Eventually(t, "its address is taken away", func() error {
		now, err := addresses(t, c, "classy")
		if err == nil && len(now) > 0 {
			err = fmt.Errorf("addresses: %v", now)
		}
		return err
	})
	for range 3 {
		remove()
		apply(t, c, ours)
		s.await(t, "http://class.test/", http.StatusOK, "web")
		remove()
		apply(t, c, fmt.Sprintf(class, "example.com/other"))
		s.await(t, "http://class.test/", http.StatusNotFound, "")
	}
	remove()
	apply(t, c, ours)
	s.await(t, "http://class.test/", http.StatusOK, "web")
	awaitAddress(t, c, "classy", s.address)
}

func globalTurns(t *testing.T, c *kube.Cluster, s *controller) {
	configMap := func(data string) string {
		return fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: sluice, namespace: %s}, data: {%s}, binaryData: {blob: AAAA}}`, ownNamespace, data)
	}
	wrong := map[string]string{
		"max-connections": "99999999999", "nbthread": "-5", "ssl-ciphers": `a b\nc`, "timeout-client": "forever", "syslog-endpoint": "nowhere:bad",
		"ssl-options": "bogus", "use-proxy-protocol": "maybe", "config-global": `daemon\nbogus`, "no-such.key": "",
	}
	var data []string
	for key, value := range wrong {
		data = append(data, fmt.Sprintf(`%q: "%s"`, key, value))
	}
	slices.Sort(data)
	apply(t, c, configMap(strings.Join(data, ", ")))
	for key := range wrong {
		kube.Eventually(t, "a finding about "+key, func() error {
			about := s.about(t, "ConfigMap/sluice")
			if !slices.ContainsFunc(about, func(f finding) bool { return strings.Contains(f.Message, key) }) {
				return fmt.Errorf("findings: %v", about)
			}
			return nil
		})
	}
	if err := c.Client.CoreV1().ConfigMaps(ownNamespace).Delete(t.Context(), "sluice", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.awaitFinding(t, "ConfigMapMissing", "ConfigMap/sluice", "global")
	apply(t, c, configMap(`response-set-headers: "X-Turn: back"`))
	kube.Eventually(t, "the settings are in force again", func() error {
		a, err := ask(s.address, "http://web.test/")
		if err == nil && a.header.Get("X-Turn") != "back" {
			err = errors.New("no header")
		}
		return err
	})
}

// rightTurns: a watch goes on when its right is taken away; when it breaks, what is known
// stays in force.
func rightTurns(t *testing.T, c *kube.Cluster, s *controller) {
	withoutRight(t, c, "networking.k8s.io", "ingresses", func() {
		if err := c.APIServer.Restart(); err != nil {
			t.Fatal(err)
		}
		kube.Eventually(t, "sluice says that a right is missing", func() error {
			_, body, err := s.admin("/api/v1/state")
			if err == nil && !strings.Contains(body, "sluice may not") {
				err = errors.New(body)
			}
			return err
		})
		s.expect(t, "http://web.test/", http.StatusOK, "web")
	})
	withoutRight(t, c, "networking.k8s.io", "ingresses/status", func() {
		apply(t, c, ingress("unwritten", "unwritten.test", "Prefix / web"))
		s.await(t, "http://unwritten.test/", http.StatusOK, "web")
		kube.Eventually(t, "sluice may not write the status", func() error {
			if !strings.Contains(s.log(t), "does not permit to write statuses") {
				return errors.New("the log does not say so")
			}
			return nil
		})
	})
	awaitAddress(t, c, "unwritten", s.address)
}

// twoInstallations serve a class each.
func twoInstallations(t *testing.T, c *kube.Cluster, s *controller) {
	apply(t, c, "{apiVersion: networking.k8s.io/v1, kind: IngressClass, metadata: {name: edge}, spec: {controller: sluice-proxy.github.io/controller/edge}}",
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: edge, namespace: sluice-system}, rules: [{apiGroups: [coordination.k8s.io], resources: [leases], verbs: [create, get, update]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: edge, namespace: sluice-system}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: edge}, subjects: [{kind: ServiceAccount, name: sluice, namespace: sluice-system}]}`,
		strings.Replace(ingress("edge", "edge.test", "Prefix / web"), "Name: sluice", "Name: edge", 1))
	edge := newController(t, c, "edge", "10.200.5.2", "--publish-address=10.200.5.2", "--ingress-class=edge", "--controller-class=edge")
	edge.startReady(t)
	awaitAddress(t, c, "edge", edge.address)
	edge.await(t, "http://edge.test/", http.StatusOK, "web")
	edge.expect(t, "http://web.test/", http.StatusNotFound, "")
	s.expect(t, "http://edge.test/", http.StatusNotFound, "")
	s.expect(t, "http://web.test/", http.StatusOK, "web")
	// It moves, and takes its traffic and its status along.
	apply(t, c, ingress("edge", "edge.test", "Prefix / web"))
	s.await(t, "http://edge.test/", http.StatusOK, "web")
	edge.await(t, "http://edge.test/", http.StatusNotFound, "")
	awaitAddress(t, c, "edge", s.address)
	awaitAddress(t, c, "web", s.address)
}
