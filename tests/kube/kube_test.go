package kube_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sluice-proxy/sluice/tests/kube"
)

func TestMain(m *testing.M) { kube.Main(m, "sluice-echo", "sluice") }

// start starts a cluster in which image "sluice-echo" is that program and "busybox" is
// whatever this machine has.
func start(t *testing.T) *kube.Cluster {
	t.Helper()
	began := time.Now()
	c := kube.Start(t, kube.Options{Images: map[string]kube.Image{
		"sluice-echo": {
			Files:      map[string]string{"/sluice-echo": kube.Program(t, "sluice-echo")},
			Entrypoint: []string{"/sluice-echo"}, Cmd: []string{"--listen=pod=:3000"},
			UID: 1000, GID: 1000,
		},
		"busybox": {},
	}})
	t.Logf("the cluster started in %s", time.Since(began).Round(time.Millisecond))
	return c
}

// echo is a Deployment "echo" with its Service; pods have two seconds between the
// deletion and SIGTERM.
const echo = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: echo}
spec:
  replicas: 2
  selector: {matchLabels: {app: echo}}
  template:
    metadata: {labels: {app: echo}}
    spec:
      containers:
      - name: echo
        image: registry.example/sluice-echo:v1
        args: ["--listen=$(POD)=:3000"]
        env: [{name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
        ports: [{name: http, containerPort: 3000}]
        readinessProbe: {httpGet: {path: /ready, port: http}, periodSeconds: 1}
        lifecycle: {preStop: {sleep: {seconds: 2}}}
---
apiVersion: v1
kind: Service
metadata: {name: echo}
spec: {selector: {app: echo}, ports: [{port: 80, targetPort: http}]}
`

func apply(t *testing.T, c *kube.Cluster, manifests string) {
	t.Helper()
	if err := c.Apply(t.Context(), manifests); err != nil {
		t.Fatal(err)
	}
}

// endpoints are the endpoints of a Service.
func endpoints(ctx context.Context, c *kube.Cluster, service string) ([]discoveryv1.Endpoint, error) {
	list, err := c.Client.DiscoveryV1().EndpointSlices("default").List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service})
	if err != nil {
		return nil, err
	}
	var all []discoveryv1.Endpoint
	for _, slice := range list.Items {
		all = append(all, slice.Endpoints...)
	}
	return all, nil
}

// awaitEndpoints waits until a Service has n ready endpoints and no others.
func awaitEndpoints(t *testing.T, c *kube.Cluster, service string, n int) []discoveryv1.Endpoint {
	t.Helper()
	var all []discoveryv1.Endpoint
	kube.Eventually(t, fmt.Sprintf("%d endpoints", n), func() error {
		var err error
		if all, err = endpoints(t.Context(), c, service); err != nil {
			return err
		}
		ready := 0
		for _, e := range all {
			if *e.Conditions.Ready {
				ready++
			}
		}
		if ready != n || len(all) != n {
			return fmt.Errorf("%d ready of %d", ready, len(all))
		}
		return nil
	})
	return all
}

// ask asks an address for a path and returns the name that the echo gave itself.
func ask(address, path string) (string, error) {
	client := &http.Client{Timeout: 3 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + address + ":3000" + path)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}
	var answer struct {
		Service string `json:"service"`
	}
	return answer.Service, json.Unmarshal(text, &answer)
}

func TestDeployment(t *testing.T) {
	c := start(t)
	apply(t, c, echo)

	two := awaitEndpoints(t, c, "echo", 2)
	if two[0].Addresses[0] == two[1].Addresses[0] {
		t.Fatalf("both pods have the address %s", two[0].Addresses[0])
	}
	for _, e := range two {
		if name, err := ask(e.Addresses[0], "/"); err != nil || name != e.TargetRef.Name {
			t.Errorf("pod %s answers as %q: %v", e.TargetRef.Name, name, err)
		}
	}

	t.Run("scaling", func(t *testing.T) {
		scale(t, c, 4)
		awaitEndpoints(t, c, "echo", 4)
		scale(t, c, 2)
		awaitEndpoints(t, c, "echo", 2)
	})
	t.Run("a deleted pod serves until its hook is over", func(t *testing.T) { deletePod(t, c) })
	t.Run("logs", func(t *testing.T) { readLogs(t, c) })
}

// scale patches: an update would be refused whenever a controller wrote the status in between.
func scale(t *testing.T, c *kube.Cluster, replicas int32) {
	t.Helper()
	patch := fmt.Sprintf(`{"spec": {"replicas": %d}}`, replicas)
	if _, err := c.Client.AppsV1().Deployments("default").Patch(t.Context(), "echo", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

func deletePod(t *testing.T, c *kube.Cluster) {
	victim := awaitEndpoints(t, c, "echo", 2)[0]
	name, address := victim.TargetRef.Name, victim.Addresses[0]
	began := time.Now()
	if err := c.Client.CoreV1().Pods("default").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	kube.Eventually(t, "the endpoint is terminating and serving", func() error {
		all, err := endpoints(t.Context(), c, "echo")
		if err != nil {
			return err
		}
		i := slices.IndexFunc(all, func(e discoveryv1.Endpoint) bool { return e.TargetRef.Name == name })
		if i < 0 {
			t.Fatal("the endpoint is gone at once")
		}
		if now := all[i].Conditions; !*now.Terminating || !*now.Serving || *now.Ready {
			return fmt.Errorf("terminating %t, serving %t, ready %t", *now.Terminating, *now.Serving, *now.Ready)
		}
		return nil
	})
	if answered, err := ask(address, "/"); err != nil || answered != name {
		t.Errorf("the terminating pod answers as %q: %v", answered, err)
	}
	kube.Eventually(t, "the pod's object is gone and another one is there", func() error {
		pods, err := c.Client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "app=echo"})
		if err != nil {
			return err
		}
		if slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return p.Name == name }) {
			return fmt.Errorf("%s is still there", name)
		}
		return nil
	})
	if took := time.Since(began); took < 2*time.Second || took > 20*time.Second {
		t.Errorf("the pod was gone after %s, and its hook takes 2s of a grace period of 30s", took)
	}
	if _, err := ask(address, "/"); err == nil {
		t.Error("the deleted pod answers")
	}
	awaitEndpoints(t, c, "echo", 2)
}

func readLogs(t *testing.T, c *kube.Cluster) {
	pod := awaitEndpoints(t, c, "echo", 2)[0].TargetRef.Name
	read := func(o corev1.PodLogOptions) string {
		text, err := c.Client.CoreV1().Pods("default").GetLogs(pod, &o).DoRaw(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if all := read(corev1.PodLogOptions{}); !strings.Contains(all, "sluice-echo: "+pod+" on ") {
		t.Errorf("log: %q", all)
	}
	none, later := int64(0), metav1.NewTime(time.Now().Add(time.Hour))
	if tail := read(corev1.PodLogOptions{TailLines: &none}); tail != "" {
		t.Errorf("no lines are: %q", tail)
	}
	if since := read(corev1.PodLogOptions{SinceTime: &later}); since != "" {
		t.Errorf("nothing since the future is: %q", since)
	}
}
