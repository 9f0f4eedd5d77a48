package gateway

import (
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/pkg/haproxy/token"
)

// intersect is the host that two hosts have in common: the narrower one. A wildcard stands for
// one or more labels, unlike that of an Ingress.
func intersect(a, b string) (string, bool) {
	switch {
	case a == token.AnyHost || a == b:
		return b, true
	case b == token.AnyHost:
		return a, true
	case covers(a, b):
		return b, true
	case covers(b, a):
		return a, true
	}
	return "", false
}

// covers tells whether a wildcard stands for a host, or for all that another wildcard stands
// for.
func covers(wildcard, host string) bool {
	suffix, ok := strings.CutPrefix(wildcard, "*")
	return ok && strings.HasSuffix(host, suffix) && len(host) > len(suffix)
}

// common are the hosts that a route with the given ones has on a listener, sorted. A route
// without any has all of the listener's.
func common(listener string, hosts []string) []string {
	if len(hosts) == 0 {
		return []string{listener}
	}
	var list []string
	for _, host := range hosts {
		if both, ok := intersect(listener, host); ok {
			list = append(list, both)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}
