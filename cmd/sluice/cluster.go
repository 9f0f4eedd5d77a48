package main

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	gatewayclient "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"

	"github.com/sluice-proxy/sluice/cmd/internal/options"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/converters/source/cluster"
)

// clients are the ways to the API server. Whoever speaks to it shares them.
type clients struct {
	kubernetes kubernetes.Interface
	metadata   metadata.Interface
	// Objects of CRDs come as JSON only.
	gateway gatewayclient.Interface
	dynamic dynamic.Interface
}

// newClients prepares the clients of --kubeconfig, else of the cluster that sluice runs in,
// else of the default kubeconfig. Nothing is sent yet.
func newClients(o *options.Options) (*clients, error) {
	config, err := restConfig(o.KubeConfig)
	if err != nil {
		return nil, err
	}
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("the way to the cluster: %w", err)
	}
	c := &clients{}
	if c.kubernetes, err = kubernetes.NewForConfigAndClient(config, httpClient); err != nil {
		return nil, fmt.Errorf("the way to the cluster: %w", err)
	}
	if c.metadata, err = metadata.NewForConfigAndClient(config, httpClient); err != nil {
		return nil, fmt.Errorf("the way to the cluster: %w", err)
	}
	plain := rest.CopyConfig(config)
	plain.ContentType, plain.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	if c.gateway, err = gatewayclient.NewForConfigAndClient(plain, httpClient); err != nil {
		return nil, fmt.Errorf("the way to the cluster: %w", err)
	}
	if c.dynamic, err = dynamic.NewForConfigAndClient(plain, httpClient); err != nil {
		return nil, fmt.Errorf("the way to the cluster: %w", err)
	}
	return c, nil
}

func restConfig(kubeconfig string) (*rest.Config, error) {
	config, err := (*rest.Config)(nil), rest.ErrNotInCluster
	if kubeconfig == "" {
		config, err = rest.InClusterConfig()
	}
	if errors.Is(err, rest.ErrNotInCluster) {
		rules := clientcmd.NewDefaultClientConfigLoadingRules()
		rules.ExplicitPath = kubeconfig
		config, err = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
	}
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, errors.New("there is nothing to serve: name manifests with --source, or a cluster with --kubeconfig; " +
			"sluice does not run in a cluster, and there is no default kubeconfig ($KUBECONFIG, ~/.kube/config)")
	case err != nil && kubeconfig != "":
		return nil, fmt.Errorf("--kubeconfig=%s: %w", kubeconfig, err)
	case err != nil:
		return nil, fmt.Errorf("the way to the cluster: %w; name a kubeconfig with --kubeconfig, or manifests with --source", err)
	}
	config.UserAgent = "sluice"
	config.QPS = -1 // no limit of the client's: the source bounds its requests, and the API server shares itself out
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	return config, nil
}

// newClusterSource follows the cluster of the clients.
func newClusterSource(o *options.Options, c *clients, log *slog.Logger) *cluster.Source {
	config := cluster.Config{
		Kubernetes: c.kubernetes, Metadata: c.metadata, Gateway: c.gateway, Log: log,
		Namespaces: slices.Compact(slices.Sorted(slices.Values(o.WatchNamespaces))), Elsewhere: named(o),
		Class: &networkingv1.IngressClass{
			ObjectMeta: metav1.ObjectMeta{Name: o.IngressClass}, Spec: networkingv1.IngressClassSpec{Controller: o.ControllerName()},
		},
	}
	if !o.GatewayAPI {
		config.Gateway = nil
	}
	return cluster.New(config)
}

// named are the objects that flags name. Of the published Service only the addresses count,
// so nobody needs the right to read its EndpointSlices.
func named(o *options.Options) []snapshot.Key {
	var keys []snapshot.Key
	for _, object := range []struct {
		kind snapshot.Kind
		name string
	}{
		{snapshot.ConfigMap, o.GlobalConfigMap()}, {snapshot.ConfigMap, o.TCPServicesConfigMap}, {snapshot.Secret, o.DefaultSSLCertificate},
		{snapshot.Service, o.DefaultBackendService}, {snapshot.EndpointSlice, o.DefaultBackendService}, {snapshot.Service, o.PublishService},
	} {
		if namespace, name, ok := options.SplitName(object.name); ok {
			keys = append(keys, snapshot.Key{Kind: object.kind, Namespace: namespace, Name: name})
		}
	}
	return keys
}
