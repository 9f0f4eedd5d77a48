// Package snapshot holds the objects that are read from a source, and the view through
// which converters see them.
//
// A Snapshot belongs to the loop: the loop applies changes to it between two rounds and
// nobody else does. The objects in it are never modified. A View notes the key of
// every look-up, found or missing, so that memo knows what to run again when that key
// changes: an object that does not exist is a key like any other.
//
// It imports the Kubernetes API types and the model (for Secret). It stands at the
// beginning of the line.
//
// Limits: it is not safe for concurrent use, and holds every object of every kind that
// sluice reads in memory.
package snapshot
