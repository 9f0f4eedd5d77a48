// Package source says what a source hands to the loop: batches of changes.
//
// The sources themselves are packages below it: files (a folder of manifests) and cluster
// (an API server). The loop takes batches of either through one channel and does not know
// which one it serves.
//
// A cluster has many more Secrets and ConfigMaps than anything refers to. Such a source
// reads the content of those that the loop asks for, see Contents.
//
// It stands at the beginning of the line, imports snapshot and report, and does nothing.
package source
