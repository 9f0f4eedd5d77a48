package kubelet

import (
	"context"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sluice-proxy/sluice/tests/kube/internal/plane"
	"github.com/sluice-proxy/sluice/tests/kube/internal/sandbox"
)

// Node is a node to register. All nodes are this machine: they differ by name and labels.
type Node struct {
	Name   string
	Labels map[string]string // of zones, say
}

// Beats of the heart are those of a kubelet.
const (
	beat          = 10 * time.Second
	leaseDuration = 40 // seconds
)

const leaseNamespace = corev1.NamespaceNodeLease

func (k *Kubelet) node(name string) (Node, bool) {
	i := slices.IndexFunc(k.o.Nodes, func(n Node) bool { return n.Name == name })
	if i < 0 {
		return Node{}, false
	}
	return k.o.Nodes[i], true
}

func (k *Kubelet) register(n Node, index int) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: map[string]string{
		corev1.LabelHostname: n.Name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
	}}}
	for key, value := range n.Labels {
		node.Labels[key] = value
	}
	nodes := k.o.Client.CoreV1().Nodes()
	created, err := nodes.Create(k.ctx, node, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("registering node %s: %w", n.Name, err)
	}
	capacity := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("256Gi"), corev1.ResourcePods: resource.MustParse("1000"),
	}
	now := metav1.Now()
	created.Status = corev1.NodeStatus{
		Capacity: capacity, Allocatable: capacity,
		Conditions: []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "pods can be run",
			LastHeartbeatTime: now, LastTransitionTime: now,
		}},
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: sandbox.RouterAddress}, {Type: corev1.NodeHostName, Address: n.Name},
		},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: plane.KubeletPort}},
		NodeInfo:        corev1.NodeSystemInfo{KubeletVersion: "v0.0.0-sluice", OperatingSystem: "linux", Architecture: "amd64", MachineID: fmt.Sprint(index)},
	}
	if created, err = nodes.UpdateStatus(k.ctx, created, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("status of node %s: %w", n.Name, err)
	}
	// The API server taints a new node as not ready. The node lifecycle controller, which does
	// not run here, would take that away; daemon sets leave such nodes out.
	created.Spec.Taints = nil
	if _, err := nodes.Update(k.ctx, created, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("taints of node %s: %w", n.Name, err)
	}
	return nil
}

// heartbeat renews the nodes' leases.
func (k *Kubelet) heartbeat() {
	for {
		for _, node := range k.o.Nodes {
			if err := k.renew(node.Name); err != nil && k.ctx.Err() == nil {
				k.o.Report("lease of node %s: %v", node.Name, err)
			}
		}
		if !pause(k.ctx, beat) {
			return
		}
	}
}

func (k *Kubelet) renew(name string) error {
	ctx, cancel := context.WithTimeout(k.ctx, beat)
	defer cancel()
	leases := k.o.Client.CoordinationV1().Leases(leaseNamespace)
	now, seconds := metav1.NowMicro(), int32(leaseDuration)
	lease, err := leases.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: leaseNamespace}}
		lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: &seconds, RenewTime: &now}
		_, err = leases.Create(ctx, lease, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	lease.Spec.RenewTime = &now
	_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	return err
}

// bindAll is the scheduler.
func (k *Kubelet) bindAll() {
	for {
		name, stop := k.unbound.Get()
		if stop {
			return
		}
		if err := k.bind(name); err != nil {
			k.unbound.AddRateLimited(name)
		} else {
			k.unbound.Forget(name)
		}
		k.unbound.Done(name)
	}
}

func (k *Kubelet) bind(name types.NamespacedName) error {
	pod, err := k.pods.Pods(name.Namespace).Get(name.Name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil || len(pod.Spec.SchedulingGates) > 0 {
		return nil
	}
	node, found := k.choose(pod)
	if !found {
		k.o.Report("pod %s fits no node", name)
		return nil
	}
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}
	err = k.o.Client.CoreV1().Pods(name.Namespace).Bind(k.ctx, binding, metav1.CreateOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // gone, or bound by somebody else
	}
	return err
}

// choose is the fitting node with the fewest pods; among equals the first.
func (k *Kubelet) choose(pod *corev1.Pod) (string, bool) {
	all, err := k.pods.List(labels.Everything())
	if err != nil {
		panic(err) // a list from memory
	}
	count := map[string]int{}
	for _, other := range all {
		count[other.Spec.NodeName]++
	}
	best, found := "", false
	for _, node := range k.o.Nodes {
		if fits(pod, node) && (!found || count[node.Name] < count[best]) {
			best, found = node.Name, true
		}
	}
	return best, found
}

func fits(pod *corev1.Pod, node Node) bool {
	for key, value := range pod.Spec.NodeSelector {
		own := node.Labels[key]
		switch key {
		case corev1.LabelHostname:
			own = node.Name
		case corev1.LabelOSStable:
			own = "linux"
		case corev1.LabelArchStable:
			own = "amd64"
		}
		if own != value {
			return false
		}
	}
	affinity := pod.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil || affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return true
	}
	// What the daemon set controller writes: one field, the node's name.
	for _, term := range affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, field := range term.MatchFields {
			if field.Key == metav1.ObjectNameField && field.Operator == corev1.NodeSelectorOpIn && slices.Contains(field.Values, node.Name) {
				return true
			}
		}
	}
	return false
}
