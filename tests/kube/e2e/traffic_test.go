package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sluice-proxy/sluice/tests/kube"
)

const tcpPort = 9000

// TestTraffic goes through what Ingresses, Services, Secrets and ConfigMaps ask for, with one
// controller that is never restarted.
func TestTraffic(t *testing.T) {
	c := startCluster(t)
	installRights(t, c)
	apply(t, c, pod("apps", "exact", "prefix", "aaa", "aaa-bbb", "slash", "fallback"), pods("many", 1), globalConfig("X-Stage: one", ""))
	s := newController(t, c, "traffic", "10.200.1.1", "--publish-address=10.200.1.1", "--tcp-services-configmap="+ownNamespace+"/tcp")
	s.startReady(t)

	for _, scenario := range []struct {
		what string
		run  func(*testing.T, *kube.Cluster, *controller)
	}{
		{"paths", paths},
		{"hosts", hosts},
		{"the default backend", defaultBackend},
		{"a class is served or left alone", classes},
		{"load is shared among the pods of a scaled Deployment", scaling},
		{"certificates come and change without a reload", certificates},
		{"a Service may come and go", missingService},
		{"the global ConfigMap is followed", global},
		{"TCP services follow their ConfigMap", tcpServices},
		{"objects of others cost nothing", foreignObjects},
	} {
		t.Run(scenario.what, func(t *testing.T) { scenario.run(t, c, s) })
	}
	s.enoughRights(t)
}

func paths(t *testing.T, c *kube.Cluster, s *controller) {
	apply(t, c,
		ingress("exact", "exact.test", "Exact /foo exact"),
		ingress("prefix", "prefix.test", "Prefix /foo prefix", "Prefix /aaa aaa", "Prefix /aaa/bbb aaa-bbb"),
		ingress("mixed", "mixed.test", "Prefix /foo prefix", "Exact /foo exact"),
		ingress("slash", "slash.test", "Prefix /aaa/bbb/ slash", "Exact /foo/ exact"),
		ingress("root", "root.test", "Prefix / prefix", "Exact / exact"),
	)
	for _, host := range []string{"exact.test/foo", "prefix.test/foo", "mixed.test/foo", "slash.test/aaa/bbb", "root.test/"} {
		s.await(t, "http://"+host, http.StatusOK, "")
	}
	for _, test := range []struct{ url, service string }{
		{"exact.test/foo", "exact"},
		{"exact.test/foo?query=1", "exact"},
		{"exact.test/foo/", ""},
		{"exact.test/FOO", ""},
		{"exact.test/bar", ""},
		{"prefix.test/foo", "prefix"},
		{"prefix.test/foo/", "prefix"},
		{"prefix.test/foo/bar", "prefix"},
		{"prefix.test/FOO", ""},
		{"prefix.test/foobar", ""},
		{"prefix.test/aaa", "aaa"},
		{"prefix.test/aaa/ccc", "aaa"},
		{"prefix.test/aaa/bbb", "aaa-bbb"},
		{"prefix.test/aaa/bbb/", "aaa-bbb"},
		{"prefix.test/aaa/bbb/ccc", "aaa-bbb"},
		{"prefix.test/aaa/bbbccc", "aaa"},
		{"prefix.test/aaaccc", ""},
		{"prefix.test/", ""},
		{"mixed.test/foo", "exact"},
		{"mixed.test/foo/", "prefix"},
		{"slash.test/aaa/bbb", "slash"},
		{"slash.test/aaa/bbb/", "slash"},
		{"slash.test/aaa/bbb/ccc", "slash"},
		{"slash.test/foo/", "exact"},
		{"slash.test/foo", ""},
		{"root.test/", "exact"},
		{"root.test/any/thing", "prefix"},
	} {
		status := http.StatusOK
		if test.service == "" {
			status = http.StatusNotFound
		}
		s.expect(t, "http://"+test.url, status, test.service)
	}
}

