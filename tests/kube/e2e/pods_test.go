package e2e_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sluice-proxy/sluice/tests/kube"
)

// TestPods installs sluice as the manifests have it, with the chart's default values: two
// pods with HAProxy in them.
func TestPods(t *testing.T) {
	c := startCluster(t)
	apply(t, c, pod("apps", "web"), installed(t, "deploy/manifests/deployment.yaml"), ingress("web", "web.test", "Prefix / web"))
	kube.Eventually(t, "both pods are ready", func() error { return rolledOut(t, c) })

	t.Run("an Ingress is served by each pod and has the Service's address", func(t *testing.T) { podsServe(t, c) })
	t.Run("HAProxy outlives a killed sluice, which is started again", func(t *testing.T) { killInPod(t, c) })
	t.Run("a new version rolls out under load", func(t *testing.T) { rollOut(t, c) })
	t.Run("nothing is left when it is removed", func(t *testing.T) { removed(t, c) })
	t.Run("HAProxy may have a container of its own", func(t *testing.T) { twoContainers(t, c) })
	t.Run("pods may be those of a DaemonSet, in the network of their nodes", func(t *testing.T) { onNodes(t, c) })
}

// rolledOut is nil if the Deployment has its pods, all of the newest template.
func rolledOut(t *testing.T, c *kube.Cluster) error {
	d, err := c.Client.AppsV1().Deployments(ownNamespace).Get(t.Context(), "sluice", metav1.GetOptions{})
	if err != nil {
		return err
	}
	want := *d.Spec.Replicas
	if s := d.Status; s.ObservedGeneration != d.Generation || s.UpdatedReplicas != want || s.AvailableReplicas != want || s.Replicas != want {
		return fmt.Errorf("generation %d of %d, %d updated, %d available, %d of %d", s.ObservedGeneration, d.Generation, s.UpdatedReplicas, s.AvailableReplicas, s.Replicas, want)
	}
	return nil
}

