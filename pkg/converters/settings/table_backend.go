package settings

// backendOptions are those of balancing, affinity, checks and the protocol to servers.
func backendOptions() []Option {
	return []Option{
		{Name: "balance-algorithm", Scope: Backend, Type: Balance, Default: "roundrobin", Theirs: "random(2)",
			Values: []string{"roundrobin", "leastconn", "first", "random", "random(N)", "source", "uri", "url_param NAME", "hdr(NAME)",
				"hash src", "hash path", "hash pathq", "hash req.hdr(NAME)", "hash req.cook(NAME)", "hash url_param(NAME)"},
			Doc: "How a server is chosen. Hashes are consistent ones, so that servers can come and go at run time. static-rr can't do that and is refused.",
			Note: "roundrobin takes servers at run time and honours weights exactly; random(2) prefers the server with fewer connections, " +
				"which is also one that fails at once. Up to 4095 servers; take random(2) or leastconn above, or for requests of very different cost."},
		{Name: "backend-protocol", Scope: Backend, Type: Enum, Default: "h1", FailClosed: true, Guards: true, parse: parseProtocol,
			Values: []string{"h1", "h1-ssl", "h2", "h2-ssl", "grpc", "grpcs"},
			Doc:    "Protocol to the servers: HTTP/1 or HTTP/2 (grpc is another name of h2), with -ssl over TLS. An unreadable value denies the path, since plain text might be sent where TLS was meant."},
		{Name: "proxy-protocol", Scope: Backend, Type: Enum, Default: "no", Values: []string{"no", "v1", "v2", "v2-ssl", "v2-ssl-cn"},
			Doc: "Version of the PROXY protocol that is spoken to the servers."},
		{Name: "initial-weight", Scope: Backend, Type: Int, Default: "1", Max: 256,
			Doc: "Weight of each server."},
		{Name: "maxconn-server", Scope: Backend, Type: Int, Default: "0", Max: 1_000_000, FailClosed: true,
			Doc: "Greatest number of connections to one server; further requests wait, see timeout-queue. 0: unlimited."},
		{Name: "maxqueue-server", Scope: Backend, Type: Int, Default: "0", Max: 1_000_000, FailClosed: true,
			Doc: "Greatest number of requests that wait for one server. 0: unlimited."},
		{Name: "connection-reuse", Scope: Backend, Type: Bool, Default: "false", Theirs: "true", Own: true,
			Doc:  "Connections to HTTP/1 servers are kept and used for further requests. HTTP/2 servers share connections in any case.",
			Note: "A request on a kept connection to a pod that vanished waits for timeout-server; one that opens its connection goes to another pod after timeout-connect. Keeping them saves CPU, see docs/operations.md.",
			Risk: "Requests to a pod that vanished without a word are lost, unless the kernel gives up early (net.ipv4.tcp_retries2)."},
		{Name: "slow-start", Scope: Backend, Type: Duration, Default: "0s", Theirs: "", Own: true,
			Doc: "Time in which a server that came new, or came back, grows from a small share of the requests to its full one. 0: at once. Servers that are there when HAProxy is loaded have their full share."},
		{Name: "passive-ejection", Scope: Backend, Type: Int, Default: "0", Max: 1000, Own: true,
			Doc: "Number of failed connections in a row after which a server gets no further requests until its checks find it well. Requests that it has are not cut off. 0: never. It needs checks, see health-check-uri."},
		{Name: "health-check-uri", Scope: Backend, Type: URLPath, Default: "", parse: parseRequestTarget,
			Doc:  "Switches HTTP checks of the servers on, with this path. They are off by default: Kubernetes knows which pods are ready.",
			Risk: "Each check costs a file descriptor for each server."},
		{Name: "health-check-addr", Scope: Backend, Type: Text, Default: "", parse: parseCheckAddress,
			Doc: "IP address that is checked in place of the server's. Loopback, link-local and multicast addresses are refused."},
		{Name: "health-check-port", Scope: Backend, Type: Int, Default: "0", Max: 65535,
			Doc: "Port that is checked; 0: the server's."},
		{Name: "health-check-interval", Aliases: []string{"backend-check-interval"}, Scope: Backend, Type: Duration, Default: "2s", Min: 100,
			Doc: "Time between two checks of a server."},
		{Name: "health-check-rise-count", Scope: Backend, Type: Int, Default: "2", Min: 1, Max: 1000,
			Doc: "Good checks in a row after which a server is up."},
		{Name: "health-check-fall-count", Scope: Backend, Type: Int, Default: "3", Min: 1, Max: 1000,
			Doc: "Bad checks in a row after which a server is down."},

		{Name: "affinity", Scope: Backend, Type: Enum, Default: "", Values: []string{"cookie"},
			Doc: "cookie: a client stays with the server that answered first, as long as it serves. Empty: off."},
		{Name: "session-cookie-name", Scope: Backend, Type: Text, Default: "INGRESSCOOKIE", parse: parseCookieName,
			Doc: "Name of the persistence cookie."},
		{Name: "session-cookie-domain", Scope: Backend, Type: Text, Default: "", parse: parseCookieDomain,
			Doc: "Attribute Domain of the persistence cookie. Empty: none."},
		{Name: "session-cookie-dynamic", Scope: Backend, Type: Bool, Default: "true",
			Doc: "The value of the cookie is a hash of the server's address and of cookie-key; false: what session-cookie-value-strategy says."},
		{Name: "session-cookie-keywords", Scope: Backend, Type: Names, Default: "indirect nocache httponly", parse: parseCookieKeywords,
			Values: []string{"indirect", "nocache", "postonly", "preserve", "httponly", "secure"},
			Doc:    "Keywords of HAProxy's cookie line."},
		{Name: "session-cookie-preserve", Scope: Backend, Type: Bool, Default: "false",
			Doc: "The application may set or delete the cookie itself."},
		{Name: "session-cookie-same-site", Scope: Backend, Type: Enum, Default: "false", Values: []string{"false", "true", "None", "Lax", "Strict"},
			Doc:  "Attribute SameSite of the persistence cookie; true is None. None adds Secure.",
			Note: "None, Lax and Strict are additions of sluice."},
		{Name: "session-cookie-strategy", Scope: Backend, Type: Enum, Default: "insert", Values: []string{"insert", "prefix", "rewrite"},
			Doc: "insert a cookie, prefix the application's one, or rewrite it."},
		{Name: "session-cookie-value-strategy", Scope: Backend, Type: Enum, Default: "server-name", Values: []string{"server-name", "pod-uid"},
			Doc: "What the value of a cookie is made of that is not dynamic: the server's address and port, or the UID of the pod."},
	}
}

