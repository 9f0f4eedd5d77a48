package kubelet

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluice-proxy/sluice/tests/kube/internal/container"
)

// Restarts wait longer each time; a kubelet begins with 10 s and goes up to 5 min.
const (
	firstBackoff = 500 * time.Millisecond
	lastBackoff  = 10 * time.Second
)

// unit is one container of a pod. What changes is guarded by the pod's lock.
type unit struct {
	pod     *pod
	spec    *corev1.Container
	initial bool // an init container
	log     *log

	state    corev1.ContainerState
	last     corev1.ContainerState
	restarts int32
	attempt  int
	started  bool
	ready    bool
	listens  bool               // ready when it listens
	process  *container.Process // nil: does not run
}

func newUnit(p *pod, spec *corev1.Container, initial bool) *unit {
	reason := "ContainerCreating"
	if !initial && len(p.spec.InitContainers) > 0 {
		reason = "PodInitializing"
	}
	return &unit{
		pod: p, spec: spec, initial: initial,
		log:   newLog(filepath.Join(p.k.o.Logs, fmt.Sprintf("%s_%s_%s.log", p.namespace, p.name, spec.Name))),
		state: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}},
	}
}

// sidecar says whether it is an init container that runs along.
func (u *unit) sidecar() bool {
	return u.initial && u.spec.RestartPolicy != nil && *u.spec.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

func (u *unit) succeeded() bool {
	u.pod.mu.Lock()
	defer u.pod.mu.Unlock()
	return u.state.Terminated != nil && u.state.Terminated.ExitCode == 0
}

// keep runs the container, again and again as its restart policy says, until ctx ends.
// It leaves a running process to terminate. As with a kubelet the first restart is
// immediate.
func (u *unit) keep(ctx context.Context) {
	backoff := time.Duration(0)
	for ctx.Err() == nil {
		process, err := u.start(ctx)
		if err != nil {
			u.wait(reasonOf(err), err.Error())
			backoff = max(backoff, firstBackoff)
		} else {
			go u.probe(ctx, process)
			select {
			case <-process.Done():
			case <-ctx.Done():
				return
			}
			if !u.ended(process) || !u.again() {
				return
			}
			if backoff > 0 {
				u.wait("CrashLoopBackOff", fmt.Sprintf("back-off %s restarting failed container=%s", backoff, u.spec.Name))
			}
		}
		if !pause(ctx, backoff) {
			return
		}
		backoff = min(max(2*backoff, firstBackoff), lastBackoff)
	}
}

// again says whether the container is to be run once more.
func (u *unit) again() bool {
	u.pod.mu.Lock()
	defer u.pod.mu.Unlock()
	failed := u.state.Terminated.ExitCode != 0
	switch policy := u.pod.spec.RestartPolicy; {
	case u.sidecar():
		return true
	case u.initial:
		return failed && policy != corev1.RestartPolicyNever
	default:
		return policy == corev1.RestartPolicyAlways || policy == corev1.RestartPolicyOnFailure && failed
	}
}

// startError is a failure with the reason that a kubelet gives for it.
type startError struct {
	reason string
	err    error
}

func (e startError) Error() string { return e.err.Error() }

func reasonOf(err error) string {
	if known, ok := err.(startError); ok { //nolint:errorlint // start returns nothing else, unwrapped
		return known.reason
	}
	return "RunContainerError"
}

func (u *unit) start(ctx context.Context) (*container.Process, error) {
	image, found := u.pod.k.o.Images[ImageKey(u.spec.Image)]
	if !found {
		u.pod.k.o.Report("pod %s/%s: no program stands for image %q; add %q to the images of the test",
			u.pod.namespace, u.pod.name, u.spec.Image, ImageKey(u.spec.Image))
		return nil, startError{"ErrImagePull", fmt.Errorf("no program stands for image %q", u.spec.Image)}
	}
	spec, err := u.container(ctx, image)
	if err != nil {
		return nil, startError{"CreateContainerConfigError", err}
	}
	p := u.pod
	p.mu.Lock()
	network := -1
	if p.network != nil {
		network, spec.OwnNetwork = p.network.Namespace(), true
	}
	u.attempt++
	spec.Layer = p.k.folder(p.uid, "containers", u.spec.Name, strconv.Itoa(u.attempt))
	p.mu.Unlock()
	process, err := container.Start(*spec, network, u.log.stream("stdout"), u.log.stream("stderr"))
	if err != nil {
		return nil, startError{"RunContainerError", err}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if u.state.Terminated != nil {
		u.last = u.state
	}
	if u.attempt > 1 && (u.last.Terminated != nil) {
		u.restarts++
	}
	u.process = process
	u.state = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}
	u.started = u.spec.StartupProbe == nil
	u.ready = u.started && u.spec.ReadinessProbe == nil && !image.Listens
	u.listens = image.Listens && u.spec.ReadinessProbe == nil
	signal(p.changed)
	return process, nil
}

// wait sets the waiting state.
func (u *unit) wait(reason, message string) {
	u.pod.mu.Lock()
	defer u.pod.mu.Unlock()
	if u.state.Terminated != nil {
		u.last = u.state
	}
	u.state = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	signal(u.pod.changed)
}

// ended notes how a process ended; false says that nobody must know.
func (u *unit) ended(process *container.Process) bool {
	u.pod.mu.Lock()
	defer u.pod.mu.Unlock()
	u.process = nil
	if u.pod.vanished {
		return false
	}
	code := process.ExitCode()
	reason := "Completed"
	if code != 0 {
		reason = "Error"
	}
	started := metav1.Now()
	if u.state.Running != nil {
		started = u.state.Running.StartedAt
	}
	u.state = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: int32(code), Reason: reason, StartedAt: started, FinishedAt: metav1.Now(), ContainerID: u.id(),
	}}
	u.started, u.ready = false, false
	signal(u.pod.changed)
	return true
}

