// Package kube gives tests a Kubernetes cluster without containers: a real control plane
// (etcd, kube-apiserver and kube-controller-manager with RBAC on) and pods that are
// processes in network namespaces of their own, on this machine and in seconds.
//
// A test binary that uses it hands its tests to Main, which runs them in a sandbox: the
// test, HAProxy, the controller and all clients are in one network namespace, the router,
// with the pods on its bridge.
//
//	10.244.0.1     the router: API server (port 6443), node address, hostNetwork pods
//	10.244.0.0/16  pods; they reach the router and each other
//	10.200.0.0/16  every address is the router's: to be given to Gateways and Services
//	10.96.0.0/16   cluster IPs; they lead nowhere, there is no kube-proxy
//
// Start gives a Cluster: clients, kubeconfigs for service accounts so that the product
// runs under the rights that its manifests grant and no others, ways to stop, kill and freeze each part
// of the control plane, and faults of pods. When the test ends, by whatever means, the
// kernel removes all of it. Logs of a failed test are kept, see Cluster.Logs.
//
// What the cluster is not: see the limits of the packages below internal/. Each test
// binary has a sandbox of its own, and may run one cluster at a time in it.
//
// Place: a Go module of its own, which knows nothing of the product but how to build its
// programs; the control plane's programs come from tests/tools/controlplane.sh. Root is
// needed, and Linux with overlayfs.
package kube
