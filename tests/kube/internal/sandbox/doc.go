// Package sandbox gives a test binary a world of its own: network, processes and mounts
// that nobody outside sees and that end with it.
//
// The binary starts itself again in new namespaces of the kernel. There it is the router:
// it holds the bridge of the pods, and HAProxy, the controller and the test's clients run
// beside it. Nothing has a name outside, so nothing can be left behind: when the first
// process of the namespace dies, for whatever reason, the kernel ends all others, and
// with the last one go links, addresses, routes and mounts.
//
// Place: below all other packages of the module; it knows no Kubernetes. Limits: Linux,
// and root; IPv4 only.
package sandbox
