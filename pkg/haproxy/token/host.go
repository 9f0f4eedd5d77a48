package token

import (
	"errors"
	"fmt"
	"strings"
)

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

// RuleHost is the host of a rule as a key spells it: in lower case, AnyHost if it is empty.
// It must be a DNS name of labels without underscores, as the APIs of Kubernetes define it, or
// one behind a "*.".
func RuleHost(host string) (string, error) {
	if host == "" {
		return AnyHost, nil
	}
	host = strings.ToLower(host)
	name := strings.TrimPrefix(host, "*.")
	if len(name) > maxHost {
		return "", errors.New("it is longer than 253 characters")
	}
	numeric := true // an IPv4 address looks like a DNS name
	for label := range strings.SplitSeq(name, ".") {
		if !IsLabel(label) {
			return "", fmt.Errorf("%.70q is not a label of letters, digits and '-'", label)
		}
		numeric = numeric && strings.Trim(label, "0123456789") == ""
	}
	if numeric {
		return "", errors.New("a host is a name, not an address")
	}
	return host, nil
}
