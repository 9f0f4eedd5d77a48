// Package container runs a program as a container: in the network namespace of its pod,
// with processes, mounts and a host name of its own, and with this machine's files below
// a layer that takes what it writes.
//
// The test binary starts itself in new namespaces and is, in that stage, what a container
// runtime's shim is: it mounts, enters the pod's network and becomes the program
// (Become). There is no image format: a container sees the machine's programs and
// libraries, and its own files at the paths where its image would have them.
//
// Place: beside sandbox, below kubelet; it knows no Kubernetes. Limits: no cgroups, so no
// limits of memory and CPU; capabilities and seccomp are those of the test.
package container
