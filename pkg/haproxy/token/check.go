package token

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ControlError says that a text holds something that must not reach any file or socket.
type ControlError struct {
	At   int    // byte offset
	What string // "the control character U+000A" or the like
}

// Error is What with the place.
func (e *ControlError) Error() string { return fmt.Sprintf("%s at byte %d", e.What, e.At) }

// CheckText refuses control characters (C0, DEL, C1), the line and paragraph separators
// U+2028 and U+2029, and invalid UTF-8: the error is a *ControlError. Characters of allowed,
// for example "\n" in a text of several lines, are not refused.
func CheckText(s, allowed string) error {
	i := 0
	for i < len(s) && s[i] >= ' ' && s[i] < 0x7f { // nearly every text, to its end
		i++
	}
	return checkRunes(s, i, allowed)
}

// checkRunes is CheckText for what stands behind the first bytes.
func checkRunes(s string, from int, allowed string) error {
	for i, r := range s[from:] {
		i += from
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)):
			return &ControlError{i, "invalid UTF-8"}
		case (unicode.IsControl(r) || r == '\u2028' || r == '\u2029') && !strings.ContainsRune(allowed, r):
			return &ControlError{i, fmt.Sprintf("the control character U+%04X", r)}
		}
	}
	return nil
}
