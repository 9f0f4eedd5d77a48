// Package tree describes the folder that HAProxy is started on, as values: which files
// are in it, with which content, and what kind each is.
//
// It is what the renderer hands to plan. It imports the model for Digest and reads and
// writes nothing itself; files and apply do that.
package tree
