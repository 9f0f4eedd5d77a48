package token

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// maxName bounds a proxy's name: names are shown by every command and metric.
const maxName = 240

// Name is the first part of a backend's name: namespace_service_port. Names of Kubernetes
// hold letters in lower case, digits, "-" and "." only and stand as they are; any other byte
// becomes ":" and two hexadecimal digits, so that different triples have different names. A
// name that would be too long ends in ":-" and a digest.
func Name(namespace, service, port string) string {
	name := escapeName(namespace) + "_" + escapeName(service) + "_" + escapeName(port)
	if len(name) > maxName {
		sum := sha256.Sum256([]byte(name))
		name = name[:maxName-34] + ":-" + hex.EncodeToString(sum[:16])
	}
	return name
}

func escapeName(s string) string {
	if strings.IndexFunc(s, special) < 0 {
		return s
	}
	var b strings.Builder
	for i := range len(s) {
		if special(rune(s[i])) {
			b.WriteByte(':')
			b.WriteString(hex.EncodeToString([]byte{s[i]}))
		} else {
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

func special(c rune) bool {
	return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '.'
}