// secureOptions are those of TLS to the servers. All of them fail closed: an unreadable one
// must not end in plain text or in a server that nobody verified.
func secureOptions() []Option {
	return []Option{
		{Name: "secure-backends", Scope: Backend, Type: Bool, Default: "false", FailClosed: true, Guards: true,
			Doc: "TLS to the servers. Older form of backend-protocol h1-ssl."},
		{Name: "secure-crt-secret", Scope: Backend, Type: SecretRef, Default: "", FailClosed: true,
			Doc: "Secret of type kubernetes.io/tls with the client certificate that the servers are shown."},
		{Name: "secure-verify-ca-secret", Scope: Backend, Type: SecretRef, Default: "", FailClosed: true, Guards: true,
			Doc:  "Secret with ca.crt: the servers' certificates must be signed by it. Empty: they are not verified.",
			Risk: "Without it anybody between the proxy and the pod can read and change the traffic."},
		{Name: "secure-verify-hostname", Scope: Backend, Type: Hostname, Default: "", FailClosed: true, Guards: true,
			Doc: "Name that the servers' certificates must hold."},
		{Name: "secure-sni", Scope: Backend, Type: Text, Default: "", FailClosed: true, Guards: true, parse: parseSNI,
			Doc: "Server name that is sent to the servers: host (of the request), sni (of the client's connection), or a fixed name. Empty: none."},
	}
}
