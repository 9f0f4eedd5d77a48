package socket

import (
	"fmt"
	"strings"
)

// UnexpectedAnswer is an answer that is not known to mean success. What HAProxy then
// holds is not known: the caller marks drift and reloads.
type UnexpectedAnswer struct {
	Command string // as it was sent, without its payload
	Answer  string // HAProxy's text, shortened, without key bytes
}

// Error names the command and quotes the answer.
func (e *UnexpectedAnswer) Error() string {
	if e.Answer == "" {
		return fmt.Sprintf("haproxy gave no answer to %q", e.Command)
	}
	return fmt.Sprintf("haproxy answered %q to %q", e.Answer, e.Command)
}

// Pending tells that something could not be deleted yet. After a DelServer the server waits
// in maintenance, after a DelBackend the backend is unpublished: send the same command again
// later. After an AddBackend it names servers that the backend had before; they wait for a
// DelServer each.
type Pending struct {
	Backend string
	Servers []string // none: the backend waits for its streams
}

// Error says what is waited for.
func (e *Pending) Error() string {
	if len(e.Servers) == 0 {
		return fmt.Sprintf("backend %s is unpublished and still has streams; its removal has to be retried", e.Backend)
	}
	return fmt.Sprintf("backend %s: server %s is in maintenance and still has connections; its removal has to be retried",
		e.Backend, strings.Join(e.Servers, ", "))
}

// NotSent tells that a command was left out, since a backend before it could not be added,
// and a route might lead there.
type NotSent struct{ Backend string }

// Error names the backend.
func (e *NotSent) Error() string {
	return fmt.Sprintf("not sent, since backend %s could not be added", e.Backend)
}

// TooLarge tells that a command does not fit what the CLI of this binary accepts. It was
// not sent; a reload reads the same content from its file.
type TooLarge struct {
	What  string // the object: certs/NAME.pem
	Size  int    // bytes
	Limit int    // bytes
}

// Error names the object and both sizes.
func (e *TooLarge) Error() string {
	return fmt.Sprintf("%s has %d bytes, the runtime socket takes %d: a reload has to load it (tune.bufsize, tune.cli.max-payload-size)", e.What, e.Size, e.Limit)
}

// WrongWorker tells that the socket leads to another process than the expected one: a
// reload or a restart took place in between. Nothing was sent.
type WrongWorker struct{ Want, Have int }

// Error names both processes.
func (e *WrongWorker) Error() string {
	return fmt.Sprintf("the runtime socket leads to process %d, expected %d: haproxy was reloaded or restarted meanwhile", e.Have, e.Want)
}

// Refused is a reload that HAProxy did not carry out. The old worker goes on serving.
type Refused struct{ Logs string }

// Error holds the start-up log of the refused configuration.
func (e *Refused) Error() string {
	return "haproxy refused the reload and goes on with the old configuration: " + e.Logs
}

// Invalid tells that a command can't be spelled on the command line. It was not sent.
type Invalid struct {
	What string // the command's verb
	Why  error
}

// Error names the command and the reason.
func (e *Invalid) Error() string {
	return fmt.Sprintf("%s can't be sent to the runtime socket, a reload has to do it: %v", e.What, e.Why)
}

// Unwrap is the reason.
func (e *Invalid) Unwrap() error { return e.Why }
