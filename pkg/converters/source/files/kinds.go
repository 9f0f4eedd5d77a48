package files

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	kjson "sigs.k8s.io/json"

	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// kind is how objects of one kind are read.
type kind struct {
	apiVersion string
	cluster    bool                  // has no namespace
	checkName  func(string) []string // complaints of the API server's validation
	// decode returns the object as a snapshot holds it, complaints about single fields
	// and the error that makes it unusable.
	decode func(raw []byte, key snapshot.Key) (object any, strict []error, err error)
	// alike are further versions of the group that clusters serve, with the same fields.
	alike []string
}

// reads tells whether the kind is read in a version.
func (k kind) reads(apiVersion string) bool {
	if apiVersion == k.apiVersion {
		return true
	}
	group, _, _ := strings.Cut(k.apiVersion, "/")
	return slices.ContainsFunc(k.alike, func(version string) bool { return apiVersion == group+"/"+version })
}

// kindOf is how a kind is read; false if sluice doesn't read it in any version.
func kindOf(name string) (kind, bool) {
	switch snapshot.Kind(name) {
	case snapshot.Ingress:
		return kind{apiVersion: "networking.k8s.io/v1", checkName: validation.IsDNS1123Subdomain, decode: typed(plain[networkingv1.Ingress])}, true
	case snapshot.IngressClass:
		return kind{apiVersion: "networking.k8s.io/v1", cluster: true, checkName: validation.IsDNS1123Subdomain, decode: typed(completeClass)}, true
	case snapshot.Service:
		return kind{apiVersion: "v1", checkName: validation.IsDNS1123Label, decode: typed(completeService)}, true
	case snapshot.EndpointSlice:
		return kind{apiVersion: "discovery.k8s.io/v1", checkName: validation.IsDNS1123Subdomain, decode: typed(completeSlice)}, true
	case snapshot.Secret:
		return kind{apiVersion: "v1", checkName: validation.IsDNS1123Subdomain, decode: typed(secretData)}, true
	case snapshot.ConfigMap:
		return kind{apiVersion: "v1", checkName: validation.IsDNS1123Subdomain, decode: typed(plain[corev1.ConfigMap])}, true
	case snapshot.Namespace:
		return kind{apiVersion: "v1", cluster: true, checkName: validation.IsDNS1123Label, decode: typed(completeNamespace)}, true
	}
	return gatewayKindOf(name)
}

// typed decodes into a T, and has complete fill it in and make of it what a snapshot holds.
func typed[T any, P interface {
	*T
	metav1.Object
}](complete func(*T) any) func([]byte, snapshot.Key) (any, []error, error) {
	return func(raw []byte, key snapshot.Key) (any, []error, error) {
		object := P(new(T))
		strict, err := kjson.UnmarshalStrict(raw, object)
		if err != nil {
			return nil, strict, err
		}
		object.SetNamespace(key.Namespace)
		object.SetManagedFields(nil) // of no use, and larger than the rest
		return complete(object), strict, nil
	}
}

// What follows fills in what the API server would (pkg/apis/*/v1/defaults.go of
// Kubernetes), as far as it makes a difference to a route.

func plain[T any](object *T) any { return object }

func completeClass(class *networkingv1.IngressClass) any {
	if p := class.Spec.Parameters; p != nil && p.Scope == nil {
		scope := networkingv1.IngressClassParametersReferenceScopeCluster
		p.Scope = &scope
	}
	return class
}

func completeService(service *corev1.Service) any {
	if service.Spec.Type == "" {
		service.Spec.Type = corev1.ServiceTypeClusterIP
	}
	for i := range service.Spec.Ports {
		port := &service.Spec.Ports[i]
		if port.Protocol == "" {
			port.Protocol = corev1.ProtocolTCP
		}
		if port.TargetPort == intstr.FromInt32(0) || port.TargetPort == intstr.FromString("") {
			port.TargetPort = intstr.FromInt32(port.Port)
		}
	}
	return service
}

func completeSlice(slice *discoveryv1.EndpointSlice) any {
	for i := range slice.Ports {
		port := &slice.Ports[i]
		if port.Name == nil {
			port.Name = new(string)
		}
		if port.Protocol == nil {
			tcp := corev1.ProtocolTCP
			port.Protocol = &tcp
		}
	}
	return slice
}

func completeNamespace(namespace *corev1.Namespace) any {
	if namespace.Labels == nil {
		namespace.Labels = map[string]string{}
	}
	namespace.Labels[corev1.LabelMetadataName] = namespace.Name
	return namespace
}

// secretData takes stringData over data, as the API server does.
func secretData(secret *corev1.Secret) any {
	data := &snapshot.SecretData{Type: string(secret.Type), Data: map[string]model.Secret{}}
	if data.Type == "" {
		data.Type = string(corev1.SecretTypeOpaque)
	}
	for name, value := range secret.Data {
		data.Data[name] = model.NewSecret(value)
	}
	for name, value := range secret.StringData {
		data.Data[name] = model.NewSecret([]byte(value))
	}
	return data
}

// oldVersion is the advice for an object that sluice would read in another version;
// empty if the object is of somebody else's kind that only has the same name.
func oldVersion(k kind, apiVersion, name string) string {
	group := func(v string) string {
		if g, _, ok := strings.Cut(v, "/"); ok {
			return g
		}
		return ""
	}
	if group(apiVersion) != group(k.apiVersion) && !(name == string(snapshot.Ingress) && group(apiVersion) == "extensions") {
		return ""
	}
	return fmt.Sprintf("%s is not read in version %s, which Kubernetes no longer serves; write it as %s", name, apiVersion, k.apiVersion)
}

// foreignAdvice says what to write instead of a kind that sluice does not read, where
// there is something.
func foreignAdvice(name string) string {
	if name == string(snapshot.Endpoints) {
		return "; write EndpointSlices (discovery.k8s.io/v1) instead"
	}
	return ""
}
