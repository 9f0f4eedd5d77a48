// Package status says what the status of each object shall be, once HAProxy serves what
// the object asks for.
//
//	Ingresses that were converted and applied --+
//	addresses: Publish of a snapshot -----------+--> Ledger --> Items that changed
//
// A Ledger holds one Item for each object that something is wanted of: the status wanted
// and the one that the source shows. It is told of a conversion only when HAProxy has
// acknowledged the batch that holds it, so no status runs ahead of what is served. Items
// follow from the newest snapshot, from whose the Ingress is, and from the addresses, never
// from former items: a Ledger that saw many events equals a new one that is told
// everything. Its work is in proportion to what was converted, but for a change of the
// addresses, which concerns everybody.
//
// An Ingress of this controller has the whole list of addresses. An Ingress of somebody
// else that still shows exactly this list has it taken away; the writer asks the API
// server whose entry it is. While no address is known nothing is wanted: what stands in a
// status stays.
//
// Objects of the Gateway API come to UpdateGateway with the status that conversion and fold
// gave them. What stands in their lists is shared with other controllers: an Item holds all
// of it, and Merged says what shall stand there. Foreign parents and conditions stay as they
// are and where they are, ours go when they are wanted no more, and a condition keeps its time
// until its status changes: what is right already is written by nobody. A Gateway that is
// somebody else's is never written to; a route that left has our entries taken away.
//
// Notices are findings with what an Event needs besides.
//
// It imports report, snapshot and, for the type of their statuses, gateway; it is the end of
// the line, and pure. The writers stand below it.
//
// Limits: an address list that was written before it changed, on an Ingress that left
// this controller's class while no controller ran, is not recognised and stays.
package status
