package token

import (
	"fmt"
	"strings"
)

// Word is a bare word: a name or keyword that needs no quotes. It is refused if it is empty
// or holds anything but letters and digits of ASCII and "._:/,=+@~*()!-"; what the manual
// gives a meaning (blanks, quotes, backslash, "#", "$", "%", braces) is never among them.
func Word(s string) (string, error) {
	if s == "" {
		return "", fmt.Errorf("a word must not be empty")
	}
	for i := range len(s) {
		if !plain(s[i]) {
			return "", fmt.Errorf("%q is not a word: %q at byte %d is not allowed", s, s[i], i)
		}
	}
	return s, nil
}

func plain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("._:/,=+@~*()!-", c) >= 0
}

// Quoted is one argument of a line in strong quotes, where nothing is expanded.
func Quoted(s string) (string, error) {
	if err := CheckText(s, ""); err != nil {
		return "", err
	}
	return quote(s), nil
}

// quote puts s in strong quotes; a quote of s itself stands escaped between two quoted parts.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// LogFormat is literal text as an argument that HAProxy evaluates as a log-format: each
// percent sign is doubled, since "%[" and "%{" would begin an expression.
func LogFormat(s string) (string, error) {
	if err := CheckText(s, ""); err != nil {
		return "", err
	}
	return quote(strings.ReplaceAll(s, "%", "%%")), nil
}
