// Package memo is the one cache of the line: it keeps what each unit of conversion came
// to, runs again what depends on a changed object, and folds the fragments into a Model.
//
//	touched keys -> index -> units: global, ingress -> fold: who owns a path, a TLS host
//	                                backend, certificate -> fold: tables, crt-list, sets
//
// A unit is an Ingress, a backend (what a served path asks for), a certificate (the Secret
// of a served TLS host), or the global settings. The View of a unit notes each look-up,
// found or missing; the index leads from such a key to the units. A backend or certificate
// unit exists as long as a path or host that is served asks for it.
//
// Of the Gateway API, classes, Gateways and routes are units, too. The fold gives Gateways their
// addresses and frontends, puts the rules of routes into virtual hosts (package vhost compiles
// one when its rules or the names of its backends change), and tells in Statuses what only it
// knows: addresses and the numbers of attached routes.
//
// Listeners of several protocols may share a port; which frontend then has it, and which stand
// behind that one, is decided in sharing.go.
//
// Facts across objects are decided in the fold and nowhere else: which of several objects
// gets a path or the certificate of a host (the older one, then by namespace and name),
// what the flags of a host are, which profiles, lists and files are in use. Whatever can
// come from several units (a backend of one name, a profile, a file of equal content) is
// kept with all who bring it, and the choice among them depends on what they are, never on
// who came first: a Memo that saw many events equals a new one that is given everything.
//
// Except for the copies of tables and lists that changed, all work is in proportion to
// what changed: nothing walks over all units but a change of the global settings, and of
// the default certificate.
//
// It imports the converters, vhost, report and snapshot. It is the end of Convert on the line.
//
// A quarantined object is shown to the converters in its last good form, or not at all,
// see quarantine.go.
//
// Limits: a Memo belongs to one goroutine. It keeps the objects of the last good forms. A
// host that stands in TLS entries only has no flags, so rules without a host redirect it to
// https no more than any other unknown host. Nothing is said of the options of an Ingress
// that lost all its paths.
package memo
