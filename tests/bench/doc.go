// Command bench measures what docs/performance.md claims, in one run on one machine, and
// fails where a claim does not hold. `make bench` runs it.
//
// Times on two machines, or on one machine at two moments, can't be compared; so what is
// claimed are ratios of CPU times: the controller's own (user and system time of this
// process, garbage collection included) against that of `haproxy -c` on the very tree that
// was rendered, or against another number of Services, measured by turns. Requests are
// compared by throughput, in short rounds by turns, and the median counts.
//
// Everything is real but the source: the objects are made in Go, since decoding is not what
// is measured. The line is the one of cmd/internal/loop (snapshot, memo, shard, template,
// plan), plans are carried out by apply on a folder on the disk and on a running HAProxy.
//
// It may import everything below pkg/. It listens on loopback addresses only, and everything
// that it writes goes to a temporary folder.
//
// Limits: one process plays the controller for all parts of the run. So each measurement
// begins with a garbage collection that does not count; and since a single change allocates
// far less than what starts the next collection, its share of one is computed and added.
package main
