// Package plan is the one place that computes differences: between the tree and the
// servers that are wanted and those that the registry says are there.
//
// Its result is a list of steps, sorted in the order in which they must be carried out,
// each with a reason in words. It is pure: it reads no file and asks no socket.
//
// It imports model, tree and shard. It stands between Render and Apply.
//
// Limits: a new backend or profile, and whatever stands in the global and frontend sections,
// is a reload. What is served is believed as the registry tells it; whoever is not sure
// hands in a registry without Served, and gets a reload.
package plan
