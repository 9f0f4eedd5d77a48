package writer

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// askNodesEvery is the pause between two looks at the pods of the controller, lookEvery that
// between two at who leads.
const (
	askNodesEvery = 30 * time.Second
	lookEvery     = time.Second
)

// Nodes finds the addresses of the nodes that run the controller: what Ingresses get where
// nothing else is said.
type Nodes struct {
	Client    kubernetes.Interface
	Log       *slog.Logger
	Namespace string // of the controller's pod
	Pod       string // its name
	// Leads tells whether this replica writes: the others need no addresses.
	Leads func() bool
}

// Run hands out the addresses, sorted, whenever they change, until ctx ends. While they
// can't be had the last ones stay. Who does not lead asks nothing and has none: those of an
// earlier leadership may be wrong meanwhile, and without any, statuses stay as they are.
func (n *Nodes) Run(ctx context.Context, out chan<- []string) error {
	var last []string
	var asked time.Time // the zero value: not since this replica leads
	complaint := ""
	_ = wait.PollUntilContextCancel(ctx, lookEvery, true, func(ctx context.Context) (bool, error) {
		var addresses []string
		if n.Leads() {
			if !asked.IsZero() && time.Since(asked) < askNodesEvery {
				return false, nil
			}
			asked = time.Now()
			found, err := n.addresses(ctx)
			if err != nil {
				if ctx.Err() == nil && err.Error() != complaint {
					complaint = err.Error()
					n.Log.Error("the addresses of the controller's nodes can't be had for the status of Ingresses; give --publish-service or --publish-address, or permit "+
						"the verbs get and list on pods of the controller's namespace, and get on nodes", "error", err)
				}
				return false, nil
			}
			addresses, complaint = found, ""
		} else {
			asked = time.Time{}
		}
		if !slices.Equal(addresses, last) {
			select {
			case out <- addresses:
				last = addresses
			case <-ctx.Done():
			}
		}
		return false, nil
	})
	return nil
}

// addresses are those of the nodes of all pods that have the labels of this one and are
// ready. This one counts in any case: what it serves is acknowledged.
func (n *Nodes) addresses(ctx context.Context) ([]string, error) {
	own, err := n.Client.CoreV1().Pods(n.Namespace).Get(ctx, n.Pod, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the pod of the controller: %w", err)
	}
	pods := []corev1.Pod{*own}
	if selector := stableLabels(own.Labels); len(selector) > 0 {
		list, err := n.Client.CoreV1().Pods(n.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
		if err != nil {
			return nil, fmt.Errorf("listing the pods of the controller: %w", err)
		}
		pods = append(pods, slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return !isReady(&p) })...)
	}
	names := map[string]bool{}
	for _, pod := range pods {
		if pod.Spec.NodeName != "" {
			names[pod.Spec.NodeName] = true
		}
	}
	var addresses []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		node, err := n.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("reading a node of the controller: %w", err)
		}
		addresses = append(addresses, nodeAddresses(node)...)
	}
	slices.Sort(addresses)
	return slices.Compact(addresses), nil
}

// stableLabels are those labels of a pod that its siblings share.
func stableLabels(all map[string]string) labels.Set {
	own := []string{"pod-template-hash", "controller-revision-hash", "pod-template-generation", "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"}
	stable := labels.Set{}
	for name, value := range all {
		if !slices.Contains(own, name) {
			stable[name] = value
		}
	}
	return stable
}

func isReady(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// nodeAddresses are the external addresses of a node, or its internal ones if it has none.
func nodeAddresses(node *corev1.Node) []string {
	for _, kind := range []corev1.NodeAddressType{corev1.NodeExternalIP, corev1.NodeInternalIP} {
		var found []string
		for _, address := range node.Status.Addresses {
			if address.Type == kind && address.Address != "" {
				found = append(found, address.Address)
			}
		}
		if len(found) > 0 {
			return found
		}
	}
	return nil
}
