package settings

import (
	"cmp"
	"slices"
	"strings"
)

// Unsupported is an option of haproxy-ingress that sluice does not offer.
type Unsupported struct {
	Name    string
	Scope   Scope
	Instead string // why not, or what to use in its place; half a sentence
	Guards  bool   // without it a path would be open: one that asks for it is denied
}

// lack is a group of options that are missing for one reason.
type lack struct {
	scope   Scope
	guards  bool
	names   string // separated by blanks
	instead string
}

// lacks is the table. A guard denies the path that asks for it, since who wrote it relies
// on it; the options that only refine a guard are none themselves.
var lacks = []lack{
	// Certificates by ACME.
	{Global, false, "acme-emails acme-endpoint acme-expiring acme-shared acme-terms-agreed", useCertManager},
	{Host, false, "acme-preferred-chain cert-signer kubernetes.io/tls-acme", useCertManager},

	// Checks.
	{Backend, false, "agent-check-port agent-check-addr agent-check-interval agent-check-send", "readiness probes of Kubernetes take a pod out; health-check-uri checks it from here"},

	// Client address and authentication.
	{Path, true, "allowlist-source-header", "name the load balancers in the global option trusted-proxies or use-proxy-protocol, and use allowlist-source-range"},
	{Path, true, "auth-url", "external authentication is planned; auth-secret is HTTP basic authentication"},
	{Path, false, "auth-method auth-signin auth-headers-request auth-headers-succeed auth-headers-fail auth-external-placement", "it refines auth-url, which is planned"},
	{Global, false, "auth-proxy auth-log-format", "it refines auth-url, which is planned"},
	{Path, true, "oauth", "external authentication is planned; auth-secret is HTTP basic authentication"},
	{Path, false, "oauth-uri-prefix oauth-headers", "it refines oauth, which is planned"},
	{Host, true, "auth-tls-secret", "client certificates are planned"},
	{Host, true, "auth-tls-verify-client", "client certificates are planned"},
	{Host, false, "auth-tls-strict auth-tls-error-page", "it refines auth-tls-secret, which is planned"},
	{Backend, false, "auth-tls-cert-header ssl-fingerprint-lower ssl-fingerprint-sha2-bits", "it refines auth-tls-secret, which is planned"},
	{Global, false, "auth-tls-default-secret ssl-headers-prefix", "it refines auth-tls-secret, which is planned"},

	// Backends.
	{Backend, false, "backend-server-naming assign-backend-server-id", "a server is always named after its address and port"},
	{Backend, false, "service-upstream", "requests always go to the pods; to send them through kube-proxy defeats retries and checks"},
	{Backend, false, "source-address-intf", "HAProxy uses the address that the host's routes choose"},
	{Backend, false, "use-resolver", "all servers by DNS name use the global option dns-resolvers"},
	{Backend, true, "limit-connections limit-rps", "limits are planned"},
	{Backend, false, "limit-whitelist", "it refines limit-rps, which is planned"},
	{Backend, false, "dynamic-scaling slots-min-free backend-server-slots-increment", "servers are always added and removed at run time, no empty slots are needed"},
	{Global, false, "drain-support drain-support-redispatch", "terminating pods that still serve are always drained, and a request whose server is down goes to another one"},

	// Listeners.
	{Global, false, "http-port", "use the flags --http-address and --https-address"},
	{Frontend, false, "bind-http bind-https bind-ip-addr-http", "use the flags --http-address and --https-address"},
	{Frontend, false, "bind-http-passthrough bind-fronting-proxy http-passthrough use-forwarded-proto", behindProxy},
	{Global, false, "http-passthrough-port fronting-proxy-port https-to-http-port", behindProxy},
	{Global, false, "healthz-port prometheus-port bind-ip-addr-healthz bind-ip-addr-prometheus bind-ip-addr-stats", "use the flag --admin-address"},
	{Global, false, "stats-port stats-auth stats-proxy-protocol stats-ssl-cert http-response-prometheus-root", "the address of the flag --admin-address serves metrics and pages, without TLS and to be kept private"},
	{Global, false, "allow-local-bind create-default-frontends http-frontends", "there is one listener for http and one for https, both always open"},
	{Frontend, false, "http-frontend", "there is one listener for http and one for https; use a Gateway for more"},

	// Releases.
	{Backend, false, "blue-green-balance blue-green-deploy blue-green-mode blue-green-cookie blue-green-header", "use an HTTPRoute with weights or header matches"},

	// Snippets.
	{Backend, false, "config-backend config-backend-early config-backend-late", noSnippets},
	{Global, false, "config-defaults config-frontend config-frontend-early config-frontend-late config-global config-peers config-proxy config-sections config-tcp", noSnippets},
	{TCP, false, "config-tcp-service", noSnippets},

	// The process.
	{Global, false, "cpu-map use-cpu-map", "HAProxy binds its threads by the CPUs that the process may use; use nbthread to limit them"},
	{Global, false, "close-sessions-duration worker-max-reloads", "use timeout-stop; connections that are idle are closed when an old worker stops"},
	{Global, false, "master-exit-on-failure", "sluice starts HAProxy again at once"},
	{Global, false, "load-server-state", "servers keep their state, which is that of their pods"},
	{Global, false, "external-has-lua", "the Lua code of sluice needs no library"},
	{Global, false, "username groupname use-haproxy-user use-chroot", "set the user in the Pod's securityContext"},
	{Global, false, "path-type-order", "an exact path comes first, then the longest prefix, as the Ingress specification says"},

	// CORS, matches, answers.
	{Path, false, "cors-allow-origin-regex", "list the origins in cors-allow-origin"},
	{Path, true, "http-header-match http-header-match-regex", "use an HTTPRoute with header matches"},
	{Backend, false, responses("200 400 401 403 405 407 408 410 413 425 429 500 501 502 503 504"), ownPages},
	{Host, false, responses("421 495 496"), ownPages},
	{Global, false, responses("404"), ownPages},
	{Global, false, "default-backend-redirect default-backend-redirect-code", "use the flag --default-backend-service, or an Ingress with a default backend and redirect-to"},

	// Other namespaces.
	{Global, false, "cross-namespace-services", "no option that is offered names a Service of another namespace"},

	// DNS, FastCGI, forwarded headers, logs.
	{Global, false, "dns-accepted-payload-size dns-cluster-domain dns-hold-obsolete dns-timeout-retry", "HAProxy's defaults are used; DNS serves Services of type ExternalName only"},
	{Backend, false, "fcgi-app", "put an HTTP server in front of the FastCGI application, in its pod"},
	{Global, false, "fcgi-enabled-apps", "put an HTTP server in front of the FastCGI application, in its pod"},
	{Global, false, "original-forwarded-for-hdr real-ip-hdr", "the server finds the client in X-Forwarded-For, see forwardfor"},
	{Global, false, "https-log-format", "http-log-format is the format of all access logs"},
	{Host, false, "var-namespace", "the name of the backend in a log line begins with the namespace"},

	// Web application firewall.
	{Path, true, "waf", "a web application firewall is not offered; put one in front of the pods"},
	{Path, false, "waf-mode", "it refines waf, which is not offered"},
	{Global, false, "modsecurity-endpoints modsecurity-use-coraza modsecurity-args modsecurity-timeout-connect modsecurity-timeout-hello modsecurity-timeout-idle modsecurity-timeout-processing modsecurity-timeout-server", "it refines waf, which is not offered"},

	// Peers.
	{Global, false, "peers-port peers-name peers-table-global", "stick tables are not shared"},
	{Backend, false, "peers-table", "stick tables are not shared"},

	// Redirects and names.
	{Host, false, "redirect-from redirect-from-regex", "write an Ingress of its own for the other host, with redirect-to"},
	{Frontend, false, "redirect-from-code", "write an Ingress of its own for the other host, with redirect-to"},
	{Global, false, "no-redirect-locations", "write the exempt path into an Ingress of its own"},
	{Host, false, "server-alias server-alias-regex", "write a rule for each host"},

	// TLS.
	{Backend, false, "ssl-ciphers-backend ssl-cipher-suites-backend ssl-options-backend", "TLS 1.2 and later with the ciphers of the TLS library is spoken to servers"},
	{Host, false, "ssl-ciphers ssl-cipher-suites ssl-options-host", "TLS 1.2 and later with the ciphers of the TLS library is offered"},
	{Global, false, "ssl-options ssl-dh-param ssl-dh-default-max-size", "TLS 1.2 and later with the ciphers of the TLS library is offered"},
	{Global, false, "ssl-engine ssl-mode-async", "engines are gone from current TLS libraries"},
	{Host, false, "ssl-always-add-https", "list the host in the tls part of the Ingress, without a Secret for the default certificate"},
	{Host, false, "ssl-always-follow-redirect", behindProxy},
	{Host, true, "ssl-passthrough", "TLS would end here, not in the pod; use a Gateway listener with mode Passthrough and a TLSRoute"},
	{Host, false, "ssl-passthrough-http-port", "it refines ssl-passthrough, which is not offered"},
	{Backend, false, "session-cookie-shared", "cookies belong to a host; use session-cookie-domain to share one"},
}

