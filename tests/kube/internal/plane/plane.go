package plane

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/sluice-proxy/sluice/tests/kube/internal/sandbox"
)

// Addresses of the control plane in the sandbox.
const (
	etcdURL        = "http://127.0.0.1:2379"
	etcdPeerURL    = "http://127.0.0.1:2380"
	APIServerPort  = "6443"
	KubeletPort    = 10250
	controllerPort = "10257"
	serviceRange   = "10.96.0.0/16"
	serviceOfAPI   = "10.96.0.1" // the first one of the range
)

// APIServerURL is where the API server listens, for the router and for pods.
const APIServerURL = "https://" + sandbox.RouterAddress + ":" + APIServerPort

// controllers are those whose work tests see, and what these need. See the package's
// comment for what is missing.
var controllers = []string{
	"clusterrole-aggregation-controller", "daemonset-controller", "deployment-controller", "endpoints-controller",
	"endpointslice-controller", "endpointslice-mirroring-controller", "garbage-collector-controller", "job-controller",
	"namespace-controller", "replicaset-controller", "resourcequota-controller", "root-ca-certificate-publisher-controller",
	"serviceaccount-controller", "serviceaccount-token-controller", "statefulset-controller", "ttl-after-finished-controller",
}

// Options of a control plane.
type Options struct {
	Programs string // folder with etcd, kube-apiserver and kube-controller-manager
	Folder   string // for data and certificates
	Logs     string
}

// Plane is a running control plane.
type Plane struct {
	Etcd, APIServer, Controllers *Part
	Authority                    *Authority

	o      Options
	client *http.Client
}

// Start starts all parts and waits until they serve.
func Start(o Options) (*Plane, error) {
	p := &Plane{o: o}
	if err := p.certificates(); err != nil {
		return nil, err
	}
	pair, err := tls.LoadX509KeyPair(p.Authority.File("admin.crt"), p.Authority.File("admin.key"))
	if err != nil {
		return nil, fmt.Errorf("reading the administrator's certificate: %w", err)
	}
	p.client = &http.Client{
		Timeout:   5 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: p.Authority.Pool(), Certificates: []tls.Certificate{pair}}, DisableKeepAlives: true},
	}
	p.Etcd, p.APIServer, p.Controllers = p.etcd(), p.apiServer(), p.controllers()
	for _, part := range []*Part{p.Etcd, p.APIServer, p.Controllers} {
		if err := part.Start(); err != nil {
			p.Stop()
			return nil, err
		}
	}
	return p, nil
}

// Stop ends all parts.
func (p *Plane) Stop() {
	// Killing is enough: nothing of them is used again.
	for _, part := range []*Part{p.Controllers, p.APIServer, p.Etcd} {
		part.Kill()
	}
}

func (p *Plane) certificates() error {
	authority, err := NewAuthority(filepath.Join(p.o.Folder, "pki"))
	if err != nil {
		return err
	}
	p.Authority = authority
	err = errors.Join(
		authority.Server("apiserver", sandbox.RouterAddress, "127.0.0.1", serviceOfAPI, "localhost",
			"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"),
		authority.Server("service-accounts"),
		authority.Server("controllers", "127.0.0.1", "localhost"),
		authority.Client("apiserver-kubelet", "kube-apiserver-kubelet-client"),
		authority.Client("controller-manager", "system:kube-controller-manager"),
		authority.Client("admin", "kubernetes-admin", "system:masters"),
	)
	if err != nil {
		return err
	}
	return WriteKubeconfig(p.File("controller-manager.kubeconfig"), p.Credentials("controller-manager"))
}

// File is a path in the folder of the control plane.
func (p *Plane) File(name string) string { return filepath.Join(p.o.Folder, name) }

func (p *Plane) etcd() *Part {
	return p.part("etcd", func() error { return p.ask(etcdURL + "/readyz") },
		"--name=default", "--data-dir="+p.File("etcd"), "--initial-cluster=default="+etcdPeerURL,
		"--listen-client-urls="+etcdURL, "--advertise-client-urls="+etcdURL,
		"--listen-peer-urls="+etcdPeerURL, "--initial-advertise-peer-urls="+etcdPeerURL,
		// The data lives in memory; a killed process loses nothing of what it wrote there.
		"--unsafe-no-fsync", "--logger=zap", "--log-level=warn")
}

func (p *Plane) apiServer() *Part {
	file := p.Authority.File
	return p.part("kube-apiserver", func() error { return p.ask(APIServerURL + "/readyz") },
		"--etcd-servers="+etcdURL, "--bind-address=0.0.0.0", "--secure-port="+APIServerPort,
		// Without a default route it can't guess its own address.
		"--advertise-address="+sandbox.RouterAddress,
		"--tls-cert-file="+file("apiserver.crt"), "--tls-private-key-file="+file("apiserver.key"), "--client-ca-file="+file("ca.crt"),
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true",
		"--service-cluster-ip-range="+serviceRange,
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file="+file("service-accounts.crt"), "--service-account-signing-key-file="+file("service-accounts.key"),
		"--kubelet-certificate-authority="+file("ca.crt"), "--kubelet-preferred-address-types=InternalIP",
		"--kubelet-client-certificate="+file("apiserver-kubelet.crt"), "--kubelet-client-key="+file("apiserver-kubelet.key"),
		"--shutdown-delay-duration=0s", "--profiling=false", "--v=1")
}

func (p *Plane) controllers() *Part {
	file, config := p.Authority.File, p.File("controller-manager.kubeconfig")
	return p.part("kube-controller-manager", func() error { return p.ask("https://127.0.0.1:" + controllerPort + "/healthz") },
		"--kubeconfig="+config, "--authentication-kubeconfig="+config, "--authorization-kubeconfig="+config,
		"--bind-address=127.0.0.1", "--secure-port="+controllerPort,
		"--tls-cert-file="+file("controllers.crt"), "--tls-private-key-file="+file("controllers.key"),
		"--client-ca-file="+file("ca.crt"), "--root-ca-file="+file("ca.crt"),
		"--service-account-private-key-file="+file("service-accounts.key"), "--use-service-account-credentials=true",
		"--controllers="+strings.Join(controllers, ","), "--leader-elect=false",
		"--kube-api-qps=200", "--kube-api-burst=400", "--v=1")
}

// ask gets a page and takes only the answer 200.
func (p *Plane) ask(url string) error {
	response, err := p.client.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", url, response.Status, body)
	}
	return err
}

// etcdCall sends a request to etcd's JSON gateway.
func (p *Plane) etcdCall(path string, request, response any) error {
	body, err := json.Marshal(request)
	if err != nil {
		panic(err) // plain values only
	}
	answer, err := p.client.Post(etcdURL+path, "application/json", bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("asking etcd: %w", err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return fmt.Errorf("asking etcd: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("etcd: %s: %s", answer.Status, text)
	}
	if err := json.Unmarshal(text, response); err != nil {
		return fmt.Errorf("reading etcd's answer: %w", err)
	}
	return nil
}

// Compact makes etcd forget all revisions but the newest. The API server still serves
// watches from what it remembers itself, until it is started again.
func (p *Plane) Compact() error {
	var now struct {
		Header struct {
			Revision string `json:"revision"`
		} `json:"header"`
	}
	// Any read tells the revision: this one is of a key that does not exist.
	if err := p.etcdCall("/v3/kv/range", map[string]any{"key": "AA=="}, &now); err != nil {
		return err
	}
	var done struct{}
	return p.etcdCall("/v3/kv/compaction", map[string]any{"revision": now.Header.Revision, "physical": true}, &done)
}
