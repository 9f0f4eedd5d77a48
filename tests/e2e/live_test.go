package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	options "github.com/sluice-proxy/sluice/pkg/converters/settings"
	"github.com/sluice-proxy/sluice/tests/harness"
)

// twoValues are two texts of each option that make a difference to the objects of the test. An
// empty one stands for none. The first one stands in the ConfigMap from the beginning.
var twoValues = map[string][2]string{
	"affinity":                       {"cookie", ""},
	"allowlist-source-range":         {"127.0.0.0/8", "127.0.0.0/8,10.0.0.0/8"},
	"app-root":                       {"", "/two"},
	"auth-realm":                     {"one", "two"},
	"auth-secret":                    {"", "test/users"},
	"backend-protocol":               {"h1", "h2"},
	"backend-shards":                 {"2", "4"},
	"balance-algorithm":              {"leastconn", "roundrobin"},
	"bind-ip-addr-tcp":               {"127.0.0.1", "127.0.0.2"},
	"connection-reuse":               {"false", "true"},
	"cookie-key":                     {"one", "two"},
	"cors-allow-credentials":         {"true", "false"},
	"cors-allow-headers":             {"X-One", "X-Two"},
	"cors-allow-methods":             {"GET", "PUT"},
	"cors-allow-origin":              {"https://one.example", "https://two.example"},
	"cors-enable":                    {"true", "false"},
	"cors-expose-headers":            {"X-One", "X-Two"},
	"cors-max-age":                   {"10", "20"},
	"cross-namespace-secrets-ca":     {"deny", "allow"},
	"cross-namespace-secrets-crt":    {"deny", "allow"},
	"cross-namespace-secrets-passwd": {"deny", "allow"},
	"denylist-source-range":          {"10.1.0.0/16", "10.2.0.0/16"},
	"dns-hold-valid":                 {"1s", "2s"},
	"dns-resolvers":                  {"one=127.0.0.1:53", "two=127.0.0.1:53"},
	"forwardfor":                     {"add", "update"},
	"health-check-addr":              {"127.0.0.1", "192.0.2.1"},
	"health-check-fall-count":        {"2", "4"},
	"health-check-interval":          {"5s", "6s"},
	"health-check-port":              {"80", "81"},
	"health-check-rise-count":        {"1", "3"},
	"health-check-uri":               {"/one", "/two"},
	"hsts":                           {"true", "false"},
	"hsts-include-subdomains":        {"true", "false"},
	"hsts-max-age":                   {"1000", "2000"},
	"hsts-preload":                   {"true", "false"},
	"http-log-format":                {"%ci", "%cp"},
	"https-port":                     {"443", "8443"},
	"initial-weight":                 {"5", "6"},
	"max-connections":                {"200", "100"},
	"maxconn-server":                 {"10", "20"},
	"maxqueue-server":                {"10", "20"},
	"nbthread":                       {"1", "2"},
	"no-tls-redirect-locations":      {"/one", "/two"},
	"passive-ejection":               {"0", "5"},
	"path-type":                      {"prefix", "exact"},
	"proxy-body-size":                {"1m", "2m"},
	"proxy-protocol":                 {"v1", "v2"},
	"redirect-to":                    {"", "/elsewhere"},
	"redirect-to-code":               {"301", "302"},
	"request-add-headers":            {"X-Add: one", "X-Add: two"},
	"request-del-headers":            {"X-Del-One", "X-Del-Two"},
	"request-set-headers":            {"X-Set: one", "X-Set: two"},
	"response-add-headers":           {"X-Add: one", "X-Add: two"},
	"response-del-headers":           {"X-Del-One", "X-Del-Two"},
	"response-set-headers":           {"X-Set: one", "X-Set: two"},
	"retries":                        {"2", "4"},
	"retry-elsewhere":                {"true", "false"},
	"retry-on":                       {"conn-failure", "conn-failure,empty-response"},
	"retry-unsafe-methods":           {"false", "true"},
	"rewrite-target":                 {"", "/two"},
	"secure-backends":                {"true", "false"},
	"secure-crt-secret":              {"", "test/web"},
	"secure-sni":                     {"one.example", "two.example"},
	"secure-verify-ca-secret":        {"", "test/ca"},
	"secure-verify-hostname":         {"", "two.example"},
	"session-cookie-domain":          {"one.example", "two.example"},
	"session-cookie-dynamic":         {"true", "false"},
	"session-cookie-keywords":        {"indirect nocache", "indirect httponly"},
	"session-cookie-name":            {"one", "two"},
	"session-cookie-preserve":        {"true", "false"},
	"session-cookie-same-site":       {"Lax", "Strict"},
	"session-cookie-strategy":        {"insert", "prefix"},
	"session-cookie-value-strategy":  {"pod-uid", "server-name"},
	"slow-start":                     {"0s", "10s"},
	"ssl-redirect":                   {"true", "false"},
	"ssl-redirect-code":              {"301", "302"},
	"strict-host":                    {"true", "false"},
	"syslog-endpoint":                {"stdout", "stderr"},
	"syslog-format":                  {"raw", "rfc3164"},
	"syslog-length":                  {"500", "600"},
	"syslog-tag":                     {"one", "two"},
	"tcp-log-format":                 {"%ci", "%cp"},
	"tcp-service-port":               {"5432", "5433"},
	"tcp-service-proxy-protocol":     {"true", "false"},
	"timeout-client":                 {"40s", "41s"},
	"timeout-client-fin":             {"40s", "41s"},
	"timeout-connect":                {"900ms", "901ms"},
	"timeout-http-request":           {"4s", "6s"},
	"timeout-keep-alive":             {"40s", "41s"},
	"timeout-queue":                  {"4s", "6s"},
	"timeout-server":                 {"40s", "41s"},
	"timeout-server-fin":             {"40s", "41s"},
	"timeout-stop":                   {"40s", "41s"},
	"timeout-tunnel":                 {"2h", "3h"},
	"tls-alpn":                       {"h2,http/1.1", "http/1.1"},
	"trusted-proxies":                {"10.0.0.1", "10.0.0.2"},
	"use-proxy-protocol":             {"false", "true"},
}

