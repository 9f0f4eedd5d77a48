package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sluice-proxy/sluice/tests/kube/internal/sandbox"
)

// publish tells the API server of each new status until ctx ends.
func (p *pod) publish(ctx context.Context) {
	var sent corev1.PodStatus
	for {
		err := p.send(ctx, &sent)
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return
		}
		if err != nil {
			// The API server is away: again, and not only when something changes.
			if !pause(ctx, 200*time.Millisecond) {
				return
			}
			continue
		}
		select {
		case <-p.changed:
		case <-ctx.Done():
			return
		}
	}
}

// send sends the status if it is another than the one sent before.
func (p *pod) send(ctx context.Context, sent *corev1.PodStatus) error {
	p.mu.Lock()
	vanished, status := p.vanished, p.status()
	p.mu.Unlock()
	if vanished || equality.Semantic.DeepEqual(status, *sent) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.uid}, "status": status})
	if err != nil {
		panic(err) // an API type
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	// A strategic merge leaves conditions of others alone: readiness gates.
	_, err = p.k.o.Client.CoreV1().Pods(p.namespace).Patch(ctx, p.name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("status of pod %s/%s: %w", p.namespace, p.name, err)
	}
	*sent = status
	return nil
}

// status is what a kubelet would say now. The caller holds the lock.
func (p *pod) status() corev1.PodStatus {
	start := metav1.NewTime(p.started)
	s := corev1.PodStatus{
		Phase: p.phase(), HostIP: sandbox.RouterAddress, HostIPs: []corev1.HostIP{{IP: sandbox.RouterAddress}}, StartTime: &start,
		InitContainerStatuses: statuses(p.inits), ContainerStatuses: statuses(p.containers),
	}
	if p.address != "" {
		s.PodIP, s.PodIPs = p.address, []corev1.PodIP{{IP: p.address}}
	}
	done := s.Phase == corev1.PodSucceeded || s.Phase == corev1.PodFailed
	p.condition(corev1.PodScheduled, true, "", "")
	p.condition(corev1.PodReadyToStartContainers, p.address != "" && !done, "", "")
	p.condition(corev1.PodInitialized, p.initialized(), "ContainersNotInitialized", p.message)
	contained, gated := !done && ready(p.units()), p.gatesOpen()
	reason := "ContainersNotReady"
	if done {
		reason = "PodCompleted"
	}
	p.condition(corev1.ContainersReady, contained, reason, p.message)
	if contained && !gated {
		reason = "ReadinessGatesNotReady"
	}
	p.condition(corev1.PodReady, contained && gated, reason, p.message)
	for _, kind := range []corev1.PodConditionType{
		corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled,
	} {
		s.Conditions = append(s.Conditions, p.conditions[kind])
	}
	return s
}

// condition sets a condition; the time of its transition stays while it does not change.
func (p *pod) condition(kind corev1.PodConditionType, holds bool, reason, message string) {
	c := corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue}
	if !holds {
		c.Status, c.Reason, c.Message = corev1.ConditionFalse, reason, message
	}
	before := p.conditions[kind]
	c.LastTransitionTime = before.LastTransitionTime
	if before.Status != c.Status {
		c.LastTransitionTime = metav1.Now()
	}
	p.conditions[kind] = c
}

// phase follows the pod's containers.
func (p *pod) phase() corev1.PodPhase {
	ending := p.object.DeletionTimestamp != nil
	if !p.initialized() {
		for _, u := range p.inits {
			if u.state.Terminated != nil && u.state.Terminated.ExitCode != 0 && (ending || p.spec.RestartPolicy == corev1.RestartPolicyNever) {
				return corev1.PodFailed
			}
		}
		return corev1.PodPending
	}
	waiting, over, failed := 0, 0, 0
	for _, u := range p.containers {
		switch {
		case u.state.Terminated != nil && (ending || !restarts(p.spec.RestartPolicy, u.state.Terminated.ExitCode)):
			over++
			if u.state.Terminated.ExitCode != 0 {
				failed++
			}
		case u.state.Waiting != nil && u.last.Terminated == nil:
			waiting++
		}
	}
	switch {
	case waiting > 0:
		return corev1.PodPending
	case over < len(p.containers):
		return corev1.PodRunning
	case failed > 0:
		return corev1.PodFailed
	default:
		return corev1.PodSucceeded
	}
}

func restarts(policy corev1.RestartPolicy, code int32) bool {
	return policy == corev1.RestartPolicyAlways || policy == corev1.RestartPolicyOnFailure && code != 0
}

// initialized says whether the init containers are through.
func (p *pod) initialized() bool {
	for _, u := range p.inits {
		if u.sidecar() {
			if !u.started && u.last.Terminated == nil && u.state.Terminated == nil {
				return false
			}
		} else if u.state.Terminated == nil || u.state.Terminated.ExitCode != 0 {
			return false
		}
	}
	return p.address != "" && p.volumes != nil
}

func ready(units []*unit) bool {
	for _, u := range units {
		if (!u.initial || u.sidecar()) && !u.ready {
			return false
		}
	}
	return true
}

// gatesOpen says whether all readiness gates are true; others set those conditions.
func (p *pod) gatesOpen() bool {
	for _, gate := range p.spec.ReadinessGates {
		open := false
		for _, c := range p.object.Status.Conditions {
			open = open || c.Type == gate.ConditionType && c.Status == corev1.ConditionTrue
		}
		if !open {
			return false
		}
	}
	return true
}

func statuses(units []*unit) []corev1.ContainerStatus {
	var list []corev1.ContainerStatus
	for _, u := range units {
		started := u.started
		s := corev1.ContainerStatus{
			Name: u.spec.Name, Image: u.spec.Image, ImageID: "sluice://" + ImageKey(u.spec.Image), State: u.state, LastTerminationState: u.last,
			Ready: u.ready, Started: &started, RestartCount: u.restarts,
		}
		if u.initial && !u.sidecar() {
			s.Ready = u.state.Terminated != nil && u.state.Terminated.ExitCode == 0
		}
		if u.attempt > 0 {
			s.ContainerID = u.id()
		}
		list = append(list, s)
	}
	return list
}
