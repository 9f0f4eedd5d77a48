// Command testjson reads the stream of `go test -json` from its standard input and shows
// it the way `go test` does: one line for each package, and the output of tests that
// failed. At the end it says how many tests passed, failed and were skipped, tests and
// subtests alike.
//
//	go test -json ./... | go run ./tests/testjson -save tests.json -counts counts
//
// A package that fails with no failing test (it does not compile, or it ran out of time)
// counts as one failed test. It exits with 1 if anything failed, or if nothing ran.
package main
