package cluster

import (
	"context"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

const (
	maxGets  = 10 // at a time
	maxTries = 5  // of a GET that the API server answers with an error, before it counts as failed
)

// contents are the Secrets and ConfigMaps that somebody looks up. Its methods are called
// with the source's lock held, but for those that say otherwise.
type contents struct {
	source  *Source
	ctx     context.Context // of the run
	wanted  map[snapshot.Key]*content
	queue   []snapshot.Key // to be read
	workers int            // that take from the queue
	failure error          // of the last GET; nil: it succeeded, or was refused
	refused map[place]int  // how many may not be read
}

// place is a kind in a namespace.
type place struct {
	snapshot.Kind
	Namespace string
}

// content is one of them.
type content struct {
	version string // of the metadata, when it was last read; empty: not yet
	read    string // version that was read: the metadata may lag behind
	object  any    // that was sent; nil: none
	pending bool   // somebody waits for it
	queued  bool   // it is to be read, or is being read
	refused bool
	doubted bool // it was refused once though it could be read before
	tries   int
}

func newContents(s *Source) contents {
	return contents{source: s, wanted: map[snapshot.Key]*content{}, refused: map[place]int{}}
}

// Want is that of source.Contents.
func (s *Source) Want(wanted, unwanted []snapshot.Key) (pending []snapshot.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range unwanted {
		s.contents.drop(key)
	}
	for _, key := range wanted {
		c := &content{}
		s.contents.wanted[key] = c
		s.contents.changed(key)
		if c.pending = c.queued; c.pending {
			pending = append(pending, key)
		}
	}
	return pending
}

// drop lets go of what nobody looks up any more.
func (c *contents) drop(key snapshot.Key) {
	former := c.wanted[key]
	if former == nil {
		return
	}
	if former.object != nil {
		c.source.emit(key, nil)
	}
	c.refuse(key, former, false)
	delete(c.wanted, key)
}

// version is that of an object as its metadata says; false: there is no such object.
func (c *contents) version(key snapshot.Key) (string, bool) {
	name := types.NamespacedName{Namespace: key.Namespace, Name: key.Name}
	for _, w := range c.source.watches {
		if w.kind.name == key.Kind {
			if version, ok := w.sink.versions[name]; ok {
				return version, true
			}
		}
	}
	return "", false
}

// changed looks at what became of an object, if somebody looks it up.
func (c *contents) changed(key snapshot.Key) {
	wanted := c.wanted[key]
	if wanted == nil {
		return
	}
	version, exists := c.version(key)
	switch {
	case !exists:
		c.put(key, wanted, nil)
		c.refuse(key, wanted, false)
		*wanted = content{queued: wanted.queued}
	case version != wanted.version && version != wanted.read && !wanted.queued:
		wanted.tries = 0
		c.enqueue(key, wanted)
	}
}

func (c *contents) enqueue(key snapshot.Key, wanted *content) {
	wanted.queued = true
	c.queue = append(c.queue, key)
	if c.workers < maxGets {
		c.workers++
		go c.work()
	}
}

// put sends an object's content, unless it is what was sent, and tells who waits for it.
func (c *contents) put(key snapshot.Key, wanted *content, object any) {
	if !equalContent(wanted.object, object) {
		wanted.object = object
		c.source.emit(key, object)
	}
	c.settle(key, wanted)
}

func (c *contents) settle(key snapshot.Key, wanted *content) {
	if wanted.pending {
		wanted.pending = false
		c.source.settled = append(c.source.settled, key)
		c.source.poke()
	}
}

// work reads what is queued until nothing is. It takes the lock itself.
func (c *contents) work() {
	c.source.mu.Lock()
	defer c.source.mu.Unlock()
	for len(c.queue) > 0 && c.ctx.Err() == nil {
		key := c.queue[0]
		c.queue = c.queue[1:]
		wanted := c.wanted[key]
		if wanted == nil || !wanted.queued {
			continue
		}
		version, exists := c.version(key)
		if !exists {
			wanted.queued = false
			continue
		}
		c.source.mu.Unlock()
		object, read, err := c.get(key)
		c.source.mu.Lock()
		if c.wanted[key] == wanted && c.ctx.Err() == nil {
			wanted.queued = false
			c.took(key, version, result{object, read, err})
		}
	}
	c.workers--
}

// result is the answer to one GET.
type result struct {
	object any
	read   string
	err    error
}

// took looks at an answer.
func (c *contents) took(key snapshot.Key, version string, r result) {
	wanted, refused := c.wanted[key], apierrors.IsForbidden(r.err)
	if refused && !wanted.refused && !wanted.doubted && wanted.object != nil {
		wanted.doubted = true
		c.again(key, wanted)
		return
	}
	wanted.doubted = false
	c.refuse(key, wanted, refused)
	switch {
	case r.err == nil, apierrors.IsNotFound(r.err):
		c.fail(nil)
		wanted.version, wanted.read, wanted.tries = version, r.read, 0
		c.put(key, wanted, r.object)
		c.changed(key)
	case wanted.refused:
		c.settle(key, wanted)
		c.again(key, wanted)
	default:
		c.fail(r.err)
		if wanted.tries++; wanted.tries >= maxTries && !unreachable(r.err) {
			c.settle(key, wanted)
		}
		c.again(key, wanted)
	}
}

// refuse notes whether an object may not be read.
func (c *contents) refuse(key snapshot.Key, wanted *content, refused bool) {
	if wanted.refused == refused {
		return
	}
	at := place{key.Kind, key.Namespace}
	if wanted.refused = refused; refused {
		c.refused[at]++
	} else if c.refused[at]--; c.refused[at] == 0 {
		delete(c.refused, at)
	}
	c.source.restate()
}

// fail notes what became of the last GET.
func (c *contents) fail(err error) {
	if err != nil || c.failure != nil {
		c.failure = err
		c.source.restate()
	}
}

// again reads an object once more after a while.
func (c *contents) again(key snapshot.Key, wanted *content) {
	backoff := c.source.pace.backoff
	wanted.queued = true
	wait := backoff.Cap
	if !wanted.refused {
		for range wanted.tries {
			wait = backoff.Step()
		}
	}
	time.AfterFunc(wait, func() {
		c.source.mu.Lock()
		defer c.source.mu.Unlock()
		if c.wanted[key] == wanted && c.ctx.Err() == nil {
			c.enqueue(key, wanted)
		}
	})
}

// get reads one object. It does not take the lock.
func (c *contents) get(key snapshot.Key) (object any, version string, err error) {
	ctx, cancel := context.WithTimeout(c.ctx, c.source.pace.get)
	defer cancel()
	core := c.source.config.Kubernetes.CoreV1()
	if key.Kind == snapshot.Secret {
		secret, err := core.Secrets(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
		if err != nil {
			return nil, "", err
		}
		return secretData(secret), secret.ResourceVersion, nil
	}
	configMap, err := core.ConfigMaps(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if err != nil {
		return nil, "", err
	}
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Data: configMap.Data, BinaryData: configMap.BinaryData,
	}, configMap.ResourceVersion, nil
}

func secretData(secret *corev1.Secret) *snapshot.SecretData {
	data := &snapshot.SecretData{Type: string(secret.Type), Data: make(map[string]model.Secret, len(secret.Data))}
	for name, value := range secret.Data {
		data.Data[name] = model.NewSecret(value)
	}
	return data
}

// equalContent tells whether two contents say the same; nil is none.
func equalContent(a, b any) bool {
	switch a := a.(type) {
	case *snapshot.SecretData:
		b, ok := b.(*snapshot.SecretData)
		return ok && a.Type == b.Type && maps.EqualFunc(a.Data, b.Data, func(x, y model.Secret) bool { return x == y })
	case *corev1.ConfigMap:
		b, ok := b.(*corev1.ConfigMap)
		return ok && maps.Equal(a.Data, b.Data) && maps.EqualFunc(a.BinaryData, b.BinaryData, func(x, y []byte) bool { return string(x) == string(y) })
	}
	return a == b
}

// resourceOf is the resource of a kind that is read on demand.
func resourceOf(name snapshot.Kind) schema.GroupVersionResource {
	for _, k := range kinds() {
		if k.name == name {
			return k.resource
		}
	}
	return schema.GroupVersionResource{}
}
