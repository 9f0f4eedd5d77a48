package writer

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/gateway"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/converters/status"
)

// conflicts is how often in a row somebody else may write before us until the write counts
// as failed.
const conflicts = 5

// writeGateway writes the whole status of an object of the Gateway API in one request. The
// lists in it are shared with other controllers and replaced as a whole, so it is refused if
// the object is not the version that was merged with: then it is read and merged anew.
func (c *Cluster) writeGateway(ctx context.Context, item status.Item) (status.Item, error) {
	objects := c.objects(item.Object)
	for range conflicts {
		merged := item.Merged(metav1.Now())
		patch := patchOf(item, merged)
		answer, err := objects.Patch(ctx, item.Object.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: c.Name}, "status")
		if err == nil {
			item.Present.Gateway, item.Version = merged, answer.GetResourceVersion()
			return item, nil
		}
		if !apierrors.IsConflict(err) {
			return item, fmt.Errorf("writing the status of %s: %w", item.Object, err)
		}
		if item, err = c.reread(ctx, item); err != nil {
			return item, err
		}
		if !item.Differs() {
			return item, nil
		}
	}
	return item, fmt.Errorf("writing the status of %s: others write it all the time", item.Object)
}

func (c *Cluster) objects(key snapshot.Key) dynamic.ResourceInterface {
	objects := c.Dynamic.Resource(resourceOf(key.Kind))
	if key.Namespace == "" {
		return objects
	}
	return objects.Namespace(key.Namespace)
}

// reread is the item with what the object shows now.
func (c *Cluster) reread(ctx context.Context, item status.Item) (status.Item, error) {
	fresh, err := c.objects(item.Object).Get(ctx, item.Object.Name, metav1.GetOptions{})
	if err != nil {
		return item, fmt.Errorf("reading %s again: %w", item.Object, err)
	}
	typed := newObject(item.Object.Kind)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fresh.Object, typed); err != nil {
		return item, fmt.Errorf("reading %s again: %w", item.Object, err)
	}
	item.Present.Gateway, item.Version = status.Shown(typed), fresh.GetResourceVersion()
	return item, nil
}

func newObject(kind snapshot.Kind) any {
	switch kind {
	case snapshot.GatewayClass:
		return &gatewayv1.GatewayClass{}
	case snapshot.Gateway:
		return &gatewayv1.Gateway{}
	case snapshot.ListenerSet:
		return &gatewayv1.ListenerSet{}
	case snapshot.HTTPRoute:
		return &gatewayv1.HTTPRoute{}
	case snapshot.GRPCRoute:
		return &gatewayv1.GRPCRoute{}
	case snapshot.TLSRoute:
		return &gatewayv1.TLSRoute{}
	case snapshot.TCPRoute:
		return &gatewayv1.TCPRoute{}
	case snapshot.UDPRoute:
		return &gatewayv1.UDPRoute{}
	case snapshot.BackendTLSPolicy:
		return &gatewayv1.BackendTLSPolicy{}
	}
	panic("writer: no kind of the Gateway API with a status: " + string(kind))
}

// patchOf is the merge patch from what is present to what shall stand there.
func patchOf(item status.Item, merged gateway.Status) []byte {
	fields := fieldsOf(item.Object.Kind, merged)
	for name := range fieldsOf(item.Object.Kind, item.Present.Gateway) {
		if _, stays := fields[name]; !stays {
			fields[name] = nil
		}
	}
	metadata := map[string]any{}
	if item.Version != "" {
		metadata["resourceVersion"] = item.Version
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata, "status": fields})
	if err != nil {
		panic(fmt.Sprintf("writer: the status of %s: %v", item.Object, err)) // plain texts and numbers
	}
	return patch
}

// fieldsOf are the fields of a status of a kind.
func fieldsOf(kind snapshot.Kind, s gateway.Status) map[string]any {
	var part any
	switch kind {
	case snapshot.GatewayClass:
		part = s.Class
	case snapshot.Gateway:
		part = s.Gateway
	case snapshot.ListenerSet:
		part = s.ListenerSet
	case snapshot.BackendTLSPolicy:
		part = &gatewayv1.PolicyStatus{Ancestors: orEmpty(s.Ancestors)}
	default:
		part = &gatewayv1.RouteStatus{Parents: orEmpty(s.Parents)}
	}
	text, err := json.Marshal(part)
	fields := map[string]any{}
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	if err != nil {
		panic(fmt.Sprintf("writer: a status of %s: %v", kind, err)) // types of the API
	}
	return fields
}

// orEmpty makes a list that is required, and may be empty.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
