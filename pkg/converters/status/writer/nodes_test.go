package writer

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"
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
	n := &Nodes{Client: client, Log: slog.New(slog.DiscardHandler), Namespace: "sluice", Pod: "own", Leads: func() bool { return true }}
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

// TestNodesAreAskedByTheLeader: the others ask for nothing, and a new leader at once.
func TestNodesAreAskedByTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(node("a", "InternalIP=10.0.0.1"), pod("own", "a", "1", corev1.ConditionTrue))
		var leads atomic.Bool
		log := &lines{}
		n := &Nodes{Client: client, Log: slog.New(slog.NewTextHandler(log, nil)), Namespace: "sluice", Pod: "own", Leads: leads.Load}
		ctx, cancel := context.WithCancel(t.Context())
		out, done := make(chan []string, 10), make(chan error)
		go func() { done <- n.Run(ctx, out) }()
		after := func(pause time.Duration, what string, requests int, want ...string) {
			t.Helper()
			client.ClearActions()
			time.Sleep(pause)
			synctest.Wait()
			if got := len(client.Actions()); got != requests {
				t.Errorf("%s: %d requests, want %d", what, got, requests)
			}
			var got []string
			for len(out) > 0 {
				got = append(got, strings.Join(<-out, " "))
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: addresses %q, want %q", what, got, want)
			}
		}
		after(time.Hour, "a replica that does not lead", 0)
		leads.Store(true)
		after(2*time.Second, "a new leader", 3, "10.0.0.1")
		after(5*time.Minute, "a leader, in five minutes", 30)
		leads.Store(false)
		after(time.Hour, "a leader no more", 0, "")
		leads.Store(true)
		after(2*time.Second, "a leader again", 3, "10.0.0.1")

		// A complaint is said once, and again when it comes back.
		failing := true
		client.PrependReactor("get", "nodes", func(kubetesting.Action) (bool, runtime.Object, error) {
			return failing, nil, forbidden("nodes")
		})
		after(2*time.Minute, "without the right", 12)
		failing = false
		after(time.Minute, "with it", 6)
		failing = true
		after(2*time.Minute, "without it again", 12)
		if n := log.count("permit the verbs"); n != 2 {
			t.Errorf("said %d times, want 2", n)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
