package kubelet

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/sluice-proxy/sluice/tests/kube/internal/container"
)

// Crash kills the programs of a pod. The kubelet stand-in sees it, tells the API server
// and restarts them as the pod's restart policy says.
func (k *Kubelet) Crash(namespace, name string) error {
	return k.each(namespace, name, func(c *container.Process) error { return c.SignalAll(syscall.SIGKILL) })
}

// Vanish kills the programs of a pod and tells nobody: the API server goes on to call it
// ready, while its ports refuse connections. It stays so until the pod is deleted.
func (k *Kubelet) Vanish(namespace, name string) error {
	p, err := k.find(namespace, name)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.vanished = true
	p.mu.Unlock()
	return k.Crash(namespace, name)
}

// Pause stops all programs of a pod without ending them: connections are accepted by the
// kernel and nothing is answered.
func (k *Kubelet) Pause(namespace, name string) error {
	return k.each(namespace, name, func(c *container.Process) error { return c.SignalAll(syscall.SIGSTOP) })
}

// Resume lets the programs of a paused pod go on.
func (k *Kubelet) Resume(namespace, name string) error {
	return k.each(namespace, name, func(c *container.Process) error { return c.SignalAll(syscall.SIGCONT) })
}

// Unplug cuts a pod from the network: packets are lost and nobody is told.
func (k *Kubelet) Unplug(namespace, name string) error {
	return k.link(namespace, name, func(p *pod) error { return p.network.Unplug() })
}

// Plug connects an unplugged pod again.
func (k *Kubelet) Plug(namespace, name string) error {
	return k.link(namespace, name, func(p *pod) error { return p.network.Plug() })
}

func (k *Kubelet) link(namespace, name string, change func(*pod) error) error {
	p, err := k.find(namespace, name)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.network == nil {
		return fmt.Errorf("pod %s/%s has no network of its own", namespace, name)
	}
	return change(p)
}

// each does something to every running container of a pod.
func (k *Kubelet) each(namespace, name string, do func(*container.Process) error) error {
	p, err := k.find(namespace, name)
	if err != nil {
		return err
	}
	var errs []error
	count := 0
	for _, u := range p.units() {
		if process := u.running(); process != nil {
			count++
			errs = append(errs, do(process))
		}
	}
	if count == 0 {
		return fmt.Errorf("pod %s/%s has no running container", namespace, name)
	}
	return errors.Join(errs...)
}