// sluicePods are the pods of sluice that are not being deleted.
func sluicePods(t *testing.T, c *kube.Cluster) []corev1.Pod {
	t.Helper()
	list, err := c.Client.CoreV1().Pods(ownNamespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=sluice"})
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
}

func podsServe(t *testing.T, c *kube.Cluster) {
	for _, pod := range sluicePods(t, c) {
		kube.Eventually(t, pod.Name+" serves", func() error {
			a, err := ask(pod.Status.PodIP, "http://web.test/")
			return check(a, err, http.StatusOK, "web")
		})
		if restarts := pod.Status.ContainerStatuses[0].RestartCount; restarts != 0 {
			t.Errorf("%s was restarted %d times", pod.Name, restarts)
		}
	}
	balanced(t, c, `{"ip": "192.0.2.9"}`)
	awaitAddress(t, c, "web", "192.0.2.9")
}

// balanced gives sluice's Service an address, as a load balancer's controller does.
func balanced(t *testing.T, c *kube.Cluster, address string) {
	t.Helper()
	patch := fmt.Sprintf(`{"status": {"loadBalancer": {"ingress": [%s]}}}`, address)
	if _, err := c.Client.CoreV1().Services(ownNamespace).Patch(t.Context(), "sluice", types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}

// processes are the pids of all programs of a name in the sandbox, which are those in pods.
func processes(t *testing.T, program string) []int {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil || strings.TrimSpace(string(text)) != program {
			continue // it has ended since, or is another
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

func killInPod(t *testing.T, c *kube.Cluster) {
	before := processes(t, "sluice")
	if len(before) != 2 {
		t.Fatalf("%d programs sluice run in two pods", len(before))
	}
	haproxies := processes(t, "haproxy")
	b := &balancer{}
	if err := b.follow(t, c); err != nil {
		t.Fatal(err)
	}
	l := startLoad(t, b.request)
	for _, pid := range before {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	kube.Eventually(t, "sluice runs again in both pods", func() error {
		now := processes(t, "sluice")
		if len(now) != 2 || slices.ContainsFunc(now, func(pid int) bool { return slices.Contains(before, pid) }) {
			return fmt.Errorf("pids %v, before %v", now, before)
		}
		return nil
	})
	apply(t, c, ingress("after", "after.test", "Prefix / web"))
	for _, pod := range sluicePods(t, c) {
		kube.Eventually(t, pod.Name+" serves what came later", func() error {
			a, err := ask(pod.Status.PodIP, "http://after.test/")
			return check(a, err, http.StatusOK, "web")
		})
	}
	l.end(t)
	if now := processes(t, "haproxy"); !slices.Equal(now, haproxies) {
		t.Errorf("HAProxy has pids %v, it had %v", now, haproxies)
	}
	for _, pod := range sluicePods(t, c) {
		if restarts := pod.Status.ContainerStatuses[0].RestartCount; restarts != 0 {
			t.Errorf("the container of %s was restarted %d times", pod.Name, restarts)
		}
	}
}

// balancer sends requests to the endpoints that are ready, one after the other, as
// something in front of the pods does.
type balancer struct {
	ready atomic.Pointer[[]string]
	turn  atomic.Uint64
}

// follow takes over the endpoints of now.
func (b *balancer) follow(t *testing.T, c *kube.Cluster) error {
	ready, err := readyAddresses(t, c, ownNamespace, "sluice")
	if err == nil {
		b.ready.Store(&ready)
	}
	return err
}

func (b *balancer) request() error {
	ready := *b.ready.Load()
	if len(ready) == 0 {
		return errors.New("no pod is ready")
	}
	address := ready[b.turn.Add(1)%uint64(len(ready))]
	a, err := ask(address, "http://web.test/")
	if err := check(a, err, http.StatusOK, "web"); err != nil {
		return fmt.Errorf("pod %s: %w", address, err)
	}
	return nil
}

func rollOut(t *testing.T, c *kube.Cluster) {
	old := sluicePods(t, c)
	b := &balancer{}
	if err := b.follow(t, c); err != nil {
		t.Fatal(err)
	}
	l := startLoad(t, b.request)
	const patch = `{"spec": {"template": {"metadata": {"annotations": {"version": "next"}}}}}`
	if _, err := c.Client.AppsV1().Deployments(ownNamespace).Patch(t.Context(), "sluice", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	kube.Eventually(t, "new pods serve", func() error { return errors.Join(b.follow(t, c), rolledOut(t, c)) })
	kube.Eventually(t, "the old pods are gone", func() error {
		if err := b.follow(t, c); err != nil {
			return err
		}
		for i := range old {
			if _, err := c.Client.CoreV1().Pods(ownNamespace).Get(t.Context(), old[i].Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return fmt.Errorf("%s is still there: %w", old[i].Name, err)
			}
		}
		return nil
	})
	l.end(t)
	awaitAddress(t, c, "web", "192.0.2.9")
}

func removed(t *testing.T, c *kube.Cluster) {
	if err := c.Client.AppsV1().Deployments(ownNamespace).Delete(t.Context(), "sluice", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	kube.Eventually(t, "the pods are gone", func() error {
		list, err := c.Client.CoreV1().Pods(ownNamespace).List(t.Context(), metav1.ListOptions{})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d are there", len(list.Items))
		}
		return err
	})
	for _, program := range []string{"sluice", "sluice-init", "haproxy"} {
		if pids := processes(t, program); len(pids) > 0 {
			t.Errorf("program %s still runs: %v", program, pids)
		}
	}
	if err := c.Client.CoreV1().Namespaces().Delete(t.Context(), ownNamespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	kube.Eventually(t, "the namespace is gone", func() error {
		_, err := c.Client.CoreV1().Namespaces().Get(t.Context(), ownNamespace, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("still there: %w", err)
		}
		return nil
	})
}

// twoContainers: sluice ends and is started by the kubelet then; HAProxy doesn't notice.
func twoContainers(t *testing.T, c *kube.Cluster) {
	apply(t, c, installed(t, "deploy/manifests/two-containers.yaml"))
	kube.Eventually(t, "both pods are ready", func() error { return rolledOut(t, c) })
	b := &balancer{}
	if err := b.follow(t, c); err != nil {
		t.Fatal(err)
	}
	haproxies := processes(t, "haproxy")
	for _, pid := range haproxies {
		// Half of the container's limit of 1 GiB.
		if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err != nil || !strings.Contains(string(line), "\x00-m\x00512\x00") {
			t.Errorf("the memory of HAProxy is not limited: %q, %v", line, err)
		}
	}
	l := startLoad(t, b.request)
	for _, pid := range processes(t, "sluice") {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	apply(t, c, ingress("split", "split.test", "Prefix / web"))
	for _, pod := range sluicePods(t, c) {
		kube.Eventually(t, pod.Name+" serves what came later", func() error {
			a, err := ask(pod.Status.PodIP, "http://split.test/")
			return check(a, err, http.StatusOK, "web")
		})
	}
	l.end(t)
	if now := processes(t, "haproxy"); !slices.Equal(now, haproxies) {
		t.Errorf("HAProxy has pids %v, it had %v", now, haproxies)
	}
}

// onNodes: the addresses of Ingresses are those of the nodes, and the pods have the same ports
// one after the other.
func onNodes(t *testing.T, c *kube.Cluster) {
	if err := c.Client.AppsV1().Deployments(ownNamespace).Delete(t.Context(), "sluice", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, manifests := range []string{"deploy/manifests/daemonset.yaml", "tests/deploy/testdata/two-containers-host-network/golden.yaml"} {
		apply(t, c, installed(t, manifests))
		kube.Eventually(t, "the pod of "+manifests+" is ready", func() error {
			d, err := c.Client.AppsV1().DaemonSets(ownNamespace).Get(t.Context(), "sluice", metav1.GetOptions{})
			if err == nil && (d.Status.ObservedGeneration != d.Generation || d.Status.UpdatedNumberScheduled != 1 || d.Status.NumberAvailable != 1) {
				err = fmt.Errorf("generation %d: %+v", d.Generation, d.Status)
			}
			return err
		})
		a, err := ask(nodeAddress, "http://web.test/")
		if err := check(a, err, http.StatusOK, "web"); err != nil {
			t.Errorf("%s: %v", manifests, err)
		}
		awaitAddress(t, c, "web", nodeAddress)
	}
	// The last one keeps its admin address for the node; the kubelet's probe gets there.
	s := controller{address: "127.0.0.1"}
	if err := s.ready(); err != nil {
		t.Error(err)
	}
	s.address = nodeAddress
	if err := s.ready(); err == nil {
		t.Error("the admin address is open to others")
	}
	for _, pod := range sluicePods(t, c) {
		for _, status := range pod.Status.ContainerStatuses {
			if status.RestartCount > 0 {
				t.Errorf("container %s was restarted: %+v", status.Name, status.LastTerminationState)
			}
		}
	}
}

// nodeAddress is that of the only node.
const nodeAddress = "10.244.0.1"
