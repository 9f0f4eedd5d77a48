package plane

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/sluice-proxy/sluice/tests/kube/internal/sandbox"
)

// Credentials is how the holder of a certificate of the authority talks to the API
// server. Nobody is slowed down by the client's own limits.
func (p *Plane) Credentials(name string) *rest.Config {
	config := p.Anonymous()
	config.TLSClientConfig.CertFile, config.TLSClientConfig.KeyFile = p.Authority.File(name+".crt"), p.Authority.File(name+".key")
	return config
}

// Anonymous is how somebody without credentials talks to the API server.
func (p *Plane) Anonymous() *rest.Config {
	return &rest.Config{
		Host: APIServerURL, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAFile: p.Authority.File("ca.crt")},
	}
}

// WriteKubeconfig writes what a rest.Config says of server and user as a kubeconfig.
func WriteKubeconfig(file string, c *rest.Config) error {
	config := clientcmdapi.NewConfig()
	config.Clusters["test"] = &clientcmdapi.Cluster{Server: c.Host, CertificateAuthority: c.CAFile}
	config.AuthInfos["test"] = &clientcmdapi.AuthInfo{ClientCertificate: c.CertFile, ClientKey: c.KeyFile, Token: c.BearerToken}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test"}
	config.CurrentContext = "test"
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		return fmt.Errorf("writing a kubeconfig: %w", err)
	}
	return nil
}

// Host is the address of the API server without its port.
const Host = sandbox.RouterAddress
