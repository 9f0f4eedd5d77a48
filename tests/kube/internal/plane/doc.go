// Package plane runs a control plane: etcd, kube-apiserver and kube-controller-manager,
// with a certificate authority of its own, RBAC, and service accounts that have tokens.
// Each part can be stopped, killed, frozen and started again.
//
// Place: above sandbox, whose addresses and ports are free for it; beside container and
// kubelet. Limits: one control plane in a sandbox, with one etcd. There is no scheduler
// (the kubelet stand-in binds pods), no kube-proxy (cluster IPs lead nowhere) and no DNS,
// and the node lifecycle controller is off: a busy machine is no reason to evict pods.
package plane
