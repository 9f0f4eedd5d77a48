package settings

// pathOptions are those of one path, or of one host.
func pathOptions() []Option {
	return []Option{
		{Name: "allowlist-source-range", Aliases: []string{"whitelist-source-range"}, Scope: Path, Type: CIDRs, Default: "", FailClosed: true, Guards: true, parse: parseGuardCIDRs,
			Doc: "Addresses and networks of clients that may use the path, separated by commas; others get 403. With \"!\" before it, one is an exception. A list that is empty or has an unreadable entry denies everybody."},
		{Name: "denylist-source-range", Scope: Path, Type: CIDRs, Default: "", FailClosed: true, Guards: true, parse: parseGuardCIDRs,
			Doc: "Addresses and networks of clients that get 403, separated by commas. With \"!\" before it, one is an exception. A list that is empty or has an unreadable entry denies everybody."},
		{Name: "auth-secret", Scope: Path, Type: SecretRef, Default: "", FailClosed: true, Guards: true,
			Doc: "Secret whose key auth lists the users of HTTP basic authentication: lines \"user:hash\" or \"user::password\". A client with more than 20 failed logins in 10 seconds gets 429."},
		{Name: "auth-realm", Scope: Path, Type: Text, Default: "localhost", parse: parseRealm,
			Doc: "Realm that a browser shows when it asks for the password. Quotes and backslashes are refused."},
		{Name: "ssl-redirect", Scope: Path, Type: Bool, Default: "true", FailClosed: true, Safe: "true",
			Doc: "Requests by http are redirected to https on a host that has TLS."},
		{Name: "hsts", Scope: Path, Type: Bool, Default: "true",
			Doc: "Responses by https carry Strict-Transport-Security."},
		{Name: "hsts-max-age", Scope: Path, Type: Int, Default: "15768000", Max: 315_360_000,
			Doc: "Its max-age in seconds; 0 makes browsers forget the host."},
		{Name: "hsts-include-subdomains", Scope: Path, Type: Bool, Default: "false",
			Doc: "Its includeSubDomains.", Risk: "Browsers refuse http to each name below the host, whoever serves it."},
		{Name: "hsts-preload", Scope: Path, Type: Bool, Default: "false",
			Doc: "Its preload.", Risk: "A host on the preload list of browsers is there for months."},
		{Name: "proxy-body-size", Scope: Path, Type: Size, Default: "unlimited", Max: 1 << 40, FailClosed: true,
			Doc: "Greatest size of the body of a request; 413 above. A number of bytes with k, m or g, or unlimited; an unreadable one denies the path. Of a body that comes in chunks, without its length, only what is buffered at first counts."},
		{Name: "rewrite-target", Scope: Path, Type: URLPath, Default: "",
			Doc:  "What takes the place of the matched path in the request that the server gets.",
			Note: "Regular expressions and their groups are not offered; backslashes are refused."},
		{Name: "redirect-to", Scope: Path, Type: URL, Default: "",
			Doc:  "The path is redirected to this URL (http or https) or path.",
			Note: "The text is literal: HAProxy's variables are not expanded."},
		{Name: "redirect-to-code", Scope: Frontend | Path, Type: Code, Default: "302", Values: redirectCodes, Min: 301, Max: 308,
			Doc: "Status of redirect-to."},
		{Name: "app-root", Scope: Host, Type: URLPath, Default: "", parse: parseRequestTarget,
			Doc: "Requests of / are redirected to this path."},
		{Name: "path-type", Scope: Path, Type: Enum, Default: "begin", Values: []string{"begin", "exact", "prefix"}, parse: parsePathType,
			Doc: "What a path of type ImplementationSpecific is: the beginning of paths, an exact path, or a prefix of path elements."},
		{Name: "request-set-headers", Aliases: []string{"headers"}, Scope: Backend, Type: Headers, Default: "",
			Doc: "Headers that the server gets in place of the client's: lines \"Name: value\".", Note: literalHeaders},
		{Name: "request-add-headers", Scope: Backend, Type: Headers, Default: "",
			Doc: "Headers that the server gets besides the client's.", Note: literalHeaders},
		{Name: "request-del-headers", Scope: Backend, Type: Names, Default: "", parse: parseHeaderNames,
			Doc: "Names of request headers that the server does not get, separated by commas."},
		{Name: "response-set-headers", Scope: Backend, Type: Headers, Default: "",
			Doc: "Headers that the client gets in place of the server's: lines \"Name: value\".", Note: literalHeaders},
		{Name: "response-add-headers", Scope: Backend, Type: Headers, Default: "",
			Doc: "Headers that the client gets besides the server's.", Note: literalHeaders},
		{Name: "response-del-headers", Scope: Backend, Type: Names, Default: "", parse: parseHeaderNames,
			Doc: "Names of response headers that the client does not get, separated by commas."},
	}
}

const literalHeaders = "Values are literal: %[namespace] and other variables are not expanded."

// corsOptions are those of cross-origin resource sharing. An unreadable one never allows
// more than its default does.
func corsOptions() []Option {
	return []Option{
		{Name: "cors-enable", Scope: Path, Type: Bool, Default: "false",
			Doc: "The proxy answers preflight requests and adds the CORS headers."},
		{Name: "cors-allow-origin", Scope: Path, Type: Names, Default: "*", hasSafe: true, parse: parseOrigins,
			Doc: "Allowed origins such as https://example.com, separated by commas, or * for all. A list with an unreadable entry allows none."},
		{Name: "cors-allow-methods", Scope: Path, Type: Names, Default: "GET, PUT, POST, DELETE, PATCH, OPTIONS", Safe: "GET", parse: parseTokens,
			Doc: "Allowed methods."},
		{Name: "cors-allow-headers", Scope: Path, Type: Names, hasSafe: true, parse: parseTokens,
			Default: "DNT, X-CustomHeader, Keep-Alive, User-Agent, X-Requested-With, If-Modified-Since, Cache-Control, Content-Type, Authorization",
			Doc:     "Allowed request headers."},
		{Name: "cors-allow-credentials", Scope: Path, Type: Bool, Default: "true", Safe: "false",
			Doc: "Requests with cookies or authentication are allowed."},
		{Name: "cors-expose-headers", Scope: Path, Type: Names, Default: "", hasSafe: true, parse: parseTokens,
			Doc: "Response headers that scripts may read."},
		{Name: "cors-max-age", Scope: Path, Type: Int, Default: "86400", Max: 31_536_000,
			Doc: "Seconds for which a browser may keep the answer of a preflight."},
	}
}
