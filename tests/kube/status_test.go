package kube_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluice-proxy/sluice/tests/kube"
)

// replica is a `sluice run` with the rights that deploy/manifests grant, on a port of its own.
type replica struct {
	command *exec.Cmd
	log     string
}

func startReplica(t *testing.T, c *kube.Cluster, kubeconfig string, number int) *replica {
	t.Helper()
	folder, err := os.MkdirTemp("", "sl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	r := &replica{log: filepath.Join(c.Logs, fmt.Sprintf("sluice-%d.log", number))}
	log, err := os.Create(r.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	r.command = exec.Command(kube.Program(t, "sluice"), "run", "--kubeconfig", kubeconfig, "--haproxy", os.Getenv("SLUICE_HAPROXY_34"),
		"--config-dir", folder+"/conf", "--state-dir", folder+"/state", "--run-dir", folder+"/run", "--publish-address", "10.200.0.1",
		"--http-address", fmt.Sprintf("127.0.0.1:%d", 8100+number), "--https-address", fmt.Sprintf("127.0.0.1:%d", 8200+number),
		"--admin-address", fmt.Sprintf("127.0.0.1:%d", 8300+number), "--health-address", fmt.Sprintf("127.0.0.1:%d", 8400+number))
	r.command.Stdout, r.command.Stderr = log, log
	if err := r.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.kill)
	return r
}

func (r *replica) kill() {
	_ = r.command.Process.Kill()
	_ = r.command.Wait()
}

// leads waits until a replica says in its log that it leads.
func (r *replica) leads(t *testing.T) {
	t.Helper()
	kube.Eventually(t, "the replica leads", func() error {
		text, err := os.ReadFile(r.log)
		if err == nil && !strings.Contains(string(text), "this replica leads") {
			err = fmt.Errorf("its log:\n%s", text)
		}
		return err
	})
}

const ingresses = `
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: sluice}
spec: {controller: sluice-proxy.github.io/controller}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web}
spec: {ingressClassName: sluice, defaultBackend: {service: {name: missing, port: {number: 80}}}}
`

// ingress waits until the status of Ingress web has an address, or none, and returns it.
func ingress(t *testing.T, c *kube.Cluster, want string) *networkingv1.Ingress {
	t.Helper()
	var found *networkingv1.Ingress
	kube.Eventually(t, "the status has "+want, func() (err error) {
		found, err = c.Client.NetworkingV1().Ingresses("default").Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		got := ""
		for _, address := range found.Status.LoadBalancer.Ingress {
			got += address.IP
		}
		if got != want {
			return fmt.Errorf("it has %q", got)
		}
		return nil
	})
	return found
}

// events are the Events of sluice on Ingress web.
func events(ctx context.Context, c *kube.Cluster) ([]string, error) {
	list, err := c.Client.CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "source=sluice,involvedObject.name=web"})
	if err != nil {
		return nil, err
	}
	var reasons []string
	for _, e := range list.Items {
		reasons = append(reasons, fmt.Sprintf("%s of %s", e.Reason, e.InvolvedObject.UID))
	}
	return reasons, nil
}

// TestStatus: the leader writes addresses and Events; when it is killed the other replica
// takes over and writes nothing again; an Ingress that leaves the class loses its address.
func TestStatus(t *testing.T) {
	c := start(t)
	manifests, err := os.ReadFile(filepath.Join(kube.Root(), "deploy/manifests/deployment.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	apply(t, c, string(manifests))
	apply(t, c, ingresses)
	user, err := c.ServiceAccount(t.Context(), "sluice-system", "sluice")
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := c.Kubeconfig("sluice", user)
	if err != nil {
		t.Fatal(err)
	}
	first := startReplica(t, c, kubeconfig, 1)
	first.leads(t)
	second := startReplica(t, c, kubeconfig, 2)
	before := ingress(t, c, "10.200.0.1")
	once := func() error {
		got, err := events(t.Context(), c)
		if want := "ServiceMissing of " + string(before.UID); err == nil && strings.Join(got, ", ") != want {
			err = fmt.Errorf("Events %q, want %s", got, want)
		}
		return err
	}
	kube.Eventually(t, "an Event tells of the Service that is missing", once)

	first.kill()
	second.leads(t)
	apply(t, c, strings.ReplaceAll(ingresses, "name: web", "name: later"))
	kube.Eventually(t, "the new leader writes", func() error {
		later, err := c.Client.NetworkingV1().Ingresses("default").Get(t.Context(), "later", metav1.GetOptions{})
		if err == nil && len(later.Status.LoadBalancer.Ingress) == 0 {
			err = fmt.Errorf("no address yet")
		}
		return err
	})
	if after := ingress(t, c, "10.200.0.1"); after.ResourceVersion != before.ResourceVersion {
		t.Error("the hand-over wrote what stood there already")
	}
	if err := once(); err != nil {
		t.Errorf("after the hand-over: %v", err)
	}
	apply(t, c, strings.ReplaceAll(ingresses, "ingressClassName: sluice", "ingressClassName: other"))
	ingress(t, c, "")
}
