package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/sluice-proxy/sluice/tests/harness"
)

// statusFile waits until status.yaml lists exactly these objects, "name: addresses" or
// "name: number of findings".
func statusFile(t *testing.T, c *harness.Controller, sentence string, want ...string) {
	t.Helper()
	c.Eventually(sentence, func() error {
		text, err := os.ReadFile(filepath.Join(c.StateDir, "status.yaml"))
		if err != nil {
			return err
		}
		var file struct {
			Objects []struct {
				Name     string
				Findings []any
				Status   struct {
					LoadBalancer struct{ Ingress []struct{ IP string } }
				}
			}
		}
		if err := yaml.Unmarshal(text, &file); err != nil {
			return err
		}
		var got []string
		for _, o := range file.Objects {
			word := o.Name + ":"
			for _, address := range o.Status.LoadBalancer.Ingress {
				word += " " + address.IP
			}
			if len(o.Findings) > 0 {
				word += fmt.Sprintf(" %d", len(o.Findings))
			}
			got = append(got, word)
		}
		if strings.Join(got, ", ") != strings.Join(want, ", ") {
			return fmt.Errorf("status.yaml lists %q", got)
		}
		return nil
	})
}

// TestStatusFile: in standalone mode statuses and findings stand in a file, which follows the
// manifests: the class of an Ingress, its findings, and the Service with the addresses.
func TestStatusFile(t *testing.T) {
	service := func(address string) string {
		return "apiVersion: v1\nkind: Service\nmetadata: {name: lb, namespace: test}\nspec: {type: LoadBalancer, ports: [{port: 80}]}\n" +
			"status: {loadBalancer: {ingress: [{ip: " + address + "}]}}\n"
	}
	a, b := harness.Ingress("a", "a.example", "missing"), harness.Ingress("b", "b.example", "lb")
	c := start(t, harness.Binary(t, "3.4"), map[string]string{"class.yaml": harness.Class, "lb.yaml": service("192.0.2.1"), "a.yaml": a, "b.yaml": b}, "--publish-service=test/lb")
	statusFile(t, c, "an Ingress has its address, whatever is wrong with it", "a: 192.0.2.1 1", "b: 192.0.2.1")
	c.Write("lb.yaml", service("192.0.2.2"))
	statusFile(t, c, "the address follows its Service", "a: 192.0.2.2 1", "b: 192.0.2.2")
	c.Write("b.yaml", strings.Replace(b, "spec:\n", "spec:\n  ingressClassName: other\n", 1))
	c.Write("a.yaml", strings.ReplaceAll(a, "missing", "lb"))
	statusFile(t, c, "an Ingress that leaves the class has no address", "a: 192.0.2.2", "b: 1")
	c.Remove("b.yaml")
	statusFile(t, c, "an Ingress that is gone is gone here, too", "a: 192.0.2.2")
	if c.Metric("sluice_leader", "") != 1 || c.Metric("sluice_status_writes_total", `kind="File",result="ok"`) < 4 {
		t.Error("the metrics don't tell of it")
	}
	c.Stop()
	statusFile(t, c, "the file stays when sluice stops", "a: 192.0.2.2")
}
