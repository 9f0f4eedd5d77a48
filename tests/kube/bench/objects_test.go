//go:build bench

package bench

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

func hostOf(i int) string { return fmt.Sprintf("app-%05d.example.com", i) }

func place(i int) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: fmt.Sprintf("team-%02d", i%namespaces), Name: fmt.Sprintf("app-%05d", i)}
}

func namespaceOf(i int) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("team-%02d", i)}}
}

// service i has no selector: no controller makes slices for it.
func service(i int) *corev1.Service {
	return &corev1.Service{ObjectMeta: place(i), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}}}
}

// slice is the EndpointSlice of Service i after a number of changes: each gives it another
// first endpoint.
func slice(i, turn int) *discoveryv1.EndpointSlice {
	meta := place(i)
	meta.Labels = map[string]string{discoveryv1.LabelServiceName: meta.Name}
	port, name, ready := int32(podPort), "http", true
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: meta, AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &port}},
	}
	for j := range endpoints {
		number := (i*endpoints + j) % 30_000
		if j == 0 && turn > 0 {
			number = 30_000 + (i*17+turn)%30_000
		}
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			Addresses:  []string{fmt.Sprintf("10.200.%d.%d", number/250, number%250+1)},
			Conditions: discoveryv1.EndpointConditions{Ready: &ready},
		})
	}
	return s
}

func ingress(i int) *networkingv1.Ingress {
	meta := place(i)
	kind := networkingv1.PathTypePrefix
	backend := networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: meta.Name, Port: networkingv1.ServiceBackendPort{Number: 80}}}
	rule := networkingv1.IngressRule{Host: hostOf(i)}
	rule.HTTP = &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{Path: "/", PathType: &kind, Backend: backend}}}
	return &networkingv1.Ingress{ObjectMeta: meta, Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{rule}}}
}

func create(ctx context.Context, client kubernetes.Interface, object any) error {
	var err error
	switch o := object.(type) {
	case *corev1.Namespace:
		_, err = client.CoreV1().Namespaces().Create(ctx, o, metav1.CreateOptions{})
	case *corev1.Service:
		_, err = client.CoreV1().Services(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
	case *discoveryv1.EndpointSlice:
		_, err = client.DiscoveryV1().EndpointSlices(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
	case *networkingv1.Ingress:
		_, err = client.NetworkingV1().Ingresses(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
	default:
		panic(fmt.Sprintf("bench: no way to create a %T", object))
	}
	if err != nil {
		return fmt.Errorf("creating a %T: %w", object, err)
	}
	return nil
}
