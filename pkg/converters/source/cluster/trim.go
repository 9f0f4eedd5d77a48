package cluster

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// trimMeta keeps what names an object, tells its age and version, and its annotations.
func trimMeta(meta metav1.ObjectMeta) metav1.ObjectMeta {
	if _, ok := meta.Annotations[corev1.LastAppliedConfigAnnotation]; ok {
		meta.Annotations = maps.Clone(meta.Annotations)
		delete(meta.Annotations, corev1.LastAppliedConfigAnnotation)
	}
	if len(meta.Annotations) == 0 {
		meta.Annotations = nil
	}
	return metav1.ObjectMeta{
		Namespace: meta.Namespace, Name: meta.Name, UID: meta.UID, ResourceVersion: meta.ResourceVersion,
		Generation: meta.Generation, CreationTimestamp: meta.CreationTimestamp, Annotations: meta.Annotations,
	}
}

// The functions that follow make a new object of the parts that are kept, so that the rest
// of the decoded one can be freed.

// trimIngress keeps the addresses of the status, so that only differences are written.
func trimIngress(object any) metav1.Object {
	ingress := object.(*networkingv1.Ingress)
	return &networkingv1.Ingress{
		ObjectMeta: trimMeta(ingress.ObjectMeta), Spec: ingress.Spec,
		Status: networkingv1.IngressStatus{LoadBalancer: ingress.Status.LoadBalancer},
	}
}

func trimClass(object any) metav1.Object {
	class := object.(*networkingv1.IngressClass)
	return &networkingv1.IngressClass{ObjectMeta: trimMeta(class.ObjectMeta), Spec: class.Spec}
}

// trimService keeps the load balancer's addresses, which become those of Ingresses.
func trimService(object any) metav1.Object {
	service := object.(*corev1.Service)
	return &corev1.Service{
		ObjectMeta: trimMeta(service.ObjectMeta),
		Spec: corev1.ServiceSpec{
			Type: service.Spec.Type, Ports: service.Spec.Ports, ExternalName: service.Spec.ExternalName,
			ClusterIP: service.Spec.ClusterIP, ClusterIPs: service.Spec.ClusterIPs, ExternalIPs: service.Spec.ExternalIPs,
			PublishNotReadyAddresses: service.Spec.PublishNotReadyAddresses, TrafficDistribution: service.Spec.TrafficDistribution,
		},
		Status: corev1.ServiceStatus{LoadBalancer: service.Status.LoadBalancer},
	}
}

// trimSlice keeps of a target its UID, which may be a server's cookie. The annotations tell
// when the slice last changed, which would make a change of nothing.
func trimSlice(object any) metav1.Object {
	slice := object.(*discoveryv1.EndpointSlice)
	trimmed := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: slice.Namespace, Name: slice.Name, ResourceVersion: slice.ResourceVersion,
			Labels: map[string]string{discoveryv1.LabelServiceName: slice.Labels[discoveryv1.LabelServiceName]},
		},
		AddressType: slice.AddressType,
		Ports:       slice.Ports,
		Endpoints:   make([]discoveryv1.Endpoint, len(slice.Endpoints)),
	}
	for i := range slice.Endpoints {
		endpoint := &slice.Endpoints[i]
		trimmed.Endpoints[i] = discoveryv1.Endpoint{Addresses: endpoint.Addresses, Conditions: endpoint.Conditions, Hints: endpoint.Hints}
		if endpoint.TargetRef != nil && endpoint.TargetRef.UID != "" {
			trimmed.Endpoints[i].TargetRef = &corev1.ObjectReference{UID: endpoint.TargetRef.UID}
		}
	}
	return trimmed
}

func trimMetadata(object any) metav1.Object {
	meta := object.(*metav1.PartialObjectMetadata)
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: meta.Namespace, Name: meta.Name, ResourceVersion: meta.ResourceVersion,
	}}
}
