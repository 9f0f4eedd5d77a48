package model

import (
	"fmt"
	"log/slog"
)

// redacted is what a Secret shows of itself, wherever it is printed.
const redacted = "[redacted]"

// Secret holds bytes that must never be printed: private keys, password hashes. Every
// usual way of printing it (fmt, encoding/json, log/slog) yields a placeholder; only
// Reveal gives the content, so that a search for it finds each use.
type Secret struct{ content string }

// NewSecret wraps the given bytes.
func NewSecret(content []byte) Secret { return Secret{string(content)} }

// Reveal is the content. It goes to the file writer and the runtime socket, nowhere else.
func (s Secret) Reveal() string { return s.content }

// Len is the number of bytes of the content.
func (s Secret) Len() int { return len(s.content) }

// Digest identifies the content without telling it.
func (s Secret) Digest() Digest { return DigestOf([]byte(s.content)) }

// String is a placeholder.
func (s Secret) String() string { return redacted }

// Format writes a placeholder for every verb, %#v included.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// MarshalText writes a placeholder.
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue is a placeholder.
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }
