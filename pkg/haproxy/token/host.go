package token

import "strings"

// Bounds of names (RFC 1035, 2.3.4).
const (
	maxHost  = 253
	maxLabel = 63
)

// IsHostname tells whether s is a DNS name in lower case: labels of letters, digits,
// hyphens and underscores (RFC 1123, 2.1; names with underscores are in use).
func IsHostname(s string) bool {
	if len(s) > maxHost {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if !isLabel(label, true) {
			return false
		}
	}
	return true
}

// IsLabel tells whether s is a label of RFC 1123 in lower case, without an underscore: what
// names of namespaces, Services and their ports are made of.
func IsLabel(s string) bool { return isLabel(s, false) }

func isLabel(s string, underscore bool) bool {
	if s == "" || len(s) > maxLabel || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && (c != '_' || !underscore) {
			return false
		}
	}
	return true
}
