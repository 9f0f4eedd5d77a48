package writer

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func node(name string, addresses ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, word := range addresses {
		kind, address, _ := strings.Cut(word, "=")
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeAddressType(kind), Address: address})
	}
	return n
}

func pod(name, node, hash string, ready corev1.ConditionStatus) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "sluice", Name: name, Labels: map[string]string{"app": "sluice", "pod-template-hash": hash}},
		Spec:       corev1.PodSpec{NodeName: node},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
	}
}

func TestNodes(t *testing.T) {
	stranger := pod("stranger", "e", "1", corev1.ConditionTrue)
	stranger.Labels["app"] = "other"
	client := fake.NewClientset(
		node("a", "Hostname=a", "InternalIP=10.0.0.1", "ExternalIP=192.0.2.1"), node("b", "InternalIP=10.0.0.2", "InternalIP=fd00::2"),
		node("c", "InternalIP=10.0.0.3"), node("d", "InternalIP=10.0.0.4"), node("e", "InternalIP=10.0.0.5"),
		pod("own", "a", "1", corev1.ConditionFalse), pod("twin", "a", "1", corev1.ConditionTrue), pod("older", "b", "0", corev1.ConditionTrue),
		pod("starting", "c", "1", corev1.ConditionFalse), stranger,
	)
	n := &Nodes{Client: client, Log: slog.New(slog.DiscardHandler), Namespace: "sluice", Pod: "own"}
	ctx, cancel := context.WithCancel(context.Background())
	out, done := make(chan []string), make(chan error)
	go func() { done <- n.Run(ctx, out) }()
	select {
	case got := <-out:
		if want := "10.0.0.2 192.0.2.1 fd00::2"; strings.Join(got, " ") != want {
			t.Errorf("got %v, want %s", got, want)
		}
	case <-time.After(patience):
		t.Error("no addresses come")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestNodesWithoutPod(t *testing.T) {
	n := &Nodes{Client: fake.NewClientset(), Namespace: "sluice", Pod: "own"}
	if addresses, err := n.addresses(context.Background()); err == nil || !strings.Contains(err.Error(), "reading the pod") {
		t.Errorf("got %v, %v", addresses, err)
	}
}