func hosts(t *testing.T, c *kube.Cluster, s *controller) {
	apply(t, c, tlsSecret(t, "host", "foo.bar.test", "of the host"), `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: hosts}
spec:
  ingressClassName: sluice
  tls: [{hosts: [foo.bar.test], secretName: host}]
  rules:
  - {host: "*.foo.test", http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: prefix, port: {number: 8080}}}}]}}
  - {host: foo.bar.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: exact, port: {name: web}}}}]}}
`)
	awaitAddress(t, c, "hosts", s.address)
	s.expect(t, "https://foo.bar.test/", http.StatusOK, "exact")
	if a, err := ask(s.address, "https://foo.bar.test/"); err != nil || a.subject != "of the host" {
		t.Errorf("certificate %q: %v", a.subject, err)
	}
	if a, err := ask(s.address, "http://foo.bar.test/x"); err != nil || a.header.Get("Location") != "https://foo.bar.test/x" {
		t.Errorf("a host with a certificate is redirected to %q with status %d: %v", a.header.Get("Location"), a.status, err)
	}
	s.expect(t, "http://bar.foo.test/", http.StatusOK, "prefix")
	s.expect(t, "http://BAR.Foo.test/", http.StatusOK, "prefix")
	for _, host := range []string{"baz.bar.foo.test", "foo.test", "unknown.test"} {
		s.expect(t, "http://"+host+"/", http.StatusNotFound, "")
	}
}

