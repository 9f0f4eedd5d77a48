package status

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
)

// Address is one entry of an Ingress' status: an IP address or a host name.
type Address = networkingv1.IngressLoadBalancerIngress

// Publish says where the addresses of Ingresses come from: a Service if one is named, else
// the addresses that are given, which may be those of nodes.
type Publish struct {
	Service   snapshot.Key
	Addresses []string // IP addresses and host names
}

// Resolve is the list of addresses, sorted and unique; none while the Service has none.
func (p Publish) Resolve(s *snapshot.Snapshot) []Address {
	if p.Service == (snapshot.Key{}) {
		return sorted(addressesOf(p.Addresses))
	}
	service, _ := s.Object(p.Service).(*corev1.Service)
	if service == nil {
		return nil
	}
	return sorted(serviceAddresses(service))
}

// serviceAddresses are the addresses under which a Service is reached from as far outside
// as it can be: those of its load balancer, its external ones, else those in the cluster.
func serviceAddresses(service *corev1.Service) []Address {
	external := addressesOf(service.Spec.ExternalIPs)
	switch service.Spec.Type {
	case corev1.ServiceTypeExternalName:
		return addressesOf([]string{service.Spec.ExternalName})
	case corev1.ServiceTypeLoadBalancer:
		return append(balancerAddresses(service.Status.LoadBalancer.Ingress), external...)
	}
	if len(external) > 0 {
		return external
	}
	if len(service.Spec.ClusterIPs) > 0 {
		return addressesOf(service.Spec.ClusterIPs)
	}
	return addressesOf([]string{service.Spec.ClusterIP})
}

// balancerAddresses are those of a load balancer. Of its ports those with an error stay:
// the others say no more than the Ingress does.
func balancerAddresses(list []corev1.LoadBalancerIngress) []Address {
	var addresses []Address
	for _, entry := range list {
		for _, address := range addressesOf([]string{cmp.Or(entry.IP, entry.Hostname)}) {
			for _, port := range entry.Ports {
				if port.Error != nil {
					address.Ports = append(address.Ports, networkingv1.IngressPortStatus{Port: port.Port, Protocol: port.Protocol, Error: port.Error})
				}
			}
			addresses = append(addresses, address)
		}
	}
	return addresses
}

// addressesOf turns texts into addresses. An empty one and the "None" of a headless Service
// are none.
func addressesOf(texts []string) []Address {
	var addresses []Address
	for _, text := range texts {
		switch ip, err := netip.ParseAddr(text); {
		case err == nil:
			addresses = append(addresses, Address{IP: ip.String()})
		case text != "" && text != corev1.ClusterIPNone:
			addresses = append(addresses, Address{Hostname: text})
		}
	}
	return addresses
}

// sorted orders addresses by name, then by IP, and drops repetitions.
func sorted(addresses []Address) []Address {
	order := func(a, b Address) int {
		return cmp.Or(cmp.Compare(a.Hostname, b.Hostname), cmp.Compare(a.IP, b.IP))
	}
	slices.SortStableFunc(addresses, order)
	return slices.CompactFunc(addresses, func(a, b Address) bool { return order(a, b) == 0 })
}