// last are the options that take others their effect, or need them: they are changed after
// all others, in this order.
var last = []string{"redirect-to", "redirect-to-code", "cors-enable", "hsts", "ssl-redirect", "affinity",
	"app-root", "rewrite-target", "auth-secret", "auth-realm", "secure-crt-secret", "secure-verify-ca-secret", "secure-verify-hostname", "secure-backends"}

// liveWorld is an Ingress with TLS, one with a path that path-type is for, and a TCP service.
func liveWorld(t *testing.T) string {
	ca := harness.NewAuthority(t, "ca")
	specific := strings.Replace(harness.IngressPath("specific", "specific.example", "/some", "web"), "pathType: Prefix", "pathType: ImplementationSpecific", 1)
	return web(harness.NewPod(t, "web")) + secured("web", "web.example") + ca.Issue(t, "web.example").TLSSecret("web") + specific +
		connections("tcp", harness.FreeAddress(t), "", "web") +
		harness.Secret("ca", map[string]string{"ca.crt": ca.Certificate}) + harness.Secret("users", map[string]string{"auth": "joe::secret"})
}

// far is a Service that is a DNS name, which the options of DNS are for. HAProxy can't change
// its servers at run time.
const far = "---\napiVersion: v1\nkind: Service\nmetadata: {name: far, namespace: test}\nspec: {type: ExternalName, externalName: far.example.net}\n"

// Each option of the global ConfigMap is applied in the way that its page says. A reload is
// seen with one of the versions; what makes new backends is changed at once, in one reload.
func TestGlobalOptionsLive(t *testing.T) {
	for _, o := range options.Options() {
		if _, known := twoValues[o.Name]; !known {
			t.Errorf("%s has no two values to try", o.Name)
		}
	}
	half := 0
	harness.EachVersion(t, func(t *testing.T, binary string) {
		mine := half
		half++
		t.Parallel()
		set := map[string]string{}
		for name, values := range twoValues {
			set[name] = values[0]
		}
		files := map[string]string{"a.yaml": liveWorld(t), "far.yaml": far + harness.Ingress("far", "far.example", "far"), "global.yaml": globalOf(set)}
		c := start(t, binary, files)
		try := func(names ...string) {
			for i, name := range names {
				if live := liveOf(name); live != options.NewBackends && (live == options.RunTime || i%2 == mine || name == "auth-secret") {
					set[name] = twoValues[name][1]
					tryOption(t, c, name, globalOf(set))
				}
			}
		}
		dns := []string{"dns-hold-valid", "dns-resolvers"}
		try(dns...)
		before := c.State().Wanted
		c.Remove("far.yaml")
		applied(t, c, before)
		try(slices.DeleteFunc(slices.Sorted(maps.Keys(twoValues)), func(name string) bool { return slices.Contains(append(last, dns...), name) })...)
		set["redirect-to"] = "/first" // it takes others their effect, too
		change(t, c, map[string]string{"global.yaml": globalOf(set)})
		try(last...)
		for name, values := range twoValues {
			if liveOf(name) == options.NewBackends {
				set[name] = values[1]
			}
		}
		tryOption(t, c, "secure-sni", globalOf(set))
	})
}

func liveOf(name string) options.Live {
	option, _ := options.Lookup(name)
	return option.Live
}

// tryOption changes an option, and counts reloads.
func tryOption(t *testing.T, c *harness.Controller, name, global string) {
	t.Helper()
	before := c.Metric("sluice_reloads_total", "")
	change(t, c, map[string]string{"global.yaml": global})
	reloads := c.Metric("sluice_reloads_total", "") - before
	least, most := 1.0, 1.0
	switch liveOf(name) {
	case options.RunTime:
		least, most = 0, 0
	case options.NewBackends:
		least = 0
	}
	if reloads < least || reloads > most {
		t.Errorf("%s: %v reloads, the page says %q: %v", name, reloads, liveOf(name), c.State().Reloads[0].Reasons)
	}
}

func globalOf(set map[string]string) string {
	text := "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: sluice, namespace: sluice-system}\ndata:\n"
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if set[name] != "" {
			text += fmt.Sprintf("  %s: %q\n", name, set[name])
		}
	}
	return text
}
