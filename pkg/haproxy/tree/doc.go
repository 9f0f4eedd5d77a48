// Package tree describes the folder that HAProxy is started on, as values: which files
// are in it, with which content, and what kind each is.
//
// It is what the renderer hands to plan. It imports the model for Digest and reads and
// writes nothing itself; files and apply do that.
//
// Limits: a tree is a list of files with fixed folders; nothing in it is executable, and
// content is held in memory only where it is to be written.
package tree
