// Package source says what a source hands to the loop: batches of changes.
//
// The sources themselves are packages below it: files (a folder of manifests) and cluster
// (an API server). The loop takes batches of either through one channel and does not know
// which one it serves.
//
// It stands at the beginning of the line, imports snapshot and report, and does nothing.
package source
