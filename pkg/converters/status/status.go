package status

import (
	"encoding/json"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/gateway"
	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
)

// Status is what stands, or shall stand, in the status of an object. The part of the
// object's kind is set; the zero value says that nothing is wanted.
type Status struct {
	// LoadBalancer is that of an Ingress. An empty one, unlike nil, says that no address of
	// this controller shall stand there.
	LoadBalancer *networkingv1.IngressLoadBalancerStatus
	// Gateway is that of an object of the Gateway API.
	Gateway gateway.Status
	// Withdrawn says of a route or a policy that no entry of this controller shall stand there.
	Withdrawn bool
}

// IsZero tells whether nothing is wanted.
func (s Status) IsZero() bool { return s.LoadBalancer == nil && s.Gateway.IsZero() && !s.Withdrawn }

// Withdraws tells whether all that is wanted is that nothing of this controller's stands
// there.
func (s Status) Withdraws() bool {
	return s.LoadBalancer != nil && len(s.LoadBalancer.Ingress) == 0 || s.Withdrawn
}

// Equal tells whether two statuses say the same; a list that is missing is an empty one.
func (s Status) Equal(other Status) bool { return equality.Semantic.DeepEqual(s, other) }

// MarshalJSON writes the status as the object would show it, without what is not known yet.
func (s Status) MarshalJSON() ([]byte, error) {
	part := map[string]any{}
	switch g := s.Gateway; {
	case s.LoadBalancer != nil:
		part["loadBalancer"] = s.LoadBalancer
	case g.Class != nil:
		return withoutNulls(g.Class)
	case g.Gateway != nil:
		return withoutNulls(g.Gateway)
	case g.ListenerSet != nil:
		return withoutNulls(g.ListenerSet)
	case len(g.Parents) > 0:
		part["parents"] = g.Parents
	case len(g.Ancestors) > 0:
		part["ancestors"] = g.Ancestors
	}
	return withoutNulls(part)
}

// withoutNulls leaves out the times of conditions that nobody has set yet.
func withoutNulls(part any) ([]byte, error) {
	text, err := json.Marshal(part)
	if err != nil {
		return nil, err
	}
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		return nil, err
	}
	prune(tree)
	return json.Marshal(tree)
}

func prune(tree any) {
	switch tree := tree.(type) {
	case map[string]any:
		for name, value := range tree {
			if value == nil {
				delete(tree, name)
			}
			prune(value)
		}
	case []any:
		for _, value := range tree {
			prune(value)
		}
	}
}

// Item is the status of one object.
type Item struct {
	Object  snapshot.Key
	Wanted  Status // zero: nothing any more
	Present Status // as the source shows it; of an object of the Gateway API with what others wrote

	// Of an object of the Gateway API: whose entries are this controller's, and the version of
	// the object that shows what is present.
	Controller gatewayv1.GatewayController
	Version    string
}

// Differs tells whether there is anything to write.
func (i Item) Differs() bool {
	switch {
	case i.Wanted.IsZero():
		return false
	case i.Wanted.LoadBalancer != nil:
		return !i.Wanted.Equal(i.Present)
	}
	after := i.Merged(metav1.Time{})
	return !equality.Semantic.DeepEqual(after, i.Present.Gateway)
}

// Merged is the whole status that an object of the Gateway API shall have: that which is
// present, with what is wanted in it. Conditions that change now have the given time.
func (i Item) Merged(now metav1.Time) gateway.Status {
	return merging{i.Controller, now}.merge(i.Present.Gateway, i.Wanted.Gateway)
}

// Notice is a finding with what the API server must know of its object.
type Notice struct {
	report.Finding
	APIVersion string // empty: the object is none of Kubernetes
	UID        types.UID
}

// Notices are the findings with what a snapshot knows of their objects, in the same order.
func Notices(s *snapshot.Snapshot, findings []report.Finding) []Notice {
	notices := make([]Notice, len(findings))
	for i, f := range findings {
		kind := snapshot.Kind(f.Object.Kind)
		notices[i] = Notice{Finding: f, APIVersion: APIVersion(kind)}
		object := s.Object(snapshot.Key{Kind: kind, Namespace: f.Object.Namespace, Name: f.Object.Name})
		if object, ok := object.(interface{ GetUID() types.UID }); ok {
			notices[i].UID = object.GetUID()
		}
	}
	return notices
}

// APIVersion is the version in which sluice reads a kind; empty for what is no kind of Kubernetes.
func APIVersion(kind snapshot.Kind) string {
	switch kind {
	case snapshot.Ingress, snapshot.IngressClass:
		return "networking.k8s.io/v1"
	case snapshot.Service, snapshot.Secret, snapshot.ConfigMap, snapshot.Namespace:
		return "v1"
	case snapshot.EndpointSlice:
		return "discovery.k8s.io/v1"
	case snapshot.GatewayClass, snapshot.Gateway, snapshot.ListenerSet, snapshot.HTTPRoute, snapshot.GRPCRoute, snapshot.TLSRoute,
		snapshot.TCPRoute, snapshot.UDPRoute, snapshot.ReferenceGrant, snapshot.BackendTLSPolicy:
		return gatewayv1.GroupVersion.String()
	}
	return ""
}
