package snapshot

import (
	"cmp"
	"maps"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// Kind is the kind of an object, as its manifest spells it.
type Kind string

// The kinds that sluice reads.
const (
	Ingress       Kind = "Ingress"
	IngressClass  Kind = "IngressClass"
	Service       Kind = "Service"
	EndpointSlice Kind = "EndpointSlice"
	Secret        Kind = "Secret"
	ConfigMap     Kind = "ConfigMap"
	Namespace     Kind = "Namespace"

	GatewayClass     Kind = "GatewayClass"
	Gateway          Kind = "Gateway"
	ListenerSet      Kind = "ListenerSet"
	HTTPRoute        Kind = "HTTPRoute"
	GRPCRoute        Kind = "GRPCRoute"
	TLSRoute         Kind = "TLSRoute"
	TCPRoute         Kind = "TCPRoute"
	UDPRoute         Kind = "UDPRoute"
	ReferenceGrant   Kind = "ReferenceGrant"
	BackendTLSPolicy Kind = "BackendTLSPolicy"

	// Endpoints is no object: the key stands for all EndpointSlices of one Service.
	Endpoints Kind = "Endpoints"
	// DefaultClass is no object: the key stands for the set of IngressClasses that are
	// marked as default.
	DefaultClass Kind = "DefaultClass"
	// ListenerSets is no object: the key stands for all ListenerSets whose parent is one Gateway.
	ListenerSets Kind = "ListenerSets"
	// ReferenceGrants is no object: the key stands for all ReferenceGrants of one namespace,
	// and has no name.
	ReferenceGrants Kind = "ReferenceGrants"
	// BackendTLSPolicies is no object: the key stands for all policies that target one Service.
	BackendTLSPolicies Kind = "BackendTLSPolicies"
)

// Key names an object, or one of the sets described at the kinds.
type Key struct {
	Kind      Kind
	Namespace string
	Name      string
}

// String is kind/namespace/name.
func (k Key) String() string { return k.Origin().String() }

// Origin is the key as the origin of what is made of the object.
func (k Key) Origin() model.Origin {
	return model.Origin{Kind: string(k.Kind), Namespace: k.Namespace, Name: k.Name}
}

// CompareKeys orders by kind, namespace and name.
func CompareKeys(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// Position is where an object stands in the source; the zero value if the source is no file.
type Position struct {
	File string
	Line int // of the first line of the object's document, 1-based
}

// SecretData is a Secret whose values can't be printed.
type SecretData struct {
	Type string
	Data map[string]model.Secret
}

// Change is one event: an object's new form, or its end.
//
// Object is a pointer to a typed object (networkingv1.Ingress, networkingv1.IngressClass,
// corev1.Service, discoveryv1.EndpointSlice, corev1.ConfigMap, corev1.Namespace, and those
// of the Gateway API in their v1 form) or a *SecretData; nil says that the object is gone.
type Change struct {
	Key      Key
	Object   any
	Position Position
}

// Snapshot holds the newest form of each object.
type Snapshot struct {
	objects   map[Key]any
	positions map[Key]Position
	sets      map[Key]map[Key]any // key of a set -> its members
	names     map[Kind]map[Key]struct{}
}

// New is an empty Snapshot.
func New() *Snapshot {
	return &Snapshot{
		objects:   map[Key]any{},
		positions: map[Key]Position{},
		sets:      map[Key]map[Key]any{},
		names:     map[Kind]map[Key]struct{}{},
	}
}

// Apply takes over the changes and returns the keys they touch, sorted and unique,
// those of sets included.
func (s *Snapshot) Apply(changes []Change) []Key {
	touched := map[Key]struct{}{}
	for _, c := range changes {
		touched[c.Key] = struct{}{}
		before := s.objects[c.Key]
		for _, object := range []any{before, c.Object} {
			for _, set := range setsOf(object) {
				touched[set] = struct{}{}
			}
		}
		s.put(c, before)
	}
	return slices.SortedFunc(maps.Keys(touched), CompareKeys)
}

func (s *Snapshot) put(c Change, before any) {
	for _, set := range setsOf(before) {
		delete(s.sets[set], c.Key)
		if len(s.sets[set]) == 0 {
			delete(s.sets, set)
		}
	}
	if c.Object == nil {
		delete(s.objects, c.Key)
		delete(s.positions, c.Key)
		delete(s.names[c.Key.Kind], c.Key)
		return
	}
	s.objects[c.Key] = c.Object
	if c.Position != (Position{}) {
		s.positions[c.Key] = c.Position
	}
	if s.names[c.Key.Kind] == nil {
		s.names[c.Key.Kind] = map[Key]struct{}{}
	}
	s.names[c.Key.Kind][c.Key] = struct{}{}
	for _, set := range setsOf(c.Object) {
		if s.sets[set] == nil {
			s.sets[set] = map[Key]any{}
		}
		s.sets[set][c.Key] = c.Object
	}
}

// setsOf are the keys of the sets that an object is a member of.
func setsOf(object any) []Key {
	switch o := object.(type) {
	case *discoveryv1.EndpointSlice:
		return []Key{{Endpoints, o.Namespace, o.Labels[discoveryv1.LabelServiceName]}}
	case *networkingv1.IngressClass:
		if o.Annotations[networkingv1.AnnotationIsDefaultIngressClass] == "true" {
			return []Key{{Kind: DefaultClass}}
		}
	case *gatewayv1.ListenerSet:
		parent := o.Spec.ParentRef
		namespace := o.Namespace
		if parent.Namespace != nil {
			namespace = string(*parent.Namespace)
		}
		return []Key{{ListenerSets, namespace, string(parent.Name)}}
	case *gatewayv1.ReferenceGrant:
		return []Key{{Kind: ReferenceGrants, Namespace: o.Namespace}}
	case *gatewayv1.BackendTLSPolicy:
		var sets []Key
		for _, target := range o.Spec.TargetRefs {
			if target.Group == "" && target.Kind == gatewayv1.Kind(Service) {
				sets = append(sets, Key{BackendTLSPolicies, o.Namespace, string(target.Name)})
			}
		}
		return sets
	}
	return nil
}

// Keys are the keys of all objects of a kind, sorted. It takes time for all of them: for
// starting and full reconciliations only.
func (s *Snapshot) Keys(kind Kind) []Key {
	return slices.SortedFunc(maps.Keys(s.names[kind]), CompareKeys)
}

// Len is the number of objects of a kind.
func (s *Snapshot) Len(kind Kind) int { return len(s.names[kind]) }

// Position is where an object stands in the source.
func (s *Snapshot) Position(key Key) Position { return s.positions[key] }

// Object is the newest form of an object, nil if there is none.
func (s *Snapshot) Object(key Key) any { return s.objects[key] }
