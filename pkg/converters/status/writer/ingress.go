package writer

import (
	"context"
	"fmt"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applyv1 "k8s.io/client-go/applyconfigurations/networking/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/status"
)

// writeIngress applies the status of an Ingress.
func (c *Cluster) writeIngress(ctx context.Context, item status.Item) error {
	apply := applyv1.Ingress(item.Object.Name, item.Object.Namespace).WithStatus(applyv1.IngressStatus())
	if !item.Wanted.Withdraws() {
		apply.Status.WithLoadBalancer(applyv1.IngressLoadBalancerStatus().WithIngress(addressesOf(item.Wanted.LoadBalancer)...))
	}
	options := metav1.ApplyOptions{FieldManager: c.Name, Force: true}
	if _, err := c.Client.NetworkingV1().Ingresses(item.Object.Namespace).ApplyStatus(ctx, apply, options); err != nil {
		return fmt.Errorf("writing the status of %s: %w", item.Object, err)
	}
	return nil
}

func addressesOf(balancer *networkingv1.IngressLoadBalancerStatus) []*applyv1.IngressLoadBalancerIngressApplyConfiguration {
	var list []*applyv1.IngressLoadBalancerIngressApplyConfiguration
	for _, address := range balancer.Ingress {
		entry := applyv1.IngressLoadBalancerIngress()
		if address.IP != "" {
			entry.WithIP(address.IP)
		}
		if address.Hostname != "" {
			entry.WithHostname(address.Hostname)
		}
		for _, port := range address.Ports {
			entry.WithPorts(&applyv1.IngressPortStatusApplyConfiguration{Port: &port.Port, Protocol: &port.Protocol, Error: port.Error})
		}
		list = append(list, entry)
	}
	return list
}
