package socket

import "fmt"

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

// Pending tells that a server could not be deleted yet: it is in maintenance and waits
// for its last stream. Send the same DelServer again later.
type Pending struct{ Backend, Server string }

// Error says what the server waits for.
func (e *Pending) Error() string {
	return fmt.Sprintf("server %s/%s is in maintenance and still has connections; its removal has to be retried", e.Backend, e.Server)
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
