// Package e2e runs the program with a real HAProxy on manifests that change, and looks at
// what a user would see: answers, files, `show backend`, metrics.
//
// It needs no cluster. Every test that does not say otherwise runs against each branch of
// HAProxy that sluice supports.
package e2e