func defaultBackend(t *testing.T, c *kube.Cluster, s *controller) {
	apply(t, c, `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: fallback}
spec: {ingressClassName: sluice, defaultBackend: {service: {name: fallback, port: {name: web}}}}
`)
	s.await(t, "http://unknown.test/", http.StatusOK, "fallback")
	for _, method := range []string{"GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"} {
		a, err := send(s.address, method, "http://unknown.test/some/path")
		if err != nil || a.status != http.StatusOK {
			t.Errorf("%s: status %d: %v", method, a.status, err)
			continue
		}
		for _, name := range []string{"Content-Length", "Content-Type", "Date"} {
			if a.header.Get(name) == "" {
				t.Errorf("%s: no header %s", method, name)
			}
		}
	}
	s.expect(t, "http://exact.test/foo", http.StatusOK, "exact")
	if err := c.Client.NetworkingV1().Ingresses("default").Delete(t.Context(), "fallback", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.await(t, "http://unknown.test/", http.StatusNotFound, "")
}

func classes(t *testing.T, c *kube.Cluster, s *controller) {
	apply(t, c, "{apiVersion: networking.k8s.io/v1, kind: IngressClass, metadata: {name: other}, spec: {controller: example.com/other}}",
		strings.Replace(ingress("other", "other.test", "Prefix / prefix"), "ingressClassName: sluice", "ingressClassName: other", 1),
		strings.Replace(ingress("none", "none.test", "Prefix / prefix"), "ingressClassName: sluice", "ingressClassName: missing", 1),
		ingress("ours", "ours.test", "Prefix / prefix"))
	awaitAddress(t, c, "ours", s.address)
	s.expect(t, "http://ours.test/", http.StatusOK, "prefix")
	for _, name := range []string{"other", "none"} {
		if now, err := addresses(t, c, name); err != nil || len(now) > 0 {
			t.Errorf("Ingress %s, which is not ours, has addresses %v: %v", name, now, err)
		}
		s.expect(t, "http://"+name+".test/", http.StatusNotFound, "")
	}
	apply(t, c, ingress("other", "other.test", "Prefix / prefix"))
	awaitAddress(t, c, "other", s.address)
	s.expect(t, "http://other.test/", http.StatusOK, "prefix")
}

func scaling(t *testing.T, c *kube.Cluster, s *controller) {
	apply(t, c, ingress("many", "many.test", "Prefix / many"))
	s.await(t, "http://many.test/", http.StatusOK, "")
	s.noReload(t, func() {
		for _, n := range []int32{5, 2} {
			scale(t, c, "many", n)
			awaitEndpoints(t, c, "many", int(n))
			kube.Eventually(t, fmt.Sprintf("%d pods answer", n), func() error { return sharedAmong(s, 100, int(n)) })
		}
	})
}

// sharedAmong asks so often and says whether that many pods answered, all about equally.
func sharedAmong(s *controller, requests, pods int) error {
	answers := map[string]int{}
	for range requests {
		a, err := ask(s.address, "http://many.test/")
		if err := check(a, err, http.StatusOK, ""); err != nil {
			return err
		}
		answers[a.service]++
	}
	for pod, n := range answers {
		if n < requests/pods/2 {
			return fmt.Errorf("%s got %d of %d requests", pod, n, requests)
		}
	}
	if len(answers) != pods {
		return fmt.Errorf("answers of %d pods: %v", len(answers), answers)
	}
	return nil
}

func scale(t *testing.T, c *kube.Cluster, name string, replicas int32) {
	t.Helper()
	patch := fmt.Sprintf(`{"spec": {"replicas": %d}}`, replicas)
	if _, err := c.Client.AppsV1().Deployments("default").Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// awaitEndpoints waits until a Service has n ready endpoints.
func awaitEndpoints(t *testing.T, c *kube.Cluster, service string, n int) {
	t.Helper()
	kube.Eventually(t, fmt.Sprintf("%d endpoints of %s", n, service), func() error {
		ready, err := readyAddresses(t, c, "default", service)
		if err == nil && len(ready) != n {
			err = fmt.Errorf("%d are ready", len(ready))
		}
		return err
	})
}

func readyAddresses(t *testing.T, c *kube.Cluster, namespace, service string) ([]string, error) {
	list, err := c.Client.DiscoveryV1().EndpointSlices(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service})
	if err != nil {
		return nil, err
	}
	var ready []string
	for _, slice := range list.Items {
		for _, endpoint := range slice.Endpoints {
			if endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready {
				ready = append(ready, endpoint.Addresses[0])
			}
		}
	}
	return ready, nil
}

func certificates(t *testing.T, c *kube.Cluster, s *controller) {
	apply(t, c, `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: late}
spec:
  ingressClassName: sluice
  tls: [{hosts: [late.test], secretName: late}]
  rules:
  - {host: late.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: exact, port: {number: 8080}}}}]}}
`)
	s.await(t, "https://late.test/", http.StatusOK, "exact")
	shows := func(subject string) {
		t.Helper()
		kube.Eventually(t, "a client sees the certificate "+subject, func() error {
			a, err := ask(s.address, "https://late.test/")
			if err == nil && a.subject != subject {
				err = fmt.Errorf("it sees %q", a.subject)
			}
			return err
		})
	}
	s.noReload(t, func() {
		for _, subject := range []string{"the first", "the second"} {
			apply(t, c, tlsSecret(t, "late", "late.test", subject))
			shows(subject)
		}
	})
	s.expect(t, "https://late.test/", http.StatusOK, "exact")
}

func missingService(t *testing.T, c *kube.Cluster, s *controller) {
	services := c.Client.CoreV1().Services("default")
	service := `{apiVersion: v1, kind: Service, metadata: {name: guest}, spec: {selector: {app: apps}, ports: [{port: 8080, targetPort: 3000}]}}`
	apply(t, c, ingress("guest", "guest.test", "Prefix / guest"))
	s.await(t, "http://guest.test/", http.StatusServiceUnavailable, "")
	for range 2 {
		apply(t, c, service)
		s.await(t, "http://guest.test/", http.StatusOK, "exact") // the name at that port
		if err := services.Delete(t.Context(), "guest", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		s.await(t, "http://guest.test/", http.StatusServiceUnavailable, "")
	}
}

// globalConfig is sluice's ConfigMap with a header for all responses, and perhaps more keys.
func globalConfig(header, more string) string {
	return fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: sluice, namespace: %s}, data: {response-set-headers: "%s" %s}}`, ownNamespace, header, more)
}

func global(t *testing.T, c *kube.Cluster, s *controller) {
	stage := func(want string) {
		t.Helper()
		kube.Eventually(t, "responses say "+want, func() error {
			a, err := ask(s.address, "http://exact.test/foo")
			if err := check(a, err, http.StatusOK, "exact"); err != nil {
				return err
			}
			if now := a.header.Get("X-Stage"); now != want {
				return fmt.Errorf("they say %q", now)
			}
			return nil
		})
	}
	stage("one")
	// docs/options.md has it as a change at run time.
	s.noReload(t, func() {
		apply(t, c, globalConfig("X-Stage: two", ""))
		stage("two")
	})
	apply(t, c, globalConfig("X-Stage: three", ", timeout-server: soon"))
	stage("three")
	kube.Eventually(t, "a finding and an Event about the bad value", func() error {
		found := false
		for _, f := range s.findings(t) {
			found = found || f.Object.Kind == "ConfigMap" && strings.Contains(f.Message, "timeout-server")
		}
		if !found {
			return fmt.Errorf("no finding: %v", s.findings(t))
		}
		return hasEvent(t, c, ownNamespace, "ConfigMap/sluice", "timeout-server")
	})
	apply(t, c, globalConfig("X-Stage: three", ""))
	kube.Eventually(t, "the finding is gone", func() error {
		for _, f := range s.findings(t) {
			if f.Object.Kind == "ConfigMap" && f.Object.Name == "sluice" {
				return fmt.Errorf("%v", f)
			}
		}
		return nil
	})
}

// hasEvent is nil if there is an Event about an object with a text in its message.
func hasEvent(t *testing.T, c *kube.Cluster, namespace, object, text string) error {
	events, err := c.Client.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	var others []string
	for i := range events.Items {
		e := &events.Items[i]
		if e.InvolvedObject.Kind+"/"+e.InvolvedObject.Name == object {
			if strings.Contains(e.Message, text) && e.Type == corev1.EventTypeWarning {
				return nil
			}
			others = append(others, e.Message)
		}
	}
	return fmt.Errorf("no Event about %s in namespace %s says %q: %q", object, namespace, text, others)
}

func tcpServices(t *testing.T, c *kube.Cluster, s *controller) {
	configMap := func(data string) string {
		return fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: tcp, namespace: %s}, data: {%s}}`, ownNamespace, data)
	}
	url := fmt.Sprintf("http://any.test:%d/", tcpPort)
	if _, err := ask(s.address, url); err == nil {
		t.Error("the port is open before somebody asks for it")
	}
	for _, service := range []string{"exact", "prefix"} {
		apply(t, c, configMap(fmt.Sprintf(`"%d": "default/%s:8080"`, tcpPort, service)))
		s.await(t, url, http.StatusOK, service)
	}
	apply(t, c, configMap(""))
	kube.Eventually(t, "the port is closed", func() error {
		if a, err := ask(s.address, url); err == nil {
			return fmt.Errorf("status %d", a.status)
		}
		return nil
	})
}

