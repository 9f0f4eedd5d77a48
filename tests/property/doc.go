// Package property holds the whole line, from object events to a running HAProxy, against
// random life: objects come, change and go, the number of shards changes, files are
// vandalised, the controller restarts or is killed between two steps, HAProxy dies,
// refuses a reload or answers nonsense. Whatever happened, once the line has come to rest
// the files are those that a render from scratch gives, HAProxy serves what they say, and
// nothing is left over.
//
// The parts are wired as cmd/internal/loop.Line wires them, from packages below pkg/ only.
// Most sequences run against a small model of HAProxy, which loads the folder as HAProxy
// does and answers a command that does not fit its state as HAProxy would; a sample runs
// against each branch of the real one.
//
// It holds tests only. More of them: go test ./tests/property -rapid.checks=5000.
package property
