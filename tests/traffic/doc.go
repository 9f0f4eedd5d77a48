// Package traffic tests that no request is lost: a real sluice and a real HAProxy in a
// network namespace, pods in another one, and clients that ask at a fixed rate while pods
// come and go, HAProxy reloads and processes are killed.
//
// # The clients
//
// The load is an open loop: request number n is due at start + n / rate, whatever became of
// those before, and its latency counts from that moment. So a stall is seen by all requests
// that fall into it, not by the one that waited. Each request gets a verdict (report_test.go):
//
//   - served: a whole answer that a pod made,
//   - failed: no answer within the budget, an answer that HAProxy made with a status of 500
//     or more, or a body that was cut,
//   - excused: failed, but the pod had begun its answer, or the method is not safe to replay
//     and its bytes may have left. These are counted and printed apart.
//
// The clients are written here, since those of net/http send a request again by themselves,
// which would hide what is measured. HTTP/2 is the exception: net/http speaks it, and a
// request that it had to send twice is counted.
//
// # The network
//
// The test binary starts itself again in new namespaces (space_test.go). Pods are sockets of
// the test in a namespace of their own, at addresses of 10.64.0.0/10, behind a pair of links.
// A pod that vanishes is a policy rule there that drops all packets from and to its address
// without a word, as a node that lost its power does. That is iproute2; nftables is not needed.
//
// # Short and long
//
// `go test ./tests/traffic` is the short form. `make soak` runs the sizes of the project's
// list, or as long as SOAK_TIME says.
//
// It may import tests/harness and what is below it. Limits: Linux, root, IPv4; the machine's
// own load is in all latencies.
package traffic
