package cluster

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayclient "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned/typed/apis/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
)

// gatewayKinds are those of the Gateway API, and what only they need. Each is followed
// while a cluster serves it: CRDs may be installed later, and removed.
func gatewayKinds() []kind {
	list := []kind{
		gatewayKind[gatewayv1.GatewayClass](snapshot.GatewayClass, "gatewayclasses", func(c gatewayclient.GatewayV1Interface, _ string) client {
			return clientOf[*gatewayv1.GatewayClassList](c.GatewayClasses())
		}),
		gatewayKind[gatewayv1.Gateway](snapshot.Gateway, "gateways", func(c gatewayclient.GatewayV1Interface, ns string) client {
			return clientOf[*gatewayv1.GatewayList](c.Gateways(ns))
		}),
		gatewayKind[gatewayv1.ListenerSet](snapshot.ListenerSet, "listenersets", func(c gatewayclient.GatewayV1Interface, ns string) client {
			return clientOf[*gatewayv1.ListenerSetList](c.ListenerSets(ns))
		}),
		gatewayKind[gatewayv1.HTTPRoute](snapshot.HTTPRoute, "httproutes", func(c gatewayclient.GatewayV1Interface, ns string) client {
			return clientOf[*gatewayv1.HTTPRouteList](c.HTTPRoutes(ns))
		}),
		gatewayKind[gatewayv1.GRPCRoute](snapshot.GRPCRoute, "grpcroutes", func(c gatewayclient.GatewayV1Interface, ns string) client {
			return clientOf[*gatewayv1.GRPCRouteList](c.GRPCRoutes(ns))
		}),
		gatewayKind[gatewayv1.TLSRoute](snapshot.TLSRoute, "tlsroutes", func(c gatewayclient.GatewayV1Interface, ns string) client {
			return clientOf[*gatewayv1.TLSRouteList](c.TLSRoutes(ns))
		}),
		gatewayKind[gatewayv1.TCPRoute](snapshot.TCPRoute, "tcproutes", func(c gatewayclient.GatewayV1Interface, ns string) client {
			return clientOf[*gatewayv1.TCPRouteList](c.TCPRoutes(ns))
		}),
		gatewayKind[gatewayv1.UDPRoute](snapshot.UDPRoute, "udproutes", func(c gatewayclient.GatewayV1Interface, ns string) client {
			return clientOf[*gatewayv1.UDPRouteList](c.UDPRoutes(ns))
		}),
		gatewayKind[gatewayv1.ReferenceGrant](snapshot.ReferenceGrant, "referencegrants", func(c gatewayclient.GatewayV1Interface, ns string) client {
			return clientOf[*gatewayv1.ReferenceGrantList](c.ReferenceGrants(ns))
		}),
		gatewayKind[gatewayv1.BackendTLSPolicy](snapshot.BackendTLSPolicy, "backendtlspolicies", func(c gatewayclient.GatewayV1Interface, ns string) client {
			return clientOf[*gatewayv1.BackendTLSPolicyList](c.BackendTLSPolicies(ns))
		}),
	}
	list[0].cluster = true
	return append(list, kind{
		name: snapshot.Namespace, resource: corev1.SchemeGroupVersion.WithResource("namespaces"), example: &corev1.Namespace{}, trim: trimNamespace,
		cluster: true, optional: true, needs: "gateways",
		client: func(c Config, _ string) client {
			return clientOf[*corev1.NamespaceList](c.Kubernetes.CoreV1().Namespaces())
		},
	})
}

// typedObject is a pointer to a type of the API.
type typedObject[T any] interface {
	*T
	metav1.Object
	runtime.Object
}

func gatewayKind[T any, P typedObject[T]](name snapshot.Kind, resource string, of func(c gatewayclient.GatewayV1Interface, ns string) client) kind {
	gvr := schema.GroupVersionResource{Group: gatewayv1.GroupName, Version: gatewayv1.GroupVersion.Version, Resource: resource}
	return kind{
		name: name, resource: gvr, example: P(new(T)), trim: trimMetaOnly[T, P], optional: true, needs: resource,
		client: func(c Config, ns string) client { return of(c.Gateway.GatewayV1(), ns) },
	}
}

// trimMetaOnly keeps spec and status. The status is what the writer compares with, and holds
// the entries of other controllers, which it leaves as they are.
func trimMetaOnly[T any, P typedObject[T]](object any) metav1.Object {
	copied := *object.(P)
	trimmed := P(&copied)
	meta := trimMeta(metav1.ObjectMeta{Annotations: trimmed.GetAnnotations()})
	trimmed.SetAnnotations(meta.Annotations)
	trimmed.SetLabels(nil)
	trimmed.SetManagedFields(nil)
	trimmed.SetOwnerReferences(nil)
	trimmed.SetFinalizers(nil)
	trimmed.SetGenerateName("")
	trimmed.SetDeletionTimestamp(nil)
	trimmed.SetDeletionGracePeriodSeconds(nil)
	trimmed.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) // each object of a CRD says it
	return trimmed
}

// trimNamespace keeps the labels, by which listeners choose routes.
func trimNamespace(object any) metav1.Object {
	namespace := object.(*corev1.Namespace)
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: namespace.Name, ResourceVersion: namespace.ResourceVersion, Labels: namespace.Labels,
	}}
}
