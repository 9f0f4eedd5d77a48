package token

import (
	"fmt"
	"strings"
)

// AnyHost is the host text of rules without a host.
const AnyHost = "*"

// HostKey is the key of a host in the table of exact hosts, or, where wildcard is true, of
// "*." and a name in the table of wildcards: that key is the name behind the first label.
func HostKey(host string) (key string, wildcard bool, err error) {
	if err := checkHost(host); err != nil || host == AnyHost {
		return host, false, err
	}
	name, wildcard := strings.CutPrefix(host, "*.")
	return name, wildcard, nil
}

// ExactKey is the key of a path in the table of exact routes. The path is in the form in
// which HAProxy looks it up, that is, printable ASCII; making it so is the caller's work.
func ExactKey(host, path string) (string, error) { return routeKey(host, path, path) }

// PrefixKey is the key of a path and all paths below it, by path elements, in the table of
// prefixes, where a request's path is looked up with "/" behind it.
func PrefixKey(host, path string) (string, error) {
	return routeKey(host, path, strings.TrimRight(path, "/")+"/")
}

// BeginKey is the key of all paths that begin with the path's bytes.
func BeginKey(host, path string) (string, error) { return routeKey(host, path, path) }

// DefaultKey is the key of whatever no other key of the host matches.
func DefaultKey(host string) (string, error) {
	if err := checkHost(host); err != nil {
		return "", err
	}
	return host + "#", nil
}

func routeKey(host, path, written string) (string, error) {
	if err := checkHost(host); err != nil {
		return "", err
	}
	if !strings.HasPrefix(path, "/") {
		return "", fmt.Errorf("path %q does not begin with /", path)
	}
	for i := range len(path) {
		if c := path[i]; c <= ' ' || c > '~' || c == '#' || c == '?' {
			return "", fmt.Errorf("path %q holds %q at byte %d, which no path of a request can hold", path, c, i)
		}
	}
	return host + "#" + written, nil
}

// checkHost takes AnyHost, a name in lower case, or "*." and such a name.
func checkHost(host string) error {
	if host != AnyHost && !IsHostname(strings.TrimPrefix(host, "*.")) {
		return fmt.Errorf("host %q is not a name in lower case, or *. and such a name", host)
	}
	return nil
}
