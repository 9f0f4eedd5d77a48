package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluice-proxy/sluice/tests/kube"
)

func TestMain(m *testing.M) { kube.Main(m, "sluice", "sluice-init", "sluice-echo") }

// ownNamespace is where the manifests put sluice.
const ownNamespace = "sluice-system"

// haproxy is HAProxy's binary, and the folder with the libraries it was linked with.
func haproxy(t *testing.T) (binary, folder string) {
	t.Helper()
	name := os.Getenv("SLUICE_HAPROXY_34")
	binary, err := filepath.EvalSymlinks(name)
	if err != nil || name == "" {
		t.Fatalf("SLUICE_HAPROXY_34=%q must name HAProxy's binary, as `make e2e` has it: %v", name, err)
	}
	// FOLDER/usr/sbin/haproxy
	return binary, filepath.Dir(filepath.Dir(filepath.Dir(binary)))
}

// startCluster starts a cluster with the images of the product, and of pods that answer.
func startCluster(t *testing.T) *kube.Cluster {
	t.Helper()
	binary, folder := haproxy(t)
	return kube.Start(t, kube.Options{Images: map[string]kube.Image{
		"sluice-echo": {Files: map[string]string{"/sluice-echo": kube.Program(t, "sluice-echo")}, Entrypoint: []string{"/sluice-echo"}, UID: 1000, GID: 1000},
		// As rootfs/Dockerfile has it.
		"sluice-proxy/sluice": {
			Files: map[string]string{
				"/usr/local/bin/sluice": kube.Program(t, "sluice"), "/usr/local/bin/sluice-init": kube.Program(t, "sluice-init"),
				"/usr/local/sbin/haproxy": binary,
			},
			Readable: []string{folder}, Entrypoint: []string{"sluice-init", "sluice"}, UID: 65532, GID: 65532,
		},
	}})
}

func apply(t *testing.T, c *kube.Cluster, manifests ...string) {
	t.Helper()
	if err := c.Apply(t.Context(), strings.Join(manifests, "\n---\n")); err != nil {
		t.Fatal(err)
	}
}

// installed are the objects of a file of the repository, without those of some kinds.
func installed(t *testing.T, file string, without ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(kube.Root(), file))
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	for _, object := range strings.Split("\n"+string(text), "\n---\n") {
		if !slices.ContainsFunc(without, func(kind string) bool { return strings.Contains("\n"+object, "\nkind: "+kind+"\n") }) {
			kept = append(kept, object)
		}
	}
	return strings.Join(kept, "\n---\n")
}

// installRights applies the manifests but for the pods: a process takes their place.
func installRights(t *testing.T, c *kube.Cluster) {
	t.Helper()
	apply(t, c, installed(t, "deploy/manifests/deployment.yaml", "Deployment"))
}

// pod is a Deployment with one pod in which a number of Services have a port each; answers
// carry the name of the Service.
func pod(name string, services ...string) string {
	var args, objects []string
	for i, service := range services {
		args = append(args, fmt.Sprintf("--listen=%s=:%d", service, 3000+i))
		objects = append(objects, fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {name: %s}, spec: {selector: {app: %s}, ports: [{name: web, port: 8080, targetPort: %d}]}}`, service, name, 3000+i))
	}
	return deployment(name, 1, args) + "\n---\n" + strings.Join(objects, "\n---\n")
}

// pods is a Deployment whose pods answer with their own names, and its Service.
func pods(name string, replicas int) string {
	return deployment(name, replicas, []string{"--listen=$(POD)=:3000"}) + fmt.Sprintf(`
---
{apiVersion: v1, kind: Service, metadata: {name: %s}, spec: {selector: {app: %[1]s}, ports: [{name: web, port: 8080, targetPort: 3000}]}}`, name)
}

func deployment(name string, replicas int, args []string) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  replicas: %[2]d
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      containers:
      - name: echo
        image: sluice-echo
        args: ["%[3]s"]
        env: [{name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
        readinessProbe: {httpGet: {path: /, port: 3000}, periodSeconds: 1}
        lifecycle: {preStop: {sleep: {seconds: 2}}}`, name, replicas, strings.Join(args, `", "`))
}

// ingress is an Ingress of sluice's class for a host, with paths such as "Prefix /foo web",
// the last word being the Service.
func ingress(name, host string, paths ...string) string {
	var list []string
	for _, path := range paths {
		f := strings.Fields(path)
		list = append(list, fmt.Sprintf("{pathType: %s, path: %q, backend: {service: {name: %s, port: {number: 8080}}}}", f[0], f[1], f[2]))
	}
	return fmt.Sprintf(`
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: %s}
spec: {ingressClassName: sluice, rules: [{host: %q, http: {paths: [%s]}}]}`, name, host, strings.Join(list, ", "))
}

// addresses are what the status of an Ingress says.
func addresses(t *testing.T, c *kube.Cluster, name string) ([]string, error) {
	object, err := c.Client.NetworkingV1().Ingresses("default").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	var list []string
	for _, one := range object.Status.LoadBalancer.Ingress {
		list = append(list, one.IP+one.Hostname)
	}
	return list, nil
}

// awaitAddress waits until the status of an Ingress has one address, the given one.
func awaitAddress(t *testing.T, c *kube.Cluster, name, address string) {
	t.Helper()
	kube.Eventually(t, "Ingress "+name+" has its address", func() error {
		now, err := addresses(t, c, name)
		if err == nil && !slices.Equal(now, []string{address}) {
			err = fmt.Errorf("addresses: %v", now)
		}
		return err
	})
}
