package conformance_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/tests/kube"
)

// ownNamespace is where the manifests put sluice, and ownAddress is its address apart from
// those of Gateways.
const (
	ownNamespace = "sluice-system"
	ownAddress   = "10.200.0.1"
)

// startSluice runs sluice beside the suite, under the rights that its manifests grant, until
// the test ends. Its log is with the cluster's.
func startSluice(t *testing.T, c *kube.Cluster) {
	t.Helper()
	// Sockets have short paths only, so not t.TempDir.
	folder, err := os.MkdirTemp("", "sl")
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(c.Logs, "sluice.log"))
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(kube.Program(t, "sluice"), arguments(t, c, folder)...)
	command.Env = append(os.Environ(), "POD_NAME=sluice-0", "POD_NAMESPACE="+ownNamespace)
	// Through a pipe: HAProxy, which has the same output, takes O_APPEND away from a file.
	command.Stdout, command.Stderr = writer{log}, writer{log}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	t.Cleanup(func() {
		stop(t, command.Process, ended)
		_ = log.Close()
		_ = os.RemoveAll(folder)
	})
	kube.Eventually(t, "sluice is ready", func() error {
		select {
		case err := <-ended:
			ended <- err
			return fmt.Errorf("sluice has ended: %w", err)
		default:
			return ready()
		}
	})
}

// writer hides that it is a file, so that the command gets a pipe.
type writer struct{ file *os.File }

func (w writer) Write(p []byte) (int, error) { return w.file.Write(p) }

// arguments are those of the manifests, but for places.
func arguments(t *testing.T, c *kube.Cluster, folder string) []string {
	t.Helper()
	account, err := c.ServiceAccount(t.Context(), ownNamespace, "sluice")
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := c.Kubeconfig("sluice", account)
	if err != nil {
		t.Fatal(err)
	}
	return []string{
		"run", "--kubeconfig=" + kubeconfig, "--haproxy=" + haproxy(t),
		"--config-dir=" + filepath.Join(folder, "config"), "--state-dir=" + filepath.Join(folder, "state"), "--run-dir=" + filepath.Join(folder, "run"),
		"--http-address=" + ownAddress + ":80", "--https-address=" + ownAddress + ":443", "--gateway-addresses=" + gatewayAddresses,
		"--health-address=" + ownAddress + ":10253", "--admin-address=" + ownAddress + ":10254",
		"--configmap=" + ownNamespace + "/sluice", "--ingress-class=sluice", "--publish-address=" + ownAddress,
		"--stop-timeout=2s", "--log-level=debug",
	}
}

// haproxy is HAProxy's binary.
func haproxy(t *testing.T) string {
	t.Helper()
	name := os.Getenv("SLUICE_HAPROXY_34")
	if name == "" {
		t.Fatal("SLUICE_HAPROXY_34 must name HAProxy's binary, as `make conformance` has it")
	}
	return name
}

func ready() error {
	client := http.Client{Timeout: time.Second}
	response, err := client.Get("http://" + ownAddress + ":10254/readyz")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}

// stop ends sluice, which ends HAProxy.
func stop(t *testing.T, process *os.Process, ended <-chan error) {
	_ = process.Signal(syscall.SIGTERM)
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("sluice: %v", err)
		}
	case <-time.After(kube.Patience):
		_ = process.Kill()
		t.Errorf("sluice did not end when it was told to: %v", <-ended)
	}
}

// moduleFolder is where the go command has a module.
func moduleFolder(t *testing.T, module string) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Fatalf("folder of module %s: %v", module, err)
	}
	return strings.TrimSpace(string(out))
}