// off tells whether a text switches an option off, whatever the option is.
func off(text string) bool { return text == "false" || text == "off" || text == "0" }

const (
	useCertManager = "certificates are read from Secrets only; let cert-manager write them"
	behindProxy    = "name the load balancers in the global option trusted-proxies: their X-Forwarded-Proto is believed"
	noSnippets     = "raw configuration is refused, since it reaches everybody's traffic and every file"
	ownPages       = "pages of one's own are planned"
)

// responses are the names of the options that replace the page of a status.
func responses(codes string) string {
	return "http-response-" + strings.ReplaceAll(codes, " ", " http-response-")
}

var unsupportedIndex = buildUnsupported()

func buildUnsupported() map[string]Unsupported {
	byName := make(map[string]Unsupported)
	for _, l := range lacks {
		for name := range strings.FieldsSeq(l.names) {
			_, double := byName[name]
			if _, offered := index[name]; double || offered {
				panic("settings: two options are named " + name)
			}
			byName[name] = Unsupported{name, l.scope, l.instead, l.guards}
		}
	}
	return byName
}

// LookupUnsupported finds an option of haproxy-ingress that sluice does not offer.
func LookupUnsupported(name string) (Unsupported, bool) {
	u, found := unsupportedIndex[name]
	return u, found
}

// UnsupportedOptions are the options of haproxy-ingress that sluice does not offer, sorted by name.
func UnsupportedOptions() []Unsupported {
	var all []Unsupported
	for _, u := range unsupportedIndex {
		all = append(all, u)
	}
	slices.SortFunc(all, func(a, b Unsupported) int { return cmp.Compare(a.Name, b.Name) })
	return all
}
