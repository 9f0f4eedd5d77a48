package settings

// globalOptions are those of the process and its listeners.
func globalOptions() []Option {
	return []Option{
		{Name: "max-connections", Scope: Global, Type: Int, Default: "0", Max: 10_000_000, Theirs: "2000",
			Doc:  "Greatest number of client connections of the process; 0: as many as the limit on file descriptors allows.",
			Note: "2000 is reached by any busy site, and further clients wait unseen in the kernel."},
		{Name: "nbthread", Scope: Global, Type: Int, Default: "0", Max: 64,
			Doc: "Number of worker threads; 0: one for each CPU that the process may use."},
		{Name: "timeout-stop", Scope: Global, Type: Duration, Default: "10m", Min: 1000,
			Doc: "Time after a reload at which an old worker is stopped with the connections it still has."},
		{Name: "backend-shards", Scope: Global, Type: Int, Default: "0", Max: 1024, Own: true,
			Doc: "Number of files that the backends are divided into; 0: chosen from the number of backends. The flag --backend-shards wins."},
		{Name: "use-proxy-protocol", Scope: Global, Type: Bool, Default: "false",
			Doc:  "Clients of the listeners speak the PROXY protocol (a load balancer in front). Who does not is refused.",
			Note: "A frontend option in haproxy-ingress; the listeners of sluice are shared by all Ingresses."},
		{Name: "trusted-proxies", Scope: Global, Type: CIDRs, Default: "", Own: true, hasSafe: true, parse: parseTrusted,
			Doc:  "Networks of load balancers whose X-Forwarded-* headers are believed. X-Forwarded-Host and -Port of anybody else are removed, -Proto is replaced, -For is what forwardfor says. Empty: nobody's.",
			Risk: "Who is in such a network can claim any client address."},
		{Name: "forwardfor", Scope: Global, Type: Enum, Default: "add", Values: []string{"add", "update", "ignore", "ifmissing"},
			Doc: "X-Forwarded-For to the server: add: the client's address alone, what was received moves to X-Original-Forwarded-For; update: a further header with the address; ignore: as received; ifmissing: the address if nothing was received."},
		{Name: "strict-host", Scope: Global, Type: Bool, Default: "false",
			Doc: "A path that no rule of a known host has is answered 404, not by the rules without a host."},
		{Name: "ssl-redirect-code", Scope: Global, Type: Code, Default: "302", Values: redirectCodes, Min: 301, Max: 308,
			Doc: "Status of the redirect to https."},
		{Name: "https-port", Scope: Global, Type: Int, Default: "443", Min: 1, Max: 65535,
			Doc:  "Port at which clients reach https, which the redirect to https names unless it is 443.",
			Note: "The port of the listener in haproxy-ingress; here that is --https-address, which a load balancer or a Service may well show to clients as another one."},
		{Name: "no-tls-redirect-locations", Scope: Global, Type: Names, Default: "/.well-known/acme-challenge", parse: parsePaths,
			Doc: "Beginnings of paths that are not redirected to https; separated by commas."},
		{Name: "tls-alpn", Scope: Global, Type: Names, Default: "h2,http/1.1", Values: []string{"h2", "http/1.1"}, parse: parseChoices,
			Doc:  "Protocols offered to TLS clients, the preferred one first.",
			Note: "A host option in haproxy-ingress; connections of clients are shared by hosts, so it is one for all here."},
		{Name: "cookie-key", Scope: Global, Type: Text, Default: "Ingress", parse: parseSalt,
			Doc: "Salt of the hash that makes the value of a persistence cookie. Set a secret one: values can't be guessed then."},
		{Name: "dns-resolvers", Scope: Global, Type: Names, Default: "", parse: parseResolvers,
			Doc: "DNS servers for Services of type ExternalName: lines \"name=address\" or \"name=address:port\". Empty: those of /etc/resolv.conf."},
		{Name: "dns-hold-valid", Scope: Global, Type: Duration, Default: "1s", Min: 1,
			Doc: "How long a DNS answer is used."},
	}
}

var redirectCodes = []string{"301", "302", "303", "307", "308"}

