// Package socket speaks to HAProxy: to the stats socket of a worker (Runtime) and to the
// socket of the master (Master).
//
// It owns the text of every runtime command and the knowledge of which answer means
// success (answers.go); an answer that is not in that table is an *UnexpectedAnswer.
// Values of plan.Command go in, one result for each comes out. It imports plan, model,
// serverline, token and tree, logs nothing, and stands between Plan and Apply.
//
// # Worker
//
// Each Run dials anew: a connection belongs to one worker and stays with it after a
// reload, where it goes on answering success. Options.Worker makes the Runtime compare
// the pid first. Commands on servers are packed into lines of up to 12 kB joined by ";";
// each is followed by "echo ~number~", so that answers can't be taken for one another.
// Private keys are decoded and encoded again before they are sent, never returned in an
// error, and sent with a terminator of our own instead of the empty line.
//
// A backend is added with its servers and published in one line; where that fails nothing
// that comes behind it is sent (*NotSent). One that goes is unpublished, and while it has
// a stream nothing else is done to it (*Pending).
//
// Every command is idempotent: what exists is set, what is gone is fine, no key and no
// line is ever there twice.
//
// # Master
//
// Reload goes through client-native's Runtime.Reload, which knows how to tell success
// from refusal and to find the start-up logs. Ours around it is what it lacks: it knows
// no context, ends after 30 seconds whatever happens (its error then says "unknown
// status") and keeps HAProxy's version, asked from the current worker, in a variable of
// its package, without which it refuses to reload. So it runs in a goroutine of its own
// that is left behind when ctx ends; after an unclear end "show proc" and "show
// startup-logs" decide; and where it doesn't know the version the same command is sent
// directly. Everything else is not done with client-native since its calls have no
// context, count an empty answer as success, and put the command, keys included, into
// errors.
//
// Probe asks what the binary is able to do, without looking at its version.
//
// Limits: a payload of 15 kB, or of 120 kB where
// Probe found that the binary takes it; a server that is busy after 100 ms stays in
// maintenance (*Pending) and is not shut down.
package socket
