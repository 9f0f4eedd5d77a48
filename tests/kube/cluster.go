package kube

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sluice-proxy/sluice/tests/kube/internal/kubelet"
	"github.com/sluice-proxy/sluice/tests/kube/internal/plane"
	"github.com/sluice-proxy/sluice/tests/kube/internal/sandbox"
)

// Image says which programs stand for a container image.
type Image = kubelet.Image

// Node is a node of the cluster.
type Node = kubelet.Node

// Pods runs the pods, and does to them what no API can: see its methods.
type Pods = kubelet.Kubelet

// Part is a program of the control plane: to be stopped, killed, frozen and started.
type Part = plane.Part

// Options of a cluster.
type Options struct {
	// Images by their path without registry host and tag: "gateway-api/echo-basic".
	Images map[string]Image
	Nodes  []Node // default: one, named "node"
}

// Cluster is a running control plane with pods.
type Cluster struct {
	*Pods
	Etcd, APIServer, Controllers *Part
	// Admin may do everything; Client and Dynamic are made of it.
	Admin   *rest.Config
	Client  kubernetes.Interface
	Dynamic dynamic.Interface
	Folder  string // of this cluster, in memory; for files of the test, too
	Logs    string // one file for each part and each container; kept if the test fails

	plane *plane.Plane
}

// network is set up once in each sandbox.
var network = sync.OnceValues(sandbox.NewRouter)

// Start starts a cluster that ends with the test.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	logs, err := newLogs(t.Name())
	if err != nil {
		t.Fatal(err)
	}
	// Containers outlive the test by a moment, and t.Logf must not be called then.
	report, silence := reporter(t)
	c, err := launch(o, logs, report)
	if err != nil {
		t.Fatalf("starting a cluster: %v\nlogs: %s", err, logs)
	}
	t.Cleanup(func() {
		silence()
		if err := c.Close(); err != nil {
			t.Errorf("ending the cluster: %v", err)
		}
		if t.Failed() {
			t.Logf("logs of the cluster: %s", logs)
		} else if err := os.RemoveAll(logs); err != nil {
			t.Errorf("removing logs: %v", err)
		}
	})
	return c
}

// reporter passes on what is to be told to the test's log, until it is silenced.
func reporter(t testing.TB) (report func(string, ...any), silence func()) {
	var mu sync.Mutex
	silent := false
	return func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			if !silent {
				t.Logf(format, args...)
			}
		}, func() {
			mu.Lock()
			defer mu.Unlock()
			silent = true
		}
}

func launch(o Options, logs string, report func(string, ...any)) (*Cluster, error) {
	router, err := network()
	if err != nil {
		return nil, err
	}
	folder, err := memory()
	if err != nil {
		return nil, err
	}
	if len(o.Nodes) == 0 {
		o.Nodes = []Node{{Name: "node"}}
	}
	p, err := plane.Start(plane.Options{Programs: os.Getenv(assetsVariable), Folder: folder, Logs: logs})
	if err != nil {
		return nil, err
	}
	c := &Cluster{Etcd: p.Etcd, APIServer: p.APIServer, Controllers: p.Controllers, Admin: p.Credentials("admin"), Folder: folder, Logs: logs, plane: p}
	if err := c.populate(o, router, report); err != nil {
		p.Stop()
		return nil, err
	}
	return c, nil
}

// populate makes clients and the kubelet stand-in.
func (c *Cluster) populate(o Options, router *sandbox.Router, report func(string, ...any)) error {
	var err error
	if c.Client, err = kubernetes.NewForConfig(c.Admin); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	if c.Dynamic, err = dynamic.NewForConfig(c.Admin); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	authority := c.plane.Authority
	if err := authority.Server("kubelet", sandbox.RouterAddress); err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(authority.File("kubelet.crt"), authority.File("kubelet.key"))
	if err != nil {
		return fmt.Errorf("reading the kubelet's certificate: %w", err)
	}
	c.Pods, err = kubelet.Start(kubelet.Options{
		Client: c.Client, Router: router, Images: o.Images, Nodes: o.Nodes, Folder: filepath.Join(c.Folder, "pods"), Logs: c.Logs,
		Certificate: pair, ClientCA: authority.Pool(), Report: report,
		Env: map[string]string{"KUBERNETES_SERVICE_HOST": plane.Host, "KUBERNETES_SERVICE_PORT": plane.APIServerPort},
	})
	return err
}

// Close ends the cluster: pods first, then the control plane. Start arranges for it.
func (c *Cluster) Close() error {
	c.Pods.Stop()
	c.plane.Stop()
	if err := os.RemoveAll(c.Folder); err != nil {
		return fmt.Errorf("removing the folder of the cluster: %w", err)
	}
	return nil
}

// Compact makes etcd forget all revisions but the newest, and starts the API server again
// so that it has forgotten them, too: a watch from an older resource version is answered
// with 410 Gone.
func (c *Cluster) Compact() error {
	if err := c.plane.Compact(); err != nil {
		return err
	}
	c.APIServer.Kill()
	return c.APIServer.Start()
}

// mounted makes the file system in memory once.
var mounted = sync.OnceValues(func() (string, error) {
	folder := filepath.Join(os.Getenv(folderVariable), "memory")
	return folder, sandbox.Memory(folder)
})

func memory() (string, error) {
	if os.Getenv(folderVariable) == "" {
		return "", errors.New("the test does not run in a sandbox: let its TestMain call kube.Main")
	}
	parent, err := mounted()
	if err != nil {
		return "", err
	}
	folder, err := os.MkdirTemp(parent, "cluster-")
	if err != nil {
		return "", fmt.Errorf("making the folder of the cluster: %w", err)
	}
	// Containers whose user is not root look at their volumes in it.
	if err := os.Chmod(folder, 0o755); err != nil {
		return "", fmt.Errorf("opening the folder of the cluster: %w", err)
	}
	return folder, nil
}

// newLogs makes the folder of a test's logs: below $SLUICE_KUBE_LOGS, or .run/kube in the
// repository.
func newLogs(test string) (string, error) {
	parent := os.Getenv("SLUICE_KUBE_LOGS")
	if parent == "" {
		parent = filepath.Join(Root(), ".run", "kube")
	}
	folder := filepath.Join(parent, strings.ReplaceAll(test, "/", "_")+time.Now().Format("-20060102-150405.000"))
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", fmt.Errorf("making the folder of logs: %w", err)
	}
	return folder, nil
}
