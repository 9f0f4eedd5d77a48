package snapshot

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// View is a Snapshot as one unit of conversion sees it. It notes each look-up.
type View struct {
	snapshot *Snapshot
	noted    []Key
	forms    map[Key]any
}

// View is a new view with nothing noted yet.
func (s *Snapshot) View() *View { return &View{snapshot: s} }

// Substituted is a new view that shows the given forms of objects in place of the newest
// ones; a nil form hides the object. The map must not be changed afterwards.
func (s *Snapshot) Substituted(forms map[Key]any) *View { return &View{snapshot: s, forms: forms} }

// Noted are the keys of all look-ups so far, sorted and unique.
func (v *View) Noted() []Key {
	slices.SortFunc(v.noted, CompareKeys)
	v.noted = slices.Compact(v.noted)
	return v.noted
}

// Note records a look-up that was made elsewhere, for example in the global settings.
func (v *View) Note(key Key) { v.noted = append(v.noted, key) }

// Ingress looks up an Ingress; nil if there is none. So do the methods that follow.
func (v *View) Ingress(namespace, name string) *networkingv1.Ingress {
	return look[*networkingv1.Ingress](v, Key{Ingress, namespace, name})
}

// IngressClass looks up a class by name.
func (v *View) IngressClass(name string) *networkingv1.IngressClass {
	return look[*networkingv1.IngressClass](v, Key{Kind: IngressClass, Name: name})
}

// DefaultClasses are the classes marked as default, sorted by name.
func (v *View) DefaultClasses() []*networkingv1.IngressClass {
	return members[*networkingv1.IngressClass](v, Key{Kind: DefaultClass})
}

// Service looks up a Service.
func (v *View) Service(namespace, name string) *corev1.Service {
	return look[*corev1.Service](v, Key{Service, namespace, name})
}

// Slices are the EndpointSlices of a Service, sorted by name.
func (v *View) Slices(namespace, service string) []*discoveryv1.EndpointSlice {
	return members[*discoveryv1.EndpointSlice](v, Key{Endpoints, namespace, service})
}

// Secret looks up a Secret.
func (v *View) Secret(namespace, name string) *SecretData {
	return look[*SecretData](v, Key{Secret, namespace, name})
}

// ConfigMap looks up a ConfigMap.
func (v *View) ConfigMap(namespace, name string) *corev1.ConfigMap {
	return look[*corev1.ConfigMap](v, Key{ConfigMap, namespace, name})
}

// Namespace looks up a Namespace, for its labels.
func (v *View) Namespace(name string) *corev1.Namespace {
	return look[*corev1.Namespace](v, Key{Kind: Namespace, Name: name})
}

// members are the objects of a set, sorted by namespace and name. One that is shown in
// another form, or hidden, is shown so.
func members[T any](v *View, set Key) []T {
	v.Note(set)
	of := v.snapshot.sets[set]
	list := make([]T, 0, len(of))
	for _, key := range slices.SortedFunc(maps.Keys(of), CompareKeys) {
		object := of[key]
		if form, substituted := v.forms[key]; substituted {
			object = form
		}
		if member, ok := object.(T); ok {
			list = append(list, member)
		}
	}
	return list
}

func look[T any](v *View, key Key) T {
	v.Note(key)
	newest := v.snapshot.objects[key]
	if form, substituted := v.forms[key]; substituted {
		newest = form
	}
	object, _ := newest.(T)
	return object
}
