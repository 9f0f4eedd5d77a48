package resolve

import (
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/settings"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// dialect is the vocabulary of another controller.
type dialect struct {
	prefix, controller string
	names              map[string]string // its option -> the nearest one of sluice, where the names differ
}

// dialects are those that users come from. Options of equal names are found in the table of
// settings.
var dialects = [...]dialect{
	{"nginx.ingress.kubernetes.io/", "ingress-nginx", map[string]string{
		"custom-headers":          "response-set-headers",
		"enable-cors":             "cors-enable",
		"force-ssl-redirect":      "ssl-redirect",
		"load-balance":            "balance-algorithm",
		"permanent-redirect":      "redirect-to",
		"permanent-redirect-code": "redirect-to-code",
		"proxy-connect-timeout":   "timeout-connect",
		"proxy-read-timeout":      "timeout-server",
		"proxy-send-timeout":      "timeout-server",
		"proxy-ssl-name":          "secure-sni",
		"proxy-ssl-secret":        "secure-crt-secret",
		"proxy-ssl-verify":        "secure-verify-ca-secret",
		"session-cookie-samesite": "session-cookie-same-site",
		"temporal-redirect":       "redirect-to",
		"temporal-redirect-code":  "redirect-to-code",
		"upstream-hash-by":        "balance-algorithm",
		"upstream-vhost":          "request-set-headers",
		"x-forwarded-prefix":      "request-set-headers",
		"auth-type":               "auth-secret",
	}},
	{"haproxy.org/", "HAProxy Technologies' controller", map[string]string{
		"allow-list":                    "allowlist-source-range",
		"auth-type":                     "auth-secret",
		"blacklist":                     "denylist-source-range",
		"check-http":                    "health-check-uri",
		"check-interval":                "health-check-interval",
		"cookie-persistence":            "session-cookie-name",
		"cookie-persistence-no-dynamic": "session-cookie-dynamic",
		"deny-list":                     "denylist-source-range",
		"forwarded-for":                 "forwardfor",
		"load-balance":                  "balance-algorithm",
		"path-rewrite":                  "rewrite-target",
		"pod-maxconn":                   "maxconn-server",
		"request-redirect":              "redirect-to",
		"request-redirect-code":         "redirect-to-code",
		"request-set-header":            "request-set-headers",
		"response-set-header":           "response-set-headers",
		"send-proxy-protocol":           "proxy-protocol",
		"server-ca":                     "secure-verify-ca-secret",
		"server-crt":                    "secure-crt-secret",
		"server-proto":                  "backend-protocol",
		"server-ssl":                    "secure-backends",
		"set-host":                      "request-set-headers",
		"ssl-redirect-port":             "https-port",
		"whitelist":                     "allowlist-source-range",
	}},
}

// maxForeign bounds how many annotations a finding lists.
const maxForeign = 10

// maxForeignName bounds the name of one, in bytes; no name of theirs is as long.
const maxForeignName = 63

// ForeignAnnotations says of an object that annotations of another controller are not read,
// and what does the same. One finding for each controller.
func ForeignAnnotations(object model.Origin, annotations map[string]string) []report.Finding {
	var findings []report.Finding
	for _, d := range dialects {
		var list []string
		for key := range annotations {
			if name, ok := strings.CutPrefix(key, d.prefix); ok {
				list = append(list, d.nearest(name))
			}
		}
		if list == nil {
			continue
		}
		slices.Sort(list)
		more := ""
		if len(list) > maxForeign {
			list, more = list[:maxForeign], " and more"
		}
		at := object
		at.Field = d.prefix
		findings = append(findings, report.New(report.OptionForeign, at,
			"annotations of %s are not read yet; with the prefix sluice-proxy.github.io/ the nearest options are: %s%s", d.controller, strings.Join(list, ", "), more))
	}
	return findings
}

// nearest is an option of the dialect with that of sluice.
func (d dialect) nearest(name string) string {
	ours := d.names[name]
	if option, known := settings.Lookup(name); ours == "" && known {
		ours = option.Name
	}
	if len(name) > maxForeignName {
		name = name[:maxForeignName] + "..."
	}
	if ours == "" {
		return name + " (none)"
	}
	return name + " (" + ours + ")"
}
