package cluster

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"

	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
)

// kind is one kind of object, and how it is followed.
type kind struct {
	name     snapshot.Kind
	resource schema.GroupVersionResource
	example  runtime.Object
	cluster  bool // has no namespace
	// optional: where it may not be read, sluice goes on as if there were none.
	optional bool
	// onDemand: only names and versions are watched.
	onDemand bool
	// needs is the resource of the Gateway API without which the kind is not followed: its own,
	// mostly. Empty: the kind is always there.
	needs  string
	client func(c Config, namespace string) client
	// trim cuts off what sluice does not read. The object belongs to the caller.
	trim func(object any) metav1.Object
}

// client lists and watches one kind in one namespace.
type client struct {
	list  func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// lister is what the typed clients have in common.
type lister[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

func clientOf[L runtime.Object](c lister[L]) client {
	return client{
		list:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return c.List(ctx, o) },
		watch: c.Watch,
	}
}

// kinds are what is followed in each cluster.
func kinds() []kind {
	return []kind{
		{
			name: snapshot.Ingress, resource: networkingv1.SchemeGroupVersion.WithResource("ingresses"), example: &networkingv1.Ingress{}, trim: trimIngress,
			client: func(c Config, ns string) client {
				return clientOf[*networkingv1.IngressList](c.Kubernetes.NetworkingV1().Ingresses(ns))
			},
		},
		{
			name: snapshot.IngressClass, resource: networkingv1.SchemeGroupVersion.WithResource("ingressclasses"), example: &networkingv1.IngressClass{}, trim: trimClass,
			cluster: true, optional: true,
			client: func(c Config, _ string) client {
				return clientOf[*networkingv1.IngressClassList](c.Kubernetes.NetworkingV1().IngressClasses())
			},
		},
		{
			name: snapshot.Service, resource: corev1.SchemeGroupVersion.WithResource("services"), example: &corev1.Service{}, trim: trimService,
			client: func(c Config, ns string) client {
				return clientOf[*corev1.ServiceList](c.Kubernetes.CoreV1().Services(ns))
			},
		},
		{
			name: snapshot.EndpointSlice, resource: discoveryv1.SchemeGroupVersion.WithResource("endpointslices"), example: &discoveryv1.EndpointSlice{}, trim: trimSlice,
			client: func(c Config, ns string) client {
				return clientOf[*discoveryv1.EndpointSliceList](c.Kubernetes.DiscoveryV1().EndpointSlices(ns))
			},
		},
		metadataOnly(snapshot.Secret, "secrets"),
		metadataOnly(snapshot.ConfigMap, "configmaps"),
	}
}

// metadataOnly is a kind whose content is read only where it is referenced.
func metadataOnly(name snapshot.Kind, resource string) kind {
	gvr := corev1.SchemeGroupVersion.WithResource(resource)
	return kind{
		name: name, resource: gvr, example: &metav1.PartialObjectMetadata{}, trim: trimMetadata, optional: true, onDemand: true,
		client: func(c Config, ns string) client {
			var of metadata.ResourceInterface = c.Metadata.Resource(gvr)
			if ns != "" {
				of = c.Metadata.Resource(gvr).Namespace(ns)
			}
			return clientOf[*metav1.PartialObjectMetadataList](of)
		},
	}
}

// scope is the part of a kind's objects that one reflector follows.
type scope struct {
	namespace string // empty: all
	name      string // empty: all
	service   string // of EndpointSlices; empty: all
}

// narrow adds the scope's selectors to a request.
func (s scope) narrow(o *metav1.ListOptions) {
	if s.name != "" {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, s.name).String()
	}
	if s.service != "" {
		o.LabelSelector = labels.Set{discoveryv1.LabelServiceName: s.service}.String()
	}
}

// scopes are the parts that are followed of a kind. They do not overlap.
func (k kind) scopes(c Config) []scope {
	if k.cluster || len(c.Namespaces) == 0 {
		return []scope{{}}
	}
	var list []scope
	for _, namespace := range c.Namespaces {
		list = append(list, scope{namespace: namespace})
	}
	for _, key := range c.Elsewhere {
		s, ok := k.elsewhere(key)
		covers := func(other scope) bool { return other == s || other == scope{namespace: s.namespace} }
		if ok && !slices.ContainsFunc(list, covers) {
			list = append(list, s)
		}
	}
	return list
}

// elsewhere is the scope that holds a kind's part of an object which a flag names.
func (k kind) elsewhere(key snapshot.Key) (scope, bool) {
	switch {
	case k.name != key.Kind:
		return scope{}, false
	case k.name == snapshot.ConfigMap:
		return scope{namespace: key.Namespace}, true
	case k.name == snapshot.EndpointSlice:
		return scope{namespace: key.Namespace, service: key.Name}, true
	}
	return scope{namespace: key.Namespace, name: key.Name}, true
}
