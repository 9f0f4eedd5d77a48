package settings

import "strings"

// Live says how a change of an option's value in the global ConfigMap gets to a running
// HAProxy, for backends that have no options of their own. tests/e2e tries each of them.
type Live uint8

// The ways.
const (
	Reload      Live = iota // HAProxy reads it from its configuration only
	RunTime                 // by commands: no connection notices
	NewBackends             // the backends get successors; a reload where HAProxy can't add those at run time
)

// String is the way as the reference page calls it.
func (l Live) String() string {
	return [...]string{"reload", "run time", "new backends"}[l]
}

// Options that take another way than a reload. To switch one on that is off, or off, is a
// reload all the same: then rules come or go.
const (
	atRunTime = "allowlist-source-range backend-shards cors-allow-headers cors-allow-methods cors-allow-origin cors-expose-headers cors-max-age " +
		"denylist-source-range initial-weight path-type proxy-body-size redirect-to " +
		"request-add-headers request-set-headers response-add-headers response-set-headers tcp-service-port trusted-proxies"
	byNewBackends = "app-root backend-protocol connection-reuse cross-namespace-secrets-ca cross-namespace-secrets-crt cross-namespace-secrets-passwd " +
		"health-check-addr health-check-fall-count health-check-interval health-check-port health-check-rise-count " +
		"maxconn-server maxqueue-server passive-ejection proxy-protocol rewrite-target " +
		"secure-backends secure-crt-secret secure-sni secure-verify-ca-secret secure-verify-hostname session-cookie-dynamic session-cookie-value-strategy slow-start"
)

func liveOf(name string) Live {
	switch {
	case strings.Contains(" "+atRunTime+" ", " "+name+" "):
		return RunTime
	case strings.Contains(" "+byNewBackends+" ", " "+name+" "):
		return NewBackends
	}
	return Reload
}
