// Package conformance runs the official conformance suite of the Gateway API, unmodified,
// against sluice: with a real control plane, HAProxy, and the suite's own echo program in
// pods (tests/kube). `make conformance` runs it.
//
// It runs all five profiles of gateways, and asks of each feature what the status of the
// GatewayClass claims: nothing is skipped, and no list of features stands here. The CRDs are
// those of the module that the suite comes from, of the experimental channel, which has the
// fields of HTTPRoute's retries.
//
// The flags of the suite are those of the test binary (-run-test, -debug, ...). Beyond them:
//
//   - -short-timeouts, for daily runs: what fails is told after seconds and not after
//     minutes. What passes takes the same time.
//   - -report FILE writes the suite's report, with its default timeouts; a failed run writes
//     one, too.
//
// A part of the suite: go test -run 'TestConformance/HTTPRoute.*'. Unlike -run-test, which
// runs a test whether its features are claimed or not, that asks for claimed features only.
//
// Place: a Go module of its own, whose dependencies are those of the suite; it uses
// tests/kube and the product's programs. Limits: those of tests/kube, one replica of
// sluice, IPv4; the DNS server of the suite is a stand-in (whoami).
package conformance
