// Package plan is the one place that computes differences: between the tree and the
// servers that are wanted and those that the registry says are there.
//
// Its result is a list of steps, sorted in the order in which they must be carried out,
// each with a reason in words. It is pure: it reads no file and asks no socket.
//
// It imports model, tree and shard. It stands between Render and Apply.
//
// Backends come and go by commands where the worker can do that (shard.Worker: found out by
// apply) and has loaded their profile; static ones need a reload. A profile that lost its last
// backend leaves the files, but stays loaded in the worker until the next reload.
//
// Limits: a new profile, and whatever stands in the global and frontend sections, is a
// reload. What is served is believed as the registry tells it; whoever is not sure
// hands in a registry without Served, and gets a reload.
package plan
