package writer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/gateway"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/converters/status"
)

const forbiddenService = "the role of the controller does not permit to make Services of Gateways; it is tried again: permit verbs create and patch on services"

// labelManagedBy marks what sluice makes.
const labelManagedBy = "app.kubernetes.io/managed-by"

// serviceName is the name of a Gateway's Service: that of the Gateway, and a digest where it
// would be too long for a Service.
func serviceName(gateway string) string {
	const most = 63
	name := "sluice-" + gateway
	if len(name) <= most && !strings.Contains(name, ".") {
		return name
	}
	digest := sha256.Sum256([]byte(gateway))
	end := "-" + hex.EncodeToString(digest[:4])
	// A Service's name is one DNS label.
	return strings.ReplaceAll(name[:min(len(name), most-len(end))], ".", "-") + end
}

// toMake tells whether a Gateway's Service is to be made or taken away. The lock is held.
func (c *Cluster) toMake(item status.Item) bool {
	if item.Object.Kind != snapshot.Gateway {
		return false
	}
	made, known := c.made[item.Object]
	wanted := item.Wanted.Gateway.Infrastructure
	if wanted == nil {
		return known
	}
	return !known || !reflect.DeepEqual(made, *wanted)
}

// settleInfrastructure makes the Service of a Gateway, or takes from it what is not wanted any
// more; false says that it failed and is tried again. The Service itself goes with its Gateway:
// Kubernetes' garbage collector sees to that, and sluice needs no right to delete anything.
func (c *Cluster) settleInfrastructure(ctx context.Context, key snapshot.Key) bool {
	c.mu.Lock()
	item := c.items[key]
	item.Object = key
	due := c.leads && c.toMake(item)
	bare := gateway.Infrastructure{UID: c.made[key].UID}
	c.mu.Unlock()
	if !due {
		return true
	}
	wanted := item.Wanted.Gateway.Infrastructure
	if wanted == nil {
		wanted = &bare
	}
	if err := c.makeService(ctx, key, wanted); err != nil {
		return c.failed(ctx, key, forbiddenService, err)
	}
	c.Metrics.wrote("Service", resultOK)
	c.cured(forbiddenService)
	c.mu.Lock()
	defer c.mu.Unlock()
	if wanted == &bare {
		delete(c.made, key)
	} else {
		c.made[key] = *wanted
	}
	return true
}

// makeService applies the Service. It has no selector and no cluster IP: it stands for the
// Gateway among the objects of a cluster, and leads nowhere.
func (c *Cluster) makeService(ctx context.Context, key snapshot.Key, wanted *gateway.Infrastructure) error {
	labels := maps.Clone(wanted.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[gatewayv1.GatewayNameLabelKey] = key.Name
	labels[labelManagedBy] = component
	spec := applycorev1.ServiceSpec().WithType(corev1.ServiceTypeClusterIP).WithClusterIP(corev1.ClusterIPNone)
	for _, port := range wanted.Ports {
		name, protocol := fmt.Sprintf("tcp-%d", port.Port), corev1.ProtocolTCP
		if port.UDP {
			name, protocol = fmt.Sprintf("udp-%d", port.Port), corev1.ProtocolUDP
		}
		spec.WithPorts(applycorev1.ServicePort().WithName(name).WithPort(port.Port).WithProtocol(protocol))
	}
	owner := applymetav1.OwnerReference().WithAPIVersion(gatewayv1.GroupVersion.String()).WithKind(string(snapshot.Gateway)).
		WithName(key.Name).WithUID(wanted.UID).WithController(true)
	apply := applycorev1.Service(serviceName(key.Name), key.Namespace).WithLabels(labels).WithAnnotations(wanted.Annotations).
		WithOwnerReferences(owner).WithSpec(spec)
	options := metav1.ApplyOptions{FieldManager: c.Name, Force: true}
	if _, err := c.Client.CoreV1().Services(key.Namespace).Apply(ctx, apply, options); err != nil {
		return fmt.Errorf("making the Service of %s: %w", key, err)
	}
	return nil
}