// id names the container's present incarnation.
func (u *unit) id() string {
	return fmt.Sprintf("sluice://%s-%s-%d", u.pod.uid, u.spec.Name, u.attempt)
}

func (u *unit) running() *container.Process {
	u.pod.mu.Lock()
	defer u.pod.mu.Unlock()
	return u.process
}

// waitStarted waits until a sidecar has started.
func (u *unit) waitStarted(ctx context.Context) {
	for {
		u.pod.mu.Lock()
		started := u.started && u.process != nil
		u.pod.mu.Unlock()
		if started || !pause(ctx, 20*time.Millisecond) {
			return
		}
	}
}

// terminate ends the container as a kubelet does: hook, SIGTERM, and SIGKILL at the
// deadline, or at once when nobody waits any more.
func (u *unit) terminate(ctx context.Context, deadline time.Time) {
	process := u.running()
	if process == nil {
		return
	}
	hooked, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	go func() {
		select {
		case <-u.pod.gone:
			cancel()
		case <-hooked.Done():
		}
	}()
	u.preStop(hooked, process)
	process.Signal(syscall.SIGTERM)
	select {
	case <-process.Done():
	case <-hooked.Done():
		process.Signal(syscall.SIGKILL)
		<-process.Done()
	}
	u.ended(process)
}

// preStop runs the hook; a failure is told, and nothing else comes of it.
func (u *unit) preStop(ctx context.Context, process *container.Process) {
	if u.spec.Lifecycle == nil || u.spec.Lifecycle.PreStop == nil {
		return
	}
	hook := u.spec.Lifecycle.PreStop
	var err error
	switch {
	case hook.Exec != nil:
		_, err = process.Exec(ctx, hook.Exec.Command)
	case hook.Sleep != nil:
		timer := time.NewTimer(time.Duration(hook.Sleep.Seconds) * time.Second)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-process.Done():
		case <-ctx.Done():
		}
	case hook.HTTPGet != nil:
		err = u.httpGet(ctx, hook.HTTPGet)
	}
	if err != nil {
		u.pod.k.o.Report("preStop hook of %s in pod %s/%s: %v", u.spec.Name, u.pod.namespace, u.pod.name, err)
	}
}
