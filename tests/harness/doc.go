// Package harness is what the tests of several packages share: it finds the HAProxy
// binaries, writes trees and asks HAProxy what it thinks of them, and runs a whole sluice
// with pods, clients, a load balancer and certificates around it.
//
// It may import anything below pkg/haproxy; nothing but tests imports it.
package harness
