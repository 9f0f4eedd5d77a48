package model

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
)

// Digest identifies content: the first 16 bytes of its SHA-256.
type Digest [16]byte

// DigestOf is the digest of the given bytes, one part behind the other.
func DigestOf(parts ...[]byte) Digest {
	if len(parts) == 1 {
		sum := sha256.Sum256(parts[0])
		return Digest(sum[:16])
	}
	h := sha256.New()
	for _, part := range parts {
		h.Write(part)
	}
	return Digest(h.Sum(nil)[:16])
}

// String is the digest in hexadecimal, 32 characters.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// Short is the first 8 hexadecimal characters, for names that a person reads.
func (d Digest) Short() string { return hex.EncodeToString(d[:4]) }

// IsZero tells whether no digest was ever computed.
func (d Digest) IsZero() bool { return d == Digest{} }

// MarshalText writes the digest in hexadecimal.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (d *Digest) UnmarshalText(text []byte) error {
	raw, err := hex.DecodeString(string(text))
	if err != nil || len(raw) != len(d) {
		return fmt.Errorf("%q is not a digest of %d bytes in hexadecimal", text, len(d))
	}
	copy(d[:], raw)
	return nil
}

// Hasher builds a Digest of several parts. Each part is preceded by its length, so
// that no two lists of parts give the same bytes.
type Hasher struct {
	h   hash.Hash
	buf []byte
}

// NewHasher returns an empty Hasher.
func NewHasher() *Hasher { return &Hasher{h: sha256.New()} }

// Str adds a string.
func (h *Hasher) Str(parts ...string) *Hasher {
	for _, s := range parts {
		h.buf = binary.AppendUvarint(h.buf[:0], uint64(len(s)))
		h.buf = append(h.buf, s...)
		h.h.Write(h.buf)
	}
	return h
}

// Int adds a number.
func (h *Hasher) Int(numbers ...int64) *Hasher {
	for _, n := range numbers {
		h.buf = binary.AppendVarint(h.buf[:0], n)
		h.h.Write(h.buf)
	}
	return h
}

// Bool adds a truth value.
func (h *Hasher) Bool(values ...bool) *Hasher {
	for _, v := range values {
		n := int64(0)
		if v {
			n = 1
		}
		h.Int(n)
	}
	return h
}

// Sum adds the digest of a part that was hashed before.
func (h *Hasher) Sum(parts ...Digest) *Hasher {
	for _, d := range parts {
		h.h.Write(d[:])
	}
	return h
}

// Digest is the digest of everything added so far.
func (h *Hasher) Digest() Digest {
	return Digest(h.h.Sum(h.buf[:0])[:16])
}

// Bytes adds a string given as bytes.
func (h *Hasher) Bytes(s []byte) *Hasher {
	h.buf = binary.AppendUvarint(h.buf[:0], uint64(len(s)))
	h.h.Write(h.buf)
	h.h.Write(s)
	return h
}
