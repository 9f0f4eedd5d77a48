// Command controlplane is etcd, kube-apiserver and kube-controller-manager in one binary:
// which one it is, the name it is called by says. One binary is linked once and shares the
// packages that the three have in common.
//
// It is a Go module of its own below tests/kube, so that neither the product nor the tests
// that start a control plane compile Kubernetes. tests/tools/controlplane.sh builds it,
// about 12 CPU-minutes at first, and keeps the binary.
package main
