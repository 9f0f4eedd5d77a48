package settings

import (
	"strings"
	"testing"
)

// refused stands for a text that can't be read.
const refused = "(refused)"

// reading is the canonical text that an option's text is read as.
type reading struct{ option, text, want string }

// singleTexts are texts of one value, by a sentence about each.
var singleTexts = map[string]reading{
	"true":                            {"hsts", "true", "true"},
	"capitals are no bool":            {"hsts", "TRUE", refused},
	"a blank behind a bool":           {"hsts", "true ", refused},
	"a number":                        {"maxconn-server", "0100", "100"},
	"a sign":                          {"maxconn-server", "+100", refused},
	"a negative number":               {"maxconn-server", "-1", refused},
	"a huge number":                   {"maxconn-server", "99999999999999999999", refused},
	"a word for a number":             {"maxconn-server", "ten", refused},
	"a weight":                        {"initial-weight", "256", "256"},
	"a weight above 256":              {"initial-weight", "257", refused},
	"milliseconds without a unit":     {"timeout-server", "1500", "1500ms"},
	"minutes":                         {"timeout-server", "2m", "120000ms"},
	"days":                            {"timeout-server", "1d", "86400000ms"},
	"microseconds are rounded up":     {"timeout-server", "1500us", "2ms"},
	"no time":                         {"timeout-server", "0", refused},
	"a negative time":                 {"timeout-server", "-5s", refused},
	"Go's form of a time":             {"timeout-server", "1m30s", refused},
	"a fraction":                      {"timeout-server", "1.5s", refused},
	"an unknown unit":                 {"timeout-server", "5y", refused},
	"two units":                       {"timeout-server", "5sm", refused},
	"longer than HAProxy's timer":     {"timeout-server", "25d", refused},
	"a time that overflows":           {"timeout-server", "9223372036854775807d", refused},
	"a check every millisecond":       {"health-check-interval", "1ms", refused},
	"bytes":                           {"proxy-body-size", "1000", "1000"},
	"megabytes":                       {"proxy-body-size", "8m", "8388608"},
	"gigabytes in capitals":           {"proxy-body-size", "1G", "1073741824"},
	"unlimited":                       {"proxy-body-size", "unlimited", "unlimited"},
	"0 bytes mean two things":         {"proxy-body-size", "0", refused},
	"a negative size":                 {"proxy-body-size", "-1", refused},
	"a size that overflows":           {"proxy-body-size", "9223372036854775807g", refused},
	"a status of a redirect":          {"redirect-to-code", "308", "308"},
	"a status of success":             {"redirect-to-code", "200", refused},
	"a status that redirects nowhere": {"redirect-to-code", "304", refused},
	"an enum in capitals":             {"session-cookie-strategy", "INSERT", "insert"},
	"an enum switched off":            {"affinity", "", ""},
	"an unknown word":                 {"affinity", "ip", refused},
	"gRPC is HTTP/2":                  {"backend-protocol", "GRPCS", "h2-ssl"},

	"a name of a Secret":              {"auth-secret", "users", "users"},
	"a Secret of another namespace":   {"auth-secret", "other/users", "other/users"},
	"a Secret with a path":            {"auth-secret", "../users", refused},
	"two slashes":                     {"auth-secret", "a/b/c", refused},
	"a realm":                         {"auth-realm", "My site", "My site"},
	"a realm with a quote":            {"auth-realm", `My "site"`, refused},
	"a host name in capitals":         {"secure-verify-hostname", "Pod.Example", "pod.example"},
	"no host name":                    {"secure-verify-hostname", "a b", refused},
	"SNI of the client":               {"secure-sni", "sni", "sni"},
	"an expression as SNI":            {"secure-sni", "str(x)", refused},
	"a path":                          {"rewrite-target", "/v1/a%20b", "/v1/a%20b"},
	"a path without a slash":          {"rewrite-target", "v1", refused},
	"a group of a regex":              {"rewrite-target", `/\1`, refused},
	"a sample fetch in a path":        {"rewrite-target", "/%[path]", refused},
	"a path that is a host":           {"rewrite-target", "//evil.example/", refused},
	"a path with a query":             {"app-root", "/app?x=1", "/app?x=1"},
	"a URL":                           {"redirect-to", "https://example.com/a?b=c#d", "https://example.com/a?b=c#d"},
	"a URL with a port":               {"redirect-to", "http://example.com:8080", "http://example.com:8080"},
	"a URL as a path":                 {"redirect-to", "/new", "/new"},
	"a URL without a scheme":          {"redirect-to", "example.com", refused},
	"a script as URL":                 {"redirect-to", "javascript:alert(1)", refused},
	"a URL with a blank":              {"redirect-to", "https://example.com/a b", refused},
	"a URL with a blank in the host":  {"redirect-to", "https://exa mple.com/", refused},
	"a URL with a password":           {"redirect-to", "https://u:p@example.com/", refused},
	"a URL with an expression":        {"redirect-to", "https://%[req.hdr(host)]/", refused},
	"a URL of an IPv6 address":        {"redirect-to", "https://[2001:db8::1]:8443/", "https://[2001:db8::1]:8443/"},
	"a URL with a brace":              {"redirect-to", "https://example.com/}", "https://example.com/%7D"},
	"a check":                         {"health-check-uri", "/health?full=1", "/health?full=1"},
	"a check with a method":           {"health-check-uri", "GET /health", refused},
	"an address to check":             {"health-check-addr", "10.0.0.1", "10.0.0.1"},
	"an IPv6 address to check":        {"health-check-addr", "2001:DB8::1", "2001:db8::1"},
	"HAProxy's own address":           {"health-check-addr", "127.0.0.1", refused},
	"the cloud's metadata":            {"health-check-addr", "169.254.169.254", refused},
	"the same, dressed up":            {"health-check-addr", "::ffff:169.254.169.254", refused},
	"a cookie":                        {"session-cookie-name", "SRV_1", "SRV_1"},
	"a cookie with a blank":           {"session-cookie-name", "SRV 1", refused},
	"keywords of a cookie":            {"session-cookie-keywords", "indirect  secure", "indirect,secure"},
	"no keywords":                     {"session-cookie-keywords", "", ""},
	"an unknown keyword":              {"session-cookie-keywords", "indirect; server", refused},
	"a domain of a cookie":            {"session-cookie-domain", ".example.com", ".example.com"},
	"a domain without a dot":          {"session-cookie-domain", "localhost", refused},
	"an algorithm":                    {"balance-algorithm", "leastconn", "leastconn"},
	"draws":                           {"balance-algorithm", "random(3)", "random(3)"},
	"no draws":                        {"balance-algorithm", "random(0)", refused},
	"a hash of a header":              {"balance-algorithm", "hdr(X-User)", "hdr(X-User)"},
	"a hash of the URI":               {"balance-algorithm", "uri  depth 3 whole", "uri depth 3 whole"},
	"a depth without a number":        {"balance-algorithm", "uri depth", refused},
	"a hash of a cookie":              {"balance-algorithm", "hash req.cook(id)", "hash req.cook(id)"},
	"a hash of a secret":              {"balance-algorithm", "hash env(TOKEN)", refused},
	"an argument that is a directive": {"balance-algorithm", "roundrobin server x", refused},
	"nothing to balance":              {"balance-algorithm", "", refused},
}

