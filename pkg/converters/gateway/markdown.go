package gateway

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

const pageHead = `<!-- Generated from pkg/converters/gateway: go generate ./pkg/converters/gateway -->

# Gateway API

Sluice serves Gateways of GatewayClasses whose controllerName is sluice-proxy.github.io/controller (v1 of the Gateway API, with the
fields of the experimental channel). In a cluster it does so where the CRDs are served, see [deploy.md](deploy.md); in standalone
mode the objects stand among the other manifests. With ` + "`--gateway-addresses`" + ` each Gateway has an address of its own; without it
all Gateways share the addresses of the machine.

A feature is one of those that the API's conformance suite knows. What is not served yet says so in the status of its object, or in
a finding.

What to know of a rule with retry and timeouts.request: HAProxy has no limit over several tries, so such a request goes through HAProxy
twice, over a socket of its own, and the first way has the limit. It costs about as much as two requests, and is logged by the
frontend _limited; one that exceeds the limit is logged by its own frontend, too, with status 504. Only methods that may be repeated
(GET, HEAD, OPTIONS, TRACE, PUT, DELETE) are tried again, and requests that fit into one buffer. Without retry timeouts.request is the
time that a server may take for its answer; that of connecting comes on top of it.

A BackendTLSPolicy counts for all that Gateways send to its Services; Ingresses go by their own options. One that can't be honoured has
requests answered 500: nothing is sent in plain text, or to a server that is not verified. HAProxy compares the certificate of a
server with the name that it sends and with no other, so subjectAltNames may hold the hostname alone: a policy with other names is
refused (Accepted False, reason Invalid). The certificate of a Gateway (spec.tls.backend) is shown wherever it speaks TLS to servers.

Certificates of clients (spec.tls.frontend) are asked for on HTTPS listeners. A request for such a name on a connection that was opened
for another one is answered 421. HAProxy lets clients in whose certificate is not valid (AllowInsecureFallback) for a whole port only:
where Gateways share one, listeners that ask for valid certificates answer 421 then, instead of ending the handshake. What servers are
told of a client is the same in both modes: nothing of its certificate. The first such listener of a port, and the last, is a reload.

| feature | served |
| --- | --- |
`

// Markdown is the page about what is claimed of the Gateway API.
func Markdown() string {
	var b strings.Builder
	b.WriteString(pageHead)
	all := claims()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		word := "not yet"
		if all[name] {
			word = "yes"
		}
		fmt.Fprintf(&b, "| %s | %s |\n", name, word)
	}
	return b.String()
}
