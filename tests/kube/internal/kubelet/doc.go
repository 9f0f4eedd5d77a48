// Package kubelet stands in for scheduler, kubelet and container runtime: it registers
// nodes, binds pods to them, and runs the pods as processes, each pod in a network
// namespace of its own with an address on the bridge of the sandbox.
//
// What others can see of a pod is as with a real kubelet: conditions, container statuses
// and addresses; waiting for Secrets and ConfigMaps that don't exist yet, and their later
// changes in volumes; init containers and restarts; probes; the way from the deletion
// timestamp over preStop hook, SIGTERM, grace period and SIGKILL to the removal of the
// object; logs through the API server. What tests need beyond that are faults of which
// nobody tells the API server (Vanish, Pause, Unplug).
//
// Images are programs of this machine, see Image. An unknown image leaves the container
// waiting with ErrImagePull.
//
// Place: above container, sandbox and plane. Limits: gRPC probes and lifecycle hooks other
// than preStop are refused; resources are not enforced; there is no exec, attach or port
// forwarding through the API server; tokens in volumes are not renewed; scheduling looks
// at node selectors and at the node names that the daemon set controller writes only; restarts wait 10 s at most.
package kubelet
