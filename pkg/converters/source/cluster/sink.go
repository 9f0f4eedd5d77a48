package cluster

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
)

// sink is what a reflector writes into. It is a cache.TransformingStore: while a list is
// streamed in, the reflector trims with its Transformer, too.
type sink struct {
	source *Source
	kind   kind
	listed bool // everything was there once

	// What was sent last. Objects are those that the snapshot holds.
	objects  map[types.NamespacedName]metav1.Object
	versions map[types.NamespacedName]string // of a kind that is read on demand, in place of objects
}

func newSink(s *Source, k kind) *sink {
	return &sink{source: s, kind: k, objects: map[types.NamespacedName]metav1.Object{}, versions: map[types.NamespacedName]string{}}
}

// Add takes over an object's new form.
func (s *sink) Add(object any) error {
	s.source.mu.Lock()
	defer s.source.mu.Unlock()
	s.put(s.kind.trim(object))
	return nil
}

// Update is Add.
func (s *sink) Update(object any) error { return s.Add(object) }

// Delete takes an object out.
func (s *sink) Delete(object any) error {
	s.source.mu.Lock()
	defer s.source.mu.Unlock()
	s.remove(nameOf(s.kind.trim(object)))
	return nil
}

// Replace takes over a whole list: what is not in it is gone.
func (s *sink) Replace(list []any, _ string) error {
	s.source.mu.Lock()
	defer s.source.mu.Unlock()
	s.listed = true
	s.replace(list)
	s.source.poke()
	return nil
}

// Resync is never asked for.
func (s *sink) Resync() error { return nil }

// Transformer trims objects on their way through the reflector.
func (s *sink) Transformer() cache.TransformFunc {
	return func(object any) (any, error) { return s.kind.trim(object), nil }
}

func (s *sink) replace(list []any) {
	named := make(map[types.NamespacedName]struct{}, len(list))
	for _, object := range list {
		trimmed := s.kind.trim(object)
		named[nameOf(trimmed)] = struct{}{}
		s.put(trimmed)
	}
	for name := range s.objects {
		if _, ok := named[name]; !ok {
			s.remove(name)
		}
	}
	for name := range s.versions {
		if _, ok := named[name]; !ok {
			s.remove(name)
		}
	}
}

func nameOf(object metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}

func (s *sink) key(name types.NamespacedName) snapshot.Key {
	return snapshot.Key{Kind: s.kind.name, Namespace: name.Namespace, Name: name.Name}
}

func (s *sink) put(object metav1.Object) {
	name := nameOf(object)
	if s.kind.onDemand {
		if version := object.GetResourceVersion(); s.versions[name] != version {
			s.versions[name] = version
			s.source.contents.changed(s.key(name))
		}
		return
	}
	if before := s.objects[name]; before != nil && same(before, object) {
		return
	}
	s.objects[name] = object
	s.source.emit(s.key(name), object)
}

// same tells whether nothing changed but the version. It may write to after.
func same(before, after metav1.Object) bool {
	version := after.GetResourceVersion()
	if before.GetResourceVersion() == version {
		return true
	}
	after.SetResourceVersion(before.GetResourceVersion())
	if reflect.DeepEqual(before, after) {
		return true
	}
	after.SetResourceVersion(version)
	return false
}

func (s *sink) remove(name types.NamespacedName) {
	if s.kind.onDemand {
		if _, ok := s.versions[name]; ok {
			delete(s.versions, name)
			s.source.contents.changed(s.key(name))
		}
		return
	}
	if _, ok := s.objects[name]; ok {
		delete(s.objects, name)
		s.source.emit(s.key(name), nil)
	}
}
