// Package cluster is the source of a live cluster: it follows the objects of an API server
// and sends what changes of them.
//
// It owns what is listed and watched, what of an object is kept, which Secrets and
// ConfigMaps are read, and what is said where the API server does not answer or refuses.
//
//	client-go Reflector -> sink (trim, compare) -> outbox -> Batch
//	Contents.Want, metadata of Secrets and ConfigMaps -> contents (GET) -> outbox
//
// The rules:
//   - Reflectors write into sinks rather than into the stores of shared informers, so that
//     the snapshot of the loop holds the only copy of an object: a sink keeps pointers to
//     it. What sluice does not read of an object (managed fields, applied configuration,
//     selectors, all of a status but addresses) is cut off before anything holds it.
//   - An object that did not change in what is kept is no change: a relist after a watch
//     that expired (410 Gone) sends the difference, mostly nothing. Nothing is resynced.
//   - Of Secrets and ConfigMaps only names and versions are watched. The content of those
//     that conversion looks up is read one by one, at most 10 at a time, again when its
//     version changes, and let go when nobody looks it up any more.
//   - The first batch comes when every kind is listed. Secrets, ConfigMaps and IngressClasses
//     that may not be read count as listed after a moment: there are none of them then,
//     and a finding says which permission is missing. Other kinds are waited for.
//   - Nothing gives up: what fails is tried again, at last every 10 s. Meanwhile the last
//     known objects stay in force, and Batch.Trouble says why nothing new comes.
//   - While a batch waits for the receiver, later changes are merged into it.
//   - With namespaces given, each is listed and watched on its own, so that Roles suffice,
//     and beside them the few objects elsewhere that flags name.
//
// It stands at the beginning of the line, beside the files source. It may import snapshot,
// report, model, the Kubernetes API types and client-go, and no other part of the project.
//
// Limits: with namespaces given, objects elsewhere are missing, whatever names them. Where
// IngressClasses can't be read, the flag's class is known by name alone, without
// parameters, and no class is the default one. Findings have no file and line.
package cluster