// listTexts are texts of several values.
var listTexts = map[string]reading{
	"addresses":                    {"allowlist-source-range", "10.1.2.3, 10.0.0.0/8 ,2001:DB8::/32", "10.0.0.0/8,10.1.2.3/32,2001:db8::/32"},
	"bits behind the length":       {"allowlist-source-range", "10.1.2.3/8", "10.0.0.0/8"},
	"exceptions":                   {"allowlist-source-range", "10.0.0.0/8,!10.0.0.1", "10.0.0.0/8,!10.0.0.1/32"},
	"IPv4 in IPv6":                 {"allowlist-source-range", "::ffff:10.0.0.1", "10.0.0.1/32"},
	"networks of IPv4 in IPv6":     {"allowlist-source-range", "::ffff:10.0.0.0/104", refused},
	"repetitions":                  {"denylist-source-range", "10.0.0.1,10.0.0.1/32", "10.0.0.1/32"},
	"exceptions of nothing":        {"denylist-source-range", "!10.0.0.1", refused},
	"one bad entry":                {"denylist-source-range", "10.0.0.0/8,junk", refused},
	"a long prefix":                {"denylist-source-range", "10.0.0.0/33", refused},
	"a name":                       {"denylist-source-range", "example.com", refused},
	"an address with a zone":       {"denylist-source-range", "fe80::1%eth0", refused},
	"commas only":                  {"denylist-source-range", " , ", refused},
	"methods":                      {"cors-allow-methods", "GET,PUT", "GET, PUT"},
	"a method with a blank":        {"cors-allow-methods", "GE T", refused},
	"any origin":                   {"cors-allow-origin", "*", "*"},
	"origins":                      {"cors-allow-origin", "https://A.example, http://b.example:8080", "https://a.example,http://b.example:8080"},
	"an origin with a path":        {"cors-allow-origin", "https://a.example/", refused},
	"any origin and another one":   {"cors-allow-origin", "*,https://a.example", refused},
	"the origin of sandboxes":      {"cors-allow-origin", "null", refused},
	"an origin with a star":        {"cors-allow-origin", "https://*.example", refused},
	"an origin that closes an ACL": {"cors-allow-origin", "https://a.example} or TRUE", refused},
	"headers":                      {"request-set-headers", "X-A: 1\n\nX-B:  a: b \n", "X-A: 1\nX-B: a: b"},
	"an expression in a header":    {"response-set-headers", "X-A: %[env(HOME)] $HOME", "X-A: %[env(HOME)] $HOME"},
	"a header without a colon":     {"request-set-headers", "X-A 1", refused},
	"a header with a blank":        {"request-set-headers", "X A: 1", refused},
	"a header without a value":     {"request-set-headers", "X-A:", refused},
	"a header of the connection":   {"request-set-headers", "Transfer-Encoding: chunked", refused},
	"the length of a body":         {"response-add-headers", "content-length: 5", refused},
	"another host":                 {"request-set-headers", "Host: inner.example", "Host: inner.example"},
	"a second host":                {"request-add-headers", "Host: inner.example", refused},
	"no host":                      {"request-del-headers", "X-A, Host", refused},
	"headers to remove":            {"response-del-headers", "Server, X-Powered-By", "Server,X-Powered-By"},
	"too many headers":             {"request-set-headers", strings.Repeat("X-A: 1\n", 65), refused},
	"a very long header":           {"request-set-headers", "X-A: " + strings.Repeat("x", 5000), refused},
	"a very long text":             {"auth-realm", strings.Repeat("x", 5000), refused},
}

