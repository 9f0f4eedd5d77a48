// Package serverline is the one renderer of servers and their options.
//
// The same text stands on the "server" line of a shard file and in "add server" at run
// time, so a server behaves alike whichever way it came to be. "default-server" is never
// written, since "add server" ignores it: TLS would silently become plain text.
//
// It imports the model. template uses it for files, socket for commands, shard to read
// back what it wrote.
//
// Limits: HAProxy's configuration has no word for the state drain. A draining server is
// written and set as one of weight 0, which HAProxy defines to mean the same: no new
// clients, those that stick to it go on (configuration manual, server option "weight").
package serverline