// logOptions are those of the access log.
func logOptions() []Option {
	return []Option{
		{Name: "syslog-endpoint", Scope: Global, Type: Names, Default: "stdout", Theirs: "none", parse: parseEndpoints,
			Doc:  "Where the log goes: stdout, stderr or address:port (UDP), separated by commas; none: nowhere.",
			Note: "An access log is wanted as soon as something goes wrong, which is too late to switch it on."},
		{Name: "syslog-format", Scope: Global, Type: Enum, Default: "raw", Theirs: "rfc5424", Values: []string{"rfc5424", "rfc3164", "raw"},
			Doc:  "Format of what stands before the text of a log line.",
			Note: "Lines go to stdout by default, where a syslog header is noise."},
		{Name: "syslog-length", Scope: Global, Type: Int, Default: "1024", Min: 80, Max: 65535,
			Doc: "Greatest length of a log line in bytes; longer ones are cut."},
		{Name: "syslog-tag", Scope: Global, Type: Text, Default: "ingress", parse: parseTag,
			Doc: "Name of the program in a syslog header."},
		{Name: "http-log-format", Scope: Global, Type: LogFormat, Default: "",
			Doc:  "Text of an access log line, with HAProxy's log-format variables. Empty: that of sluice, which names backend, server, retries and the state at the end.",
			Risk: "HAProxy evaluates it: a sample that can't be used here makes HAProxy refuse the configuration."},
	}
}

// timeoutOptions are the timeouts. None may be 0, which is no timeout at all for HAProxy.
func timeoutOptions() []Option {
	const everywhere = "A backend option in haproxy-ingress; HAProxy uses the value of the listener, which all backends share."
	return []Option{
		{Name: "timeout-client", Scope: Global, Type: Duration, Default: "50s", Min: 1,
			Doc: "How long a client may be silent when it is its turn."},
		{Name: "timeout-client-fin", Scope: Global, Type: Duration, Default: "50s", Min: 1,
			Doc: "The same on a client connection that is closed in one direction."},
		{Name: "timeout-http-request", Scope: Global, Type: Duration, Default: "5s", Min: 1,
			Doc: "How long a client may take to send the head of a request.", Note: everywhere},
		{Name: "timeout-keep-alive", Scope: Global, Type: Duration, Default: "1m", Min: 1,
			Doc: "How long a client connection may be idle between two requests.", Note: everywhere},
		{Name: "timeout-server-fin", Scope: Global, Type: Duration, Default: "50s", Min: 1,
			Doc:  "How long a server may be silent on a connection that is closed in one direction.",
			Note: "A backend option in haproxy-ingress."},
		{Name: "timeout-connect", Scope: Backend, Type: Duration, Default: "1s", Theirs: "5s", Min: 1,
			Doc:  "How long a connection to a server may take before another server is tried.",
			Note: "A pod that vanished costs its clients this time; with 1s and a retry elsewhere few of them notice.",
			Risk: "With more than 5s most clients give up before a second server is tried."},
		{Name: "retries", Scope: Backend, Type: Int, Default: "3", Max: 10, Own: true,
			Doc:  "How often a request is tried again whose server fails before it answers. It also bounds what failing servers cost: no request makes more attempts than this and one.",
			Risk: "With 0 each pod that stops costs the requests that meet it."},
		{Name: "retry-on", Scope: Backend, Type: Names, Default: "conn-failure,empty-response", Own: true, parse: parseChoices,
			Values: []string{"none", "conn-failure", "empty-response", "junk-response", "response-timeout", "0rtt-rejected", "500", "502", "503", "504"},
			Doc:    "What counts as a failure of the server, in HAProxy's words: conn-failure, empty-response, junk-response, response-timeout, 0rtt-rejected, or a status. Only requests of at most 16 kB that are safe to send twice are tried again once they were sent."},
		{Name: "retry-elsewhere", Scope: Backend, Type: Bool, Default: "true", Own: true,
			Doc: "Each further attempt goes to another server (HAProxy's option redispatch 1), also where affinity names one."},
		{Name: "retry-unsafe-methods", Scope: Backend, Type: Bool, Default: "false", Own: true,
			Doc:  "POST, PATCH and other methods that are not idempotent are sent again, too.",
			Risk: "A server may carry out such a request twice."},
		{Name: "timeout-queue", Scope: Backend, Type: Duration, Default: "5s", Min: 1,
			Doc: "How long a request waits for a server that is below its maxconn-server; then 503."},
		{Name: "timeout-server", Scope: Backend, Type: Duration, Default: "50s", Min: 1,
			Doc: "How long a server may be silent when it is its turn; then 504."},
		{Name: "timeout-tunnel", Scope: Backend, Type: Duration, Default: "1h", Min: 1,
			Doc: "How long both sides of an upgraded connection (WebSocket) may be silent."},
	}
}
