package status

import (
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
)

// Status is what stands, or shall stand, in the status of an object. The part of the
// object's kind is set; the zero value says that nothing is wanted.
type Status struct {
	// LoadBalancer is that of an Ingress. An empty one, unlike nil, says that no address of
	// this controller shall stand there.
	LoadBalancer *networkingv1.IngressLoadBalancerStatus `json:"loadBalancer,omitempty"`
}

// IsZero tells whether nothing is wanted.
func (s Status) IsZero() bool { return s.LoadBalancer == nil }

// Withdraws tells whether all that is wanted is that nothing of this controller's stands
// there.
func (s Status) Withdraws() bool {
	return s.LoadBalancer != nil && len(s.LoadBalancer.Ingress) == 0
}

// Equal tells whether two statuses say the same; a list that is missing is an empty one.
func (s Status) Equal(other Status) bool { return equality.Semantic.DeepEqual(s, other) }

// Item is the status of one object.
type Item struct {
	Object  snapshot.Key
	Wanted  Status // zero: nothing any more
	Present Status // as the source shows it
}

// Differs tells whether there is anything to write.
func (i Item) Differs() bool { return !i.Wanted.IsZero() && !i.Wanted.Equal(i.Present) }

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
	}
	return ""
}
