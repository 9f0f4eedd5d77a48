package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
)

// controllerName is the spec.controller of the class.
const controllerName = "sluice-proxy.github.io/controller"

const className = "sluice"

// namespaces is the number of namespaces that Services are spread over.
const namespaces = 50

// cluster describes objects of one shape: Services with their endpoints, and for each one an
// Ingress with one host. The objects are as a cluster holds them, with what sluice does not
// read but has to keep (names of pods and nodes, labels).
type cluster struct {
	services, endpoints int
	pods                []string      // addresses of all endpoints; nil: each has one of its own
	port                int32         // of the pods
	secrets             []keyPair     // of the hosts; empty: no TLS
	share               func(int) int // the Service that an Ingress names; nil: its own
	ingresses           int           // 0: as many as Services
}

// changes are all objects.
func (c cluster) changes() []snapshot.Change {
	class := &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: className}, Spec: networkingv1.IngressClassSpec{Controller: controllerName}}
	list := []snapshot.Change{{Key: snapshot.Key{Kind: snapshot.IngressClass, Name: className}, Object: class}}
	for i := range c.services {
		list = append(list, c.service(i), c.slice(i, 0))
	}
	ingresses := c.ingresses
	if ingresses == 0 {
		ingresses = c.services
	}
	for i := range ingresses {
		list = append(list, c.ingress(i))
		if len(c.secrets) > 0 {
			list = append(list, c.secret(i))
		}
	}
	return list
}

func nameOf(i int) string { return fmt.Sprintf("app-%05d", i) }

func namespaceOf(i int) string { return fmt.Sprintf("team-%02d", i%namespaces) }

func hostOf(i int) string { return nameOf(i) + ".example.com" }

func meta(i int, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: namespaceOf(i), Name: name, UID: uid(name), ResourceVersion: fmt.Sprint(1_000_000 + i), Generation: 1,
		Labels: map[string]string{"app.kubernetes.io/name": nameOf(i), "app.kubernetes.io/managed-by": "Helm"},
	}
}

func uid(name string) types.UID {
	return types.UID(fmt.Sprintf("%08x-0000-4000-8000-%012x", len(name), []byte(name)[max(0, len(name)-6):]))
}

func (c cluster) service(i int) snapshot.Change {
	s := &corev1.Service{ObjectMeta: meta(i, nameOf(i))}
	s.Spec.Type = corev1.ServiceTypeClusterIP
	s.Spec.Selector = map[string]string{"app.kubernetes.io/name": nameOf(i)}
	s.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(c.port)}}
	return change(snapshot.Service, s, s)
}

// slice holds the endpoints of a Service. Each version of it has another first address.
func (c cluster) slice(i, version int) snapshot.Change {
	s := &discoveryv1.EndpointSlice{ObjectMeta: meta(i, nameOf(i)+"-x7k2p"), AddressType: discoveryv1.AddressTypeIPv4}
	s.Labels[discoveryv1.LabelServiceName] = nameOf(i)
	s.Ports = []discoveryv1.EndpointPort{{Name: new("http"), Port: new(c.port), Protocol: new(corev1.ProtocolTCP)}}
	for j := range c.endpoints {
		pod := fmt.Sprintf("%s-6d4cf56db6-%05d", nameOf(i), j)
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			Addresses:  []string{c.address(i, j, version)},
			Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
			NodeName:   new(fmt.Sprintf("node-%03d", (i+j)%300)),
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: namespaceOf(i), Name: pod, UID: uid(pod)},
		})
	}
	return change(snapshot.EndpointSlice, s, s)
}

// address is that of an endpoint. Those of pods never begin with 11; versions of the first
// one do.
func (c cluster) address(i, j, version int) string {
	switch {
	case c.pods != nil:
		return c.pods[(i+j)%len(c.pods)]
	case j == 0 && version > 0:
		return fmt.Sprintf("11.%d.%d.%d", i>>8, i&255, 1+version%250)
	}
	return fmt.Sprintf("10.%d.%d.%d", i>>8, i&255, 1+j)
}

func (c cluster) ingress(i int) snapshot.Change {
	target := i
	if c.share != nil {
		target = c.share(i)
	}
	prefix := networkingv1.PathTypePrefix
	backend := networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: nameOf(target), Port: networkingv1.ServiceBackendPort{Number: 80}}}
	ing := &networkingv1.Ingress{ObjectMeta: meta(target, "web-"+nameOf(i))}
	ing.Spec.IngressClassName = new(className)
	ing.Spec.Rules = []networkingv1.IngressRule{{Host: hostOf(i), IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
		Paths: []networkingv1.HTTPIngressPath{{Path: "/", PathType: &prefix, Backend: backend}},
	}}}}
	if len(c.secrets) > 0 {
		ing.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{hostOf(i)}, SecretName: "tls-" + nameOf(i)}}
	}
	return change(snapshot.Ingress, ing, ing)
}

func (c cluster) secret(i int) snapshot.Change {
	pair := c.secrets[i]
	data := &snapshot.SecretData{Type: string(corev1.SecretTypeTLS), Data: pair.data()}
	return snapshot.Change{Key: snapshot.Key{Kind: snapshot.Secret, Namespace: namespaceOf(i), Name: "tls-" + nameOf(i)}, Object: data}
}

// settings is the global ConfigMap.
func settings(data map[string]string) snapshot.Change {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: configMap.Namespace, Name: configMap.Name}, Data: data}
	return change(snapshot.ConfigMap, object, object)
}

func change(kind snapshot.Kind, object any, of metav1.Object) snapshot.Change {
	return snapshot.Change{Key: snapshot.Key{Kind: kind, Namespace: of.GetNamespace(), Name: of.GetName()}, Object: object}
}
