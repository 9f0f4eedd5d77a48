package writer

import (
	"context"
	"fmt"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applyv1 "k8s.io/client-go/applyconfigurations/networking/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/converters/status"
)

// fieldManager is the name under which the API server keeps account of what is ours.
const fieldManager = "sluice"

const statusForbidden = "the role of the controller does not permit to write statuses; it is tried again: permit verb patch on ingresses/status of networking.k8s.io"

// work writes what is queued until ctx ends.
func (c *Cluster) work(ctx context.Context) error {
	for {
		key, shutDown := c.queue.Get()
		if shutDown {
			return nil
		}
		c.process(ctx, key)
		c.queue.Done(key)
	}
}

// process writes the status of one object, if there is still need.
func (c *Cluster) process(ctx context.Context, key snapshot.Key) {
	if c.limiter.Wait(ctx) != nil {
		return // ctx has ended
	}
	item, due := c.due(key)
	if !due {
		c.queue.Forget(key)
		return
	}
	err := c.write(ctx, item)
	switch {
	case err == nil:
		c.Metrics.wrote(string(key.Kind), resultOK)
		c.wrote(item)
		c.cured(statusForbidden)
	case ctx.Err() != nil:
	case apierrors.IsNotFound(err):
		c.Metrics.wrote(string(key.Kind), resultGone)
		c.queue.Forget(key)
	case apierrors.IsForbidden(err):
		c.Metrics.wrote(string(key.Kind), resultForbidden)
		c.complain(statusForbidden, "object", key, "error", err)
		c.queue.AddRateLimited(key)
	default:
		c.Metrics.wrote(string(key.Kind), resultError)
		c.Log.Warn("a status was not written; it is tried again", "object", key, "error", err)
		c.queue.AddRateLimited(key)
	}
}

// due is the newest item of an object, and whether it has to be written.
func (c *Cluster) due(key snapshot.Key) (status.Item, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	item, known := c.items[key]
	return item, known && c.leads && item.Differs()
}

// wrote notes what stands there now. The item may be a newer one meanwhile.
func (c *Cluster) wrote(item status.Item) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.written[item.Object] = item.Wanted
	if newest, known := c.items[item.Object]; known {
		newest.Present = item.Wanted
		c.items[item.Object] = newest
	}
}

// write applies the status of one object.
func (c *Cluster) write(ctx context.Context, item status.Item) error {
	if item.Object.Kind != snapshot.Ingress || item.Wanted.LoadBalancer == nil {
		panic("writer: no status of " + item.Object.String() + " can be written")
	}
	apply := applyv1.Ingress(item.Object.Name, item.Object.Namespace).WithStatus(applyv1.IngressStatus())
	if !item.Wanted.Withdraws() {
		apply.Status.WithLoadBalancer(applyv1.IngressLoadBalancerStatus().WithIngress(addressesOf(item.Wanted.LoadBalancer)...))
	}
	options := metav1.ApplyOptions{FieldManager: fieldManager, Force: true}
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
