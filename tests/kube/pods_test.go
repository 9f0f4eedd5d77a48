package kube_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluice-proxy/sluice/tests/kube"
)

// TestPods shows what the kubelet stand-in does for single pods.
func TestPods(t *testing.T) {
	c := start(t)
	for _, test := range []struct {
		what string
		run  func(*testing.T, *kube.Cluster)
	}{
		{"a pod waits for what it mounts and sees its changes", volumes},
		{"init containers come first, and the environment is the pod's", initial},
		{"a container that fails is restarted, and one that ends is done", restarts},
		{"a pod without a program for its image waits", unknownImage},
		{"readiness follows the probe", readiness},
		{"faults that nobody tells the API server", faults},
	} {
		t.Run(test.what, func(t *testing.T) { test.run(t, c) })
	}
}

// awaitPod waits until a pod is as wanted.
func awaitPod(t *testing.T, c *kube.Cluster, name, what string, holds func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	kube.Eventually(t, name+" "+what, func() error {
		var err error
		if pod, err = c.Client.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			return err
		}
		if !holds(pod) {
			return fmt.Errorf("status: %s", pod.Status.String())
		}
		return nil
	})
	return pod
}

func isReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

func logOf(t *testing.T, c *kube.Cluster, pod string) string {
	t.Helper()
	text, err := c.Client.CoreV1().Pods("default").GetLogs(pod, &corev1.PodLogOptions{}).DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// awaitLog waits until a pod has printed a line.
func awaitLog(t *testing.T, c *kube.Cluster, pod, line string) {
	t.Helper()
	kube.Eventually(t, pod+" prints "+line, func() error {
		if text := logOf(t, c, pod); !strings.Contains("\n"+text, "\n"+line+"\n") {
			return fmt.Errorf("log: %q", text)
		}
		return nil
	})
}

func volumes(t *testing.T, c *kube.Cluster) {
	apply(t, c, `
apiVersion: v1
kind: Pod
metadata: {name: mounts}
spec:
  securityContext: {runAsUser: 1000, runAsGroup: 1000, fsGroup: 2000}
  containers:
  - name: main
    image: busybox:1
    command: [sh, -c, "
      trap 'exit 0' TERM; id -G >/empty/groups; cat /empty/groups; head -c 3 /var/run/secrets/kubernetes.io/serviceaccount/token; echo;
      while true; do cat /etc/config/a; cat /etc/secret-volume/crt; sleep 0.1; done"]
    volumeMounts:
    - {name: config, mountPath: /etc/config}
    - {name: secret, mountPath: /etc/secret-volume}
    - {name: empty, mountPath: /empty}
  volumes:
  - {name: config, configMap: {name: late}}
  - {name: secret, secret: {secretName: late, defaultMode: 0400, items: [{key: tls.crt, path: crt}]}}
  - {name: empty, emptyDir: {}}
`)
	awaitPod(t, c, "mounts", "waits", func(p *corev1.Pod) bool {
		for _, condition := range p.Status.Conditions {
			if condition.Type == corev1.PodReady {
				return strings.Contains(condition.Message, `"late" not found`)
			}
		}
		return false
	})
	apply(t, c, `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late"}, "data": {"a": "first\n"}}`)
	apply(t, c, `{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "late"}, "stringData": {"tls.crt": "certificate\n"}}`)
	awaitPod(t, c, "mounts", "is ready", isReady)
	for _, line := range []string{"1000 2000", "eyJ", "first", "certificate"} {
		awaitLog(t, c, "mounts", line)
	}
	apply(t, c, `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late"}, "data": {"a": "second\n"}}`)
	awaitLog(t, c, "mounts", "second")
}

func initial(t *testing.T, c *kube.Cluster) {
	apply(t, c, `
apiVersion: v1
kind: Secret
metadata: {name: word}
stringData: {key: hidden}
---
apiVersion: v1
kind: Pod
metadata: {name: initial, labels: {tier: back}}
spec:
  restartPolicy: Never
  initContainers:
  - {name: first, image: busybox, command: [sh, -c, "echo one >/share/file"], volumeMounts: [{name: share, mountPath: /share}]}
  - {name: second, image: busybox, command: [sh, -c, "echo two >>/share/file"], volumeMounts: [{name: share, mountPath: /share}]}
  containers:
  - name: main
    image: busybox
    command: [sh, -c, "cat /share/file; echo $WHO"]
    args: ["$(IP)"]
    volumeMounts: [{name: share, mountPath: /share}]
    env:
    - {name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
    - {name: TIER, valueFrom: {fieldRef: {fieldPath: "metadata.labels['tier']"}}}
    - {name: WORD, valueFrom: {secretKeyRef: {name: word, key: key}}}
    - {name: WHO, value: "$(TIER) $(WORD) $$(IP) at $(IP)"}
  volumes: [{name: share, emptyDir: {}}]
`)
	pod := awaitPod(t, c, "initial", "has succeeded", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodSucceeded })
	if want := "one\ntwo\nback hidden $(IP) at " + pod.Status.PodIP + "\n"; logOf(t, c, "initial") != want {
		t.Errorf("log %q instead of %q", logOf(t, c, "initial"), want)
	}
}