// globalTexts are texts of options that stand in the global ConfigMap only.
var globalTexts = map[string]reading{
	"log targets":                 {"syslog-endpoint", "stderr, 10.0.0.1:514", "stderr,10.0.0.1:514"},
	"no log":                      {"syslog-endpoint", "none", ""},
	"a log target by name":        {"syslog-endpoint", "logs.example:514", refused},
	"DNS servers":                 {"dns-resolvers", "a=10.0.0.1\nb=[2001:db8::1]:5353\nc=2001:db8::2\n", "a=10.0.0.1:53,b=[2001:db8::1]:5353,c=[2001:db8::2]:53"},
	"two DNS servers of one name": {"dns-resolvers", "a=10.0.0.1\na=10.0.0.2", refused},
	"protocols":                   {"tls-alpn", "http/1.1", "http/1.1"},
	"no protocols":                {"tls-alpn", "", refused},
	"an unknown protocol":         {"tls-alpn", "h2,spdy", refused},
	"trusted networks":            {"trusted-proxies", "10.0.0.0/8", "10.0.0.0/8"},
	"nobody is trusted":           {"trusted-proxies", "", ""},
	"exceptions of trust":         {"trusted-proxies", "10.0.0.0/8,!10.0.0.1", refused},
	"exempt paths":                {"no-tls-redirect-locations", "/a, /b/c", "/a,/b/c"},
	"an exempt path of no form":   {"no-tls-redirect-locations", "/a b", refused},
	"a log format":                {"http-log-format", `%ci "%HM" %[var(txn.x)]`, `%ci "%HM" %[var(txn.x)]`},
	"a salt":                      {"cookie-key", "s3cret", "s3cret"},
	"an empty salt":               {"cookie-key", "", refused},
}

func TestTexts(t *testing.T) {
	for _, table := range []map[string]reading{singleTexts, listTexts, globalTexts} {
		for name, c := range table {
			t.Run(name, func(t *testing.T) {
				s, findings := globals(t).Override(AnyScope, layer("web", c.option, c.text))
				if c.want == refused {
					if codes(findings) != "OptionInvalid" {
						t.Errorf("findings are %v", findings)
					}
					return
				}
				if got := s.Text(c.option); len(findings) > 0 || got != c.want {
					t.Errorf("got %q, findings %v", got, findings)
				}
			})
		}
	}
}

func TestSecretIsSplit(t *testing.T) {
	s, _ := globals(t).Override(route, layer("web", "auth-secret", "other/users", "secure-crt-secret", "cert"))
	if namespace, name := s.Secret("auth-secret"); namespace != "other" || name != "users" {
		t.Errorf("auth-secret is %s, %s", namespace, name)
	}
	if namespace, name := s.Secret("secure-crt-secret"); namespace != "" || name != "cert" {
		t.Errorf("secure-crt-secret is %s, %s", namespace, name)
	}
}
