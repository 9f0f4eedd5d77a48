// Package token turns text into HAProxy's languages: words of a configuration line,
// log-format text, lines of map files, keys of the route tables and words of a runtime
// command. It is the only place where that is done, so whatever a user writes is one
// token and nothing but that token.
//
// Every encoder refuses control characters, other line separators and invalid UTF-8
// first; each either returns text that HAProxy reads back as its argument or an error.
// The rules are those of the configuration manual, 2.2 "Quoting and escaping", of 7.1
// for files of patterns, and of the management manual, 9.3 for the command line.
//
// A backend's server lines (package serverline) are the exception: they hold nothing but
// addresses, numbers and words that were checked where they were read.
//
// It imports the standard library only. Everything on the HAProxy side that writes text
// stands above it, and so do the converters, which check texts and make keys with it.
//
// Limits: it knows the syntax, not the meaning of a text. A word that HAProxy takes for
// something else than its author meant is a matter of package settings.
package token
