// Package writer carries out what package status wants: it writes statuses and Events to a
// cluster, or, in standalone mode, all of it into one file.
//
//	loop --Post, Notice--> Cluster --rate-limited queue--> API server   (by the leader only)
//	                       File    --> status.yaml
//
// Post and Notice never block: they keep the newest value of each object. Cluster writes an
// Ingress' status by server-side apply as a field manager of its own, so the API server
// keeps account of whose entry stands there: an address is taken away from an Ingress that
// left the class only if sluice wrote it and nobody wrote over it since. Nothing is written
// that the source shows already. A replica that stops leaves everything as it stands, and a
// new leader writes only differences.
//
// The status of an object of the Gateway API is merged with what others wrote and replaced in
// one request, on the condition that nobody wrote meanwhile; else it is read and merged anew.
// Gateways and ListenerSets count their routes, so they are written at most about once a
// second while routes come and go. A Gateway with spec.infrastructure gets a Service that
// carries its labels and annotations; it goes with the Gateway, which owns it.
//
// Which replica leads is decided with a Lease. All others serve traffic all the same, and
// keep the newest values, so that a hand-over needs no conversion.
//
// An Event is sent when a finding of severity warning or error appears. Its name follows
// from what it says, so that the API server refuses what a former leader has said already.
// One that could not be sent is tried again while its finding is in force.
//
// It imports status, and files for atomic writes. It is one of the two places with a
// Kubernetes client.
//
// Limits: the Service of a Gateway that has no spec.infrastructure any more stays, bare, until
// the Gateway goes; where no leader saw the change it keeps what it carried. Nodes of a leader asks twice a minute instead of watching. Kubernetes forgets Events after an
// hour; one whose finding is older is sent again by the next leader only.
package writer
