package writer

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/converters/status"
)

// forbiddenStatus is the complaint about a permission that is missing.
func forbiddenStatus(kind snapshot.Kind) string {
	resource := resourceOf(kind)
	return fmt.Sprintf("the role of the controller does not permit to write statuses; it is tried again: permit verb patch on %s/status of %s", resource.Resource, resource.Group)
}

// resourceOf is the resource of a kind that has a status.
func resourceOf(kind snapshot.Kind) schema.GroupVersionResource {
	group, err := schema.ParseGroupVersion(status.APIVersion(kind))
	if err != nil {
		panic(err) // of our own table
	}
	names := map[snapshot.Kind]string{
		snapshot.Ingress: "ingresses", snapshot.GatewayClass: "gatewayclasses", snapshot.Gateway: "gateways", snapshot.ListenerSet: "listenersets",
		snapshot.HTTPRoute: "httproutes", snapshot.GRPCRoute: "grpcroutes", snapshot.TLSRoute: "tlsroutes", snapshot.TCPRoute: "tcproutes",
		snapshot.UDPRoute: "udproutes", snapshot.BackendTLSPolicy: "backendtlspolicies",
	}
	if names[kind] == "" {
		panic("writer: no status of kind " + string(kind) + " can be written")
	}
	return group.WithResource(names[kind])
}

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

// process writes the status of one object, and what is made for it, if there is still need.
func (c *Cluster) process(ctx context.Context, key snapshot.Key) {
	if c.limiter.Wait(ctx) != nil {
		return // ctx has ended
	}
	item, post, due := c.due(key)
	if due && !c.carryOut(ctx, item, post) {
		return
	}
	if key.Kind == snapshot.Gateway && !c.settleInfrastructure(ctx, key) {
		return
	}
	if !due {
		c.queue.Forget(key)
	}
}

// carryOut writes a status; false says that it failed and is tried again.
func (c *Cluster) carryOut(ctx context.Context, item status.Item, post uint64) bool {
	written, err := c.write(ctx, item)
	if err == nil {
		c.wrote(item, written, post)
		c.Metrics.wrote(string(item.Object.Kind), resultOK)
		c.cured(forbiddenStatus(item.Object.Kind))
		return true
	}
	return c.failed(ctx, item.Object, forbiddenStatus(item.Object.Kind), err)
}

// failed looks at why a write failed; the result says that nothing is to be tried again.
func (c *Cluster) failed(ctx context.Context, key snapshot.Key, forbidden string, err error) bool {
	switch {
	case ctx.Err() != nil:
		return false
	case apierrors.IsNotFound(err):
		c.Metrics.wrote(string(key.Kind), resultGone)
		c.queue.Forget(key)
		return true
	case apierrors.IsForbidden(err):
		c.Metrics.wrote(string(key.Kind), resultForbidden)
		c.complain(forbidden, "object", key, "error", err)
	default:
		c.Metrics.wrote(string(key.Kind), resultError)
		c.Log.Warn("a status was not written; it is tried again", "object", key, "error", err)
	}
	c.queue.AddRateLimited(key)
	return false
}

// due is the newest item of an object, which post it is, and whether it has to be written.
func (c *Cluster) due(key snapshot.Key) (item status.Item, post uint64, due bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	item, known := c.items[key]
	return item, c.posted[key], known && c.leads && item.Differs()
}

// wrote notes what stands there now. What was posted meanwhile counts as it is: it may show
// that somebody has undone the write already.
func (c *Cluster) wrote(item, written status.Item, post uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	newest, known := c.items[item.Object]
	if !known {
		return
	}
	c.written[item.Object] = item.Wanted
	if c.posted[item.Object] == post {
		newest.Present, newest.Version = written.Present, written.Version
		c.items[item.Object] = newest
	}
	c.paces[item.Object] = c.paces[item.Object].wrote(time.Now())
}

// write writes the status of one object, and returns what stands there then.
func (c *Cluster) write(ctx context.Context, item status.Item) (status.Item, error) {
	if item.Object.Kind != snapshot.Ingress {
		return c.writeGateway(ctx, item)
	}
	err := c.writeIngress(ctx, item)
	item.Present = item.Wanted
	return item, err
}