func restarts(t *testing.T, c *kube.Cluster) {
	apply(t, c, `
apiVersion: v1
kind: Pod
metadata: {name: fails}
spec: {containers: [{name: main, image: busybox, command: [sh, -c, "exit 7"]}]}
`)
	pod := awaitPod(t, c, "fails", "was restarted twice", func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].RestartCount >= 2
	})
	if last := pod.Status.ContainerStatuses[0].LastTerminationState.Terminated; last == nil || last.ExitCode != 7 {
		t.Errorf("the end before: %v", last)
	}
}

func unknownImage(t *testing.T, c *kube.Cluster) {
	apply(t, c, `
apiVersion: v1
kind: Pod
metadata: {name: unknown}
spec: {terminationGracePeriodSeconds: 1, containers: [{name: main, image: "example.org/nobody/knows:it"}]}
`)
	awaitPod(t, c, "unknown", "waits", func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].State.Waiting != nil &&
			p.Status.ContainerStatuses[0].State.Waiting.Reason == "ErrImagePull"
	})
	if err := c.Client.CoreV1().Pods("default").Delete(t.Context(), "unknown", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	kube.Eventually(t, "it can be deleted", func() error {
		_, err := c.Client.CoreV1().Pods("default").Get(t.Context(), "unknown", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("still there: %w", err)
		}
		return nil
	})
}

func readiness(t *testing.T, c *kube.Cluster) {
	apply(t, c, `
apiVersion: v1
kind: Pod
metadata: {name: probed}
spec:
  containers:
  - name: main
    image: busybox
    command: [sh, -c, "trap 'exit 0' TERM; sleep 2; touch /good; while sleep 3; do rm -f /good; done"]
    readinessProbe: {exec: {command: [test, -e, /good]}, periodSeconds: 1, failureThreshold: 1}
`)
	awaitPod(t, c, "probed", "runs and is not ready", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning && !isReady(p) })
	awaitPod(t, c, "probed", "is ready", isReady)
	awaitPod(t, c, "probed", "is not ready any more", func(p *corev1.Pod) bool { return !isReady(p) })
}

func faults(t *testing.T, c *kube.Cluster) {
	apply(t, c, `
apiVersion: v1
kind: Pod
metadata: {name: faulty}
spec: {terminationGracePeriodSeconds: 1, containers: [{name: main, image: sluice-echo}]}
`)
	pod := awaitPod(t, c, "faulty", "is ready", isReady)
	answers := func() error {
		_, err := ask(pod.Status.PodIP, "/")
		return err
	}
	silent := func() error {
		if err := answers(); err == nil {
			return fmt.Errorf("it answers")
		}
		return nil
	}
	do := func(what string, fault func(namespace, name string) error, then func() error) {
		t.Helper()
		if err := fault("default", "faulty"); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		kube.Eventually(t, "after "+what, then)
	}
	kube.Eventually(t, "it answers", answers)
	do("Pause", c.Pause, silent)
	do("Resume", c.Resume, answers)
	do("Unplug", c.Unplug, silent)
	do("Plug", c.Plug, answers)
	do("Crash", c.Crash, func() error { return nil })
	awaitPod(t, c, "faulty", "was restarted", func(p *corev1.Pod) bool { return isReady(p) && p.Status.ContainerStatuses[0].RestartCount == 1 })
	kube.Eventually(t, "it answers after the crash", answers)
	do("Vanish", c.Vanish, silent)
	if connection, err := net.DialTimeout("tcp", pod.Status.PodIP+":3000", time.Second); err == nil {
		_ = connection.Close()
		t.Error("a vanished pod takes connections")
	}
	if after := awaitPod(t, c, "faulty", "exists", func(*corev1.Pod) bool { return true }); !isReady(after) {
		t.Error("the API server knows that the pod has vanished")
	}
}
