package kubelet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/sluice-proxy/sluice/tests/kube/internal/sandbox"
)

// Options of a kubelet stand-in.
type Options struct {
	Client      kubernetes.Interface // may do everything
	Router      *sandbox.Router
	Images      map[string]Image // by ImageKey
	Nodes       []Node
	Folder      string            // volumes and what containers write
	Logs        string            // a file for each container
	Certificate tls.Certificate   // of the server for logs
	ClientCA    *x509.CertPool    // who may read logs
	Env         map[string]string // of every container, as service links are
	// Report is told what goes wrong where nobody else can be: for the test's log.
	Report func(format string, args ...any)
}

// Kubelet runs the pods of all its nodes.
type Kubelet struct {
	o          Options
	pods       corelisters.PodLister
	secrets    corelisters.SecretLister
	configMaps corelisters.ConfigMapLister
	unbound    workqueue.TypedRateLimitingInterface[types.NamespacedName]

	ctx  context.Context // ends when the kubelet does
	stop context.CancelFunc
	work sync.WaitGroup

	mu      sync.Mutex
	running map[types.UID]*pod
}

// Start registers the nodes and runs pods until Stop.
func Start(o Options) (*Kubelet, error) {
	ctx, cancel := context.WithCancel(context.Background())
	k := &Kubelet{
		o: o, ctx: ctx, stop: cancel, running: map[types.UID]*pod{},
		unbound: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](50*time.Millisecond, time.Second)),
	}
	if err := k.start(); err != nil {
		k.Stop()
		return nil, err
	}
	return k, nil
}

func (k *Kubelet) start() error {
	if err := k.serve(); err != nil {
		return err
	}
	for i := range k.o.Nodes {
		if err := k.register(k.o.Nodes[i], i); err != nil {
			return err
		}
	}
	k.work.Go(k.heartbeat)
	factory := informers.NewSharedInformerFactory(k.o.Client, 0)
	pods, secrets, configMaps := factory.Core().V1().Pods(), factory.Core().V1().Secrets(), factory.Core().V1().ConfigMaps()
	k.pods, k.secrets, k.configMaps = pods.Lister(), secrets.Lister(), configMaps.Lister()
	contents := cache.ResourceEventHandlerFuncs{AddFunc: func(any) { k.nudge() }, UpdateFunc: func(any, any) { k.nudge() }}
	for _, err := range []error{
		handle(secrets.Informer(), contents),
		handle(configMaps.Informer(), contents),
		handle(pods.Informer(), cache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { k.seen(object.(*corev1.Pod)) },
			UpdateFunc: func(_, object any) { k.seen(object.(*corev1.Pod)) },
			DeleteFunc: k.lost,
		}),
	} {
		if err != nil {
			return err
		}
	}
	factory.Start(k.ctx.Done())
	for kind, synced := range factory.WaitForCacheSync(k.ctx.Done()) {
		if !synced {
			return fmt.Errorf("kubelet stand-in: no list of %v", kind)
		}
	}
	k.work.Go(k.bindAll)
	return nil
}

func handle(informer cache.SharedIndexInformer, handler cache.ResourceEventHandler) error {
	if _, err := informer.AddEventHandler(handler); err != nil {
		return fmt.Errorf("kubelet stand-in: %w", err)
	}
	return nil
}

// Stop kills all containers. The objects stay.
func (k *Kubelet) Stop() {
	k.stop()
	k.unbound.ShutDown()
	k.work.Wait()
}

// seen is told of each state of each pod.
func (k *Kubelet) seen(object *corev1.Pod) {
	if object.Spec.NodeName == "" {
		k.unbound.Add(nameOf(object))
		return
	}
	node, own := k.node(object.Spec.NodeName)
	if !own {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	p, found := k.running[object.UID]
	if !found {
		if k.ctx.Err() != nil || finished(object) && object.DeletionTimestamp == nil {
			return
		}
		p = k.newPod(object, node)
		k.running[object.UID] = p
		k.work.Go(func() {
			p.live(k.ctx)
			k.mu.Lock()
			defer k.mu.Unlock()
			delete(k.running, p.uid)
		})
	}
	p.update(object)
}

// lost is told of pods whose object is gone.
func (k *Kubelet) lost(object any) {
	if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = unknown.Obj
	}
	gone, ok := object.(*corev1.Pod)
	if !ok {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if p, found := k.running[gone.UID]; found {
		p.forget()
	}
}

// nudge lets all pods look at Secrets and ConfigMaps again.
func (k *Kubelet) nudge() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.running {
		signal(p.contents)
	}
}

// find is a running pod by name.
func (k *Kubelet) find(namespace, name string) (*pod, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.running {
		if p.namespace == namespace && p.name == name {
			return p, nil
		}
	}
	return nil, fmt.Errorf("pod %s/%s does not run here", namespace, name)
}

func (k *Kubelet) folder(uid types.UID, parts ...string) string {
	return filepath.Join(append([]string{k.o.Folder, string(uid)}, parts...)...)
}

func nameOf(p *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
}

func finished(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// signal wakes who listens; a signal that nobody has taken yet is enough.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// pause waits; false says that ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
