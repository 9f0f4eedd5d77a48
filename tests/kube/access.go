package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/sluice-proxy/sluice/tests/kube/internal/plane"
)

// tokenSeconds is how long tokens for kubeconfigs are valid: longer than any test.
const tokenSeconds = 24 * 60 * 60

// ServiceAccount is how a service account talks to the API server: with its token, and so
// with the rights that RBAC grants it.
func (c *Cluster) ServiceAccount(ctx context.Context, namespace, name string) (*rest.Config, error) {
	seconds := int64(tokenSeconds)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	answer, err := c.Client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("token of service account %s/%s: %w", namespace, name, err)
	}
	config := c.plane.Anonymous()
	config.BearerToken = answer.Status.Token
	return config, nil
}

// Kubeconfig writes a kubeconfig for a user, such as Admin or a ServiceAccount, into the
// cluster's folder and returns its path.
func (c *Cluster) Kubeconfig(name string, user *rest.Config) (string, error) {
	file := filepath.Join(c.Folder, name+".kubeconfig")
	return file, plane.WriteKubeconfig(file, user)
}

// Apply creates or changes the objects of a YAML stream, in its order, as `kubectl apply
// --server-side` does. Namespaced objects without a namespace go to "default".
func (c *Cluster) Apply(ctx context.Context, manifests string) error {
	mapper, err := c.mapper()
	if err != nil {
		return err
	}
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifests), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading manifests: %w", err)
		}
		if len(object.Object) == 0 {
			continue // nothing between two separators
		}
		if err := c.apply(ctx, mapper, object); err != nil {
			return fmt.Errorf("applying %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
}

// mapper knows the resources that exist now.
func (c *Cluster) mapper() (meta.RESTMapper, error) {
	client, err := discovery.NewDiscoveryClientForConfig(c.Admin)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	groups, err := restmapper.GetAPIGroupResources(client)
	if err != nil {
		return nil, fmt.Errorf("asking for resources: %w", err)
	}
	return restmapper.NewDiscoveryRESTMapper(groups), nil
}

func (c *Cluster) apply(ctx context.Context, mapper meta.RESTMapper, object *unstructured.Unstructured) error {
	kind := object.GroupVersionKind()
	mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	var resource dynamic.ResourceInterface = c.Dynamic.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		namespace := object.GetNamespace()
		if namespace == "" {
			namespace = metav1.NamespaceDefault
		}
		resource = c.Dynamic.Resource(mapping.Resource).Namespace(namespace)
	}
	_, err = resource.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: "test", Force: true})
	return err
}
