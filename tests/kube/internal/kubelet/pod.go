package kubelet

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sluice-proxy/sluice/tests/kube/internal/sandbox"
)

// pod is one pod that runs here, from its binding to the end of its object.
type pod struct {
	k               *Kubelet
	namespace, name string
	uid             types.UID
	node            Node
	spec            *corev1.PodSpec // what of it may change later is of no interest here

	contents chan struct{} // a Secret or ConfigMap has changed
	changed  chan struct{} // the status may have changed
	ending   chan struct{} // closed: the object has a deletion timestamp
	gone     chan struct{} // closed: there is no object any more

	mu         sync.Mutex
	object     *corev1.Pod  // as last seen
	network    *sandbox.Pod // nil: the router's, or none yet
	address    string
	started    time.Time
	inits      []*unit
	containers []*unit
	message    string // what the pod waits for
	vanished   bool   // the API server must not hear of what happened
	conditions map[corev1.PodConditionType]corev1.PodCondition
	volumes    map[string]string // name to folder
	tokens     map[string][]byte // of service accounts, by audience
}

func (k *Kubelet) newPod(object *corev1.Pod, node Node) *pod {
	p := &pod{
		k: k, namespace: object.Namespace, name: object.Name, uid: object.UID, node: node, spec: &object.Spec,
		contents: make(chan struct{}, 1), changed: make(chan struct{}, 1), ending: make(chan struct{}), gone: make(chan struct{}),
		object: object, started: time.Now(), conditions: map[corev1.PodConditionType]corev1.PodCondition{}, tokens: map[string][]byte{},
	}
	for i := range object.Spec.InitContainers {
		p.inits = append(p.inits, newUnit(p, &object.Spec.InitContainers[i], true))
	}
	for i := range object.Spec.Containers {
		p.containers = append(p.containers, newUnit(p, &object.Spec.Containers[i], false))
	}
	return p
}

// update is told of each state of the object.
func (p *pod) update(object *corev1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.object = object
	if object.DeletionTimestamp != nil {
		closeOnce(p.ending)
	}
	signal(p.changed)
}

// forget is told that the object is gone.
func (p *pod) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	closeOnce(p.ending)
	closeOnce(p.gone)
}

// closeOnce closes a channel that may be closed already. The caller holds the lock.
func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

// live is the pod's life. Ctx ends with the kubelet.
func (p *pod) live(ctx context.Context) {
	defer p.release()
	publishing, stopPublishing := context.WithCancel(ctx)
	defer stopPublishing()
	var publisher sync.WaitGroup
	publisher.Go(func() { p.publish(publishing) })

	running, stopRunning := context.WithCancel(ctx)
	defer stopRunning()
	var workers sync.WaitGroup
	workers.Go(func() { p.run(running) })
	select {
	case <-p.ending:
	case <-ctx.Done():
	}
	stopRunning()
	workers.Wait()
	p.terminate(ctx)
	stopPublishing()
	publisher.Wait()
	p.remove(ctx)
}

// run brings everything up and keeps it running until ctx ends.
func (p *pod) run(ctx context.Context) {
	if !p.prepare(ctx) {
		return
	}
	var workers sync.WaitGroup
	defer workers.Wait()
	workers.Go(func() { p.refreshVolumes(ctx) })
	for _, u := range p.inits {
		if u.sidecar() {
			workers.Go(func() { u.keep(ctx) })
			u.waitStarted(ctx)
		} else {
			u.keep(ctx)
		}
		if ctx.Err() != nil || !u.sidecar() && !u.succeeded() {
			return
		}
	}
	for _, u := range p.containers {
		workers.Go(func() { u.keep(ctx) })
	}
}

// prepare makes network and volumes; false says that ctx ended first.
func (p *pod) prepare(ctx context.Context) bool {
	for {
		err := p.connect()
		if err == nil {
			err = p.makeVolumes(ctx)
		}
		p.mu.Lock()
		p.message = ""
		if err != nil {
			p.message = err.Error()
		}
		p.mu.Unlock()
		signal(p.changed)
		if err == nil {
			return true
		}
		// What is missing may come as an object, or not: a token needs the API server.
		select {
		case <-p.contents:
		case <-time.After(time.Second):
		case <-ctx.Done():
			return false
		}
	}
}

func (p *pod) connect() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.address != "" {
		return nil
	}
	if p.spec.HostNetwork {
		p.address = sandbox.RouterAddress
		return nil
	}
	network, err := p.k.o.Router.NewPod()
	if err != nil {
		return err
	}
	p.network, p.address = network, network.Address.String()
	return nil
}

// terminate ends all containers as the deletion asks for.
func (p *pod) terminate(ctx context.Context) {
	p.mu.Lock()
	p.vanished = false // whatever happened, the object goes now
	p.mu.Unlock()
	deadline := time.Now().Add(p.grace(ctx))
	p.terminateUnits(ctx, p.containers, deadline)
	// Sidecars serve the others to their end.
	p.terminateUnits(ctx, p.inits, deadline)
}

func (p *pod) terminateUnits(ctx context.Context, units []*unit, deadline time.Time) {
	var workers sync.WaitGroup
	for _, u := range units {
		workers.Go(func() { u.terminate(ctx, deadline) })
	}
	workers.Wait()
}

// grace is the time that the pod has for its end: none if nobody waits for it.
func (p *pod) grace(ctx context.Context) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.gone:
		return 0
	case <-ctx.Done():
		return 0
	default:
	}
	if seconds := p.object.DeletionGracePeriodSeconds; seconds != nil {
		return time.Duration(*seconds) * time.Second
	}
	return 30 * time.Second
}

// remove tells the last status and removes the object.
func (p *pod) remove(ctx context.Context) {
	sent := corev1.PodStatus{}
	for {
		select {
		case <-p.gone:
			return
		case <-ctx.Done():
			return
		default:
		}
		err := p.send(ctx, &sent)
		if err == nil {
			now := int64(0)
			err = p.k.o.Client.CoreV1().Pods(p.namespace).Delete(ctx, p.name, metav1.DeleteOptions{
				GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &p.uid},
			})
		}
		if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return
		}
		if !pause(ctx, 200*time.Millisecond) {
			return
		}
	}
}

// release gives back what the pod held.
func (p *pod) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.network != nil {
		p.network.Close()
		p.network = nil
	}
	if err := os.RemoveAll(p.k.folder(p.uid)); err != nil {
		p.k.o.Report("folder of pod %s/%s: %v", p.namespace, p.name, err)
	}
}

// unit finds a container by name.
func (p *pod) unit(name string) (*unit, error) {
	for _, u := range p.units() {
		if u.spec.Name == name {
			return u, nil
		}
	}
	return nil, fmt.Errorf("pod %s/%s has no container %q", p.namespace, p.name, name)
}

func (p *pod) units() []*unit { return append(append([]*unit{}, p.inits...), p.containers...) }
