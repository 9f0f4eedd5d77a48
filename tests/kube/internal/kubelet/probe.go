package kubelet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/sluice-proxy/sluice/tests/kube/internal/container"
)

// probe runs the container's probes. Ctx ends with the pod's deletion: a container that is
// being ended is not restarted, but its readiness is watched to the end.
func (u *unit) probe(ctx context.Context, process *container.Process) {
	alive, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	go func() {
		<-process.Done()
		cancel()
	}()
	if u.spec.StartupProbe != nil && !u.startup(alive, process) {
		return
	}
	if u.spec.LivenessProbe != nil {
		go u.liveness(ctx, alive, process)
	}
	if u.listens {
		u.awaitListening(alive, process)
	}
	if u.spec.ReadinessProbe != nil {
		u.watch(alive, process, u.spec.ReadinessProbe, func(good bool) bool {
			u.mark(func() { u.ready = good && u.process == process })
			return true
		})
	}
	<-alive.Done()
}

// mark changes the state that probes decide.
func (u *unit) mark(change func()) {
	u.pod.mu.Lock()
	defer u.pod.mu.Unlock()
	change()
	signal(u.pod.changed)
}

// startup waits for the startup probe; false says that the container has ended.
func (u *unit) startup(alive context.Context, process *container.Process) bool {
	started := false
	u.watch(alive, process, u.spec.StartupProbe, func(good bool) bool {
		if started = good; !good {
			u.restart(process, "startup")
			return false
		}
		u.mark(func() {
			if u.process == process {
				u.started, u.ready = true, u.spec.ReadinessProbe == nil && !u.listens
			}
		})
		return false
	})
	return started
}

func (u *unit) liveness(ctx, alive context.Context, process *container.Process) {
	watched, cancel := context.WithCancel(alive)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	u.watch(watched, process, u.spec.LivenessProbe, func(good bool) bool {
		if !good {
			u.restart(process, "liveness")
		}
		return good
	})
}

// restart ends a container that failed a probe; keep starts it again.
func (u *unit) restart(process *container.Process, probe string) {
	u.pod.k.o.Report("container %s of pod %s/%s failed its %s probe and is restarted", u.spec.Name, u.pod.namespace, u.pod.name, probe)
	process.Signal(syscall.SIGTERM)
	seconds := int64(30)
	if own := u.pod.spec.TerminationGracePeriodSeconds; own != nil {
		seconds = *own
	}
	select {
	case <-process.Done():
	case <-time.After(time.Duration(seconds) * time.Second):
		process.Signal(syscall.SIGKILL)
	}
}

// watch runs one probe until tell says no, and tells each verdict that its thresholds
// allow: at first and at each change; a failing verdict is told again with each failure.
func (u *unit) watch(ctx context.Context, process *container.Process, probe *corev1.Probe, tell func(good bool) bool) {
	if !pause(ctx, time.Duration(probe.InitialDelaySeconds)*time.Second) {
		return
	}
	period := orDefault(probe.PeriodSeconds, 10)
	successes, failures := int32(0), int32(0)
	for {
		err := u.try(ctx, process, probe)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			successes, failures = successes+1, 0
		default:
			successes, failures = 0, failures+1
			u.log.note("probe: " + err.Error())
		}
		if successes >= orDefault(probe.SuccessThreshold, 1) && !tell(true) {
			return
		}
		if failures >= orDefault(probe.FailureThreshold, 3) && !tell(false) {
			return
		}
		if !pause(ctx, time.Duration(period)*time.Second) {
			return
		}
	}
}

func orDefault(value, otherwise int32) int32 {
	if value == 0 {
		return otherwise
	}
	return value
}

// try probes once.
func (u *unit) try(ctx context.Context, process *container.Process, probe *corev1.Probe) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(orDefault(probe.TimeoutSeconds, 1))*time.Second)
	defer cancel()
	switch {
	case probe.HTTPGet != nil:
		return u.httpGet(ctx, probe.HTTPGet)
	case probe.TCPSocket != nil:
		address, err := u.address(probe.TCPSocket.Host, probe.TCPSocket.Port)
		if err != nil {
			return err
		}
		var dialer net.Dialer
		connection, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return connection.Close()
	case probe.Exec != nil:
		_, err := process.Exec(ctx, probe.Exec.Command)
		return err
	default:
		return errors.New("a kind of probe that the kubelet stand-in does not know")
	}
}

// address of a port of the container, which may be given by name.
func (u *unit) address(host string, port intstr.IntOrString) (string, error) {
	if host == "" {
		u.pod.mu.Lock()
		host = u.pod.address
		u.pod.mu.Unlock()
	}
	number := port.IntVal
	if port.Type == intstr.String {
		for _, known := range u.spec.Ports {
			if known.Name == port.StrVal {
				number = known.ContainerPort
			}
		}
	}
	if number == 0 {
		return "", fmt.Errorf("the container has no port %s", port.String())
	}
	return net.JoinHostPort(host, strconv.Itoa(int(number))), nil
}

func (u *unit) httpGet(ctx context.Context, get *corev1.HTTPGetAction) error {
	address, err := u.address(get.Host, get.Port)
	if err != nil {
		return err
	}
	scheme := "http"
	if get.Scheme == corev1.URISchemeHTTPS {
		scheme = "https"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+address+"/", nil)
	if err == nil {
		request.URL, err = request.URL.Parse(get.Path)
	}
	if err != nil {
		return fmt.Errorf("the probe's URL: %w", err)
	}
	for _, header := range get.HTTPHeaders {
		if http.CanonicalHeaderKey(header.Name) == "Host" {
			request.Host = header.Value
		}
		request.Header.Add(header.Name, header.Value)
	}
	client := &http.Client{
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode < 200 || response.StatusCode >= 400 {
		return fmt.Errorf("%s answered %s", request.URL, response.Status)
	}
	return nil
}
