// Package forwarder hands datagrams on: it serves the UDP listeners of Gateways. It is not
// HAProxy, which is no proxy for UDP, but a part of sluice that runs beside it, and only as long
// as there is a listener: without one there is no socket and no goroutine.
//
//	client --> socket of the listener --> session --> socket of the session --> server
//	       <--  (the same)           <--          <--
//
// A listener has a socket for each of its addresses and a goroutine that reads it. The first
// datagram of a client's address opens a session: the client gets a backend by weight, in it a
// server in turn, and a connected socket to it, whose answers go back to the client from the
// address that it asked. A session ends when nothing was sent in either direction for a while,
// when its server is gone (the client's next datagram opens another one), or when the listener
// has too many: then the one whose client was silent for longest makes room.
//
// A share that can't be served is dropped for whole sessions, as the Gateway API has it: with 80 %
// of the weight on a Service that does not exist, 80 % of the clients get no answer.
//
// Apply takes a new table; sessions whose server stands in it, too, don't notice. Datagrams are
// copied once in each direction, into buffers that are used again: nothing is allocated for them.
//
// It owns the sockets and sessions and keeps nothing on disk. It imports the model, and stands
// beside apply at the end of the line: what it serves is independent of what HAProxy does.
//
// Limits: Linux. One goroutine reads an address, so one core bounds what clients may send to it.
// Sessions are lost when sluice ends, and while it is away nothing is forwarded, though HAProxy
// serves on. There are no health checks but refusals of the server's machine (ICMP). The server
// sees the address of sluice, not that of the client.
package forwarder