// foreignObjects: only an Ingress of ours with its Service, made after all the others, is
// converted. It shows that the others were seen, since the events of a kind come in order.
func foreignObjects(t *testing.T, c *kube.Cluster, s *controller) {
	const (
		count = 500
		ours  = 10 // conversions at most: the route, its address, the backend, its endpoints
	)
	ingresses, services := c.Client.NetworkingV1().Ingresses("default"), c.Client.CoreV1().Services("default")
	model, err := ingresses.Get(t.Context(), "none", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	before := s.metric(t, "sluice_conversions_total")
	s.noReload(t, func() {
		for i := range count {
			name := metav1.ObjectMeta{Name: fmt.Sprintf("foreign-%d", i)}
			one := model.DeepCopy()
			one.ObjectMeta, one.Spec.Rules[0].Host = name, name.Name+".test"
			if _, err := ingresses.Create(t.Context(), one, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			service := &corev1.Service{ObjectMeta: name, Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Port: 80}}}}
			if _, err := services.Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		apply(t, c, `{apiVersion: v1, kind: Service, metadata: {name: last}, spec: {selector: {app: apps}, ports: [{port: 8080, targetPort: 3000}]}}`,
			ingress("last", "last.test", "Prefix / last"))
		s.await(t, "http://last.test/", http.StatusOK, "exact")
		awaitAddress(t, c, "last", s.address)
	})
	if converted := s.metric(t, "sluice_conversions_total") - before; converted < 1 || converted > ours {
		t.Errorf("%v conversions for %d objects of others and an Ingress of ours", converted, 2*count)
	}
}
