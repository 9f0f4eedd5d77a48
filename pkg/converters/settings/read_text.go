package settings

import (
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/sluice-proxy/sluice/pkg/haproxy/token"
)

// parsePathType refuses regular expressions with their own finding: they have a meaning.
func parsePathType(o *Option, text string) (value, error) {
	if strings.EqualFold(text, "regex") {
		return value{}, &unsupportedValue{"path-type regex is not offered, since a list of expressions costs every request; write a path of type Prefix or Exact"}
	}
	return parseEnum(o, text)
}

// parseProtocol makes grpc and grpcs h2 and h2-ssl.
func parseProtocol(o *Option, text string) (value, error) {
	lower := strings.ToLower(text)
	switch lower {
	case "grpc":
		return value{text: "h2"}, nil
	case "grpcs":
		return value{text: "h2-ssl"}, nil
	case "fcgi", "fcgi-ssl":
		return value{}, &unsupportedValue{"backend-protocol " + lower + " is not offered; put an HTTP server in front of the FastCGI application, in its pod"}
	}
	return parseEnum(o, text)
}

// Forms of single words.
var (
	plainWord   = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	objectName  = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)
	namedArg    = regexp.MustCompile(`^(hdr|req\.hdr|req\.cook|url_param)\([A-Za-z0-9_.-]{1,64}\)$`)
	randomDraws = regexp.MustCompile(`^random\(([0-9]{1,3})\)$`)
)

func isPlain(s string) bool { return plainWord.MatchString(s) }

func parseHostname(o *Option, text string) (value, error) {
	lower := strings.ToLower(text)
	if !token.IsHostname(lower) {
		return refuse(o, text, "a DNS name")
	}
	return value{text: lower}, nil
}

// parseSNI takes the words host and sni, or a name.
func parseSNI(o *Option, text string) (value, error) {
	if lower := strings.ToLower(text); token.IsHostname(lower) {
		return value{text: lower}, nil
	}
	return refuse(o, text, "host, sni or a DNS name")
}

// parseSecret takes name or namespace/name.
func parseSecret(o *Option, text string) (value, error) {
	namespace, name, found := strings.Cut(text, "/")
	if !found {
		namespace, name = "default", text
	}
	if strings.HasPrefix(text, "file:") {
		return value{}, &unsupportedValue{o.Name + " names a file, which is not offered; put its content into a Secret and name that"}
	}
	if !objectName.MatchString(namespace) || !objectName.MatchString(name) {
		return refuse(o, text, "the name of a Secret, or namespace/name")
	}
	return value{text: text}, nil
}

// isPath tells whether s is a path as it stands in a request line, with its query if that
// is allowed. Anything but printable ASCII has to be escaped there (RFC 3986, 2).
func isPath(s string, query bool) bool {
	if !strings.HasPrefix(s, "/") || strings.HasPrefix(s, "//") || len(s) > 2048 {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' || strings.IndexByte("\"<>\\^`{|}#", s[i]) >= 0 || s[i] == '?' && !query {
			return false
		}
	}
	_, err := url.ParseRequestURI(s)
	return err == nil
}

func parsePath(o *Option, text string) (value, error) {
	if text != "" && !isPath(text, false) {
		return refuse(o, text, "a path that begins with one /, with special characters escaped as %XX")
	}
	return value{text: text}, nil
}

// parseRequestTarget is parsePath with a query.
func parseRequestTarget(o *Option, text string) (value, error) {
	if text != "" && !isPath(text, true) {
		return refuse(o, text, "a path that begins with one /, with special characters escaped as %XX")
	}
	return value{text: text}, nil
}

// parseURL takes a path or an http(s) URL and writes it anew, so that what leaves is a
// location and nothing else.
func parseURL(o *Option, text string) (value, error) {
	if text == "" || isPath(text, true) {
		return value{text: text}, nil
	}
	u, err := url.Parse(text)
	if err == nil && !strings.Contains(text, " ") && (u.Scheme == "http" || u.Scheme == "https") && u.User == nil && validHost(u) {
		if again := u.String(); len(again) <= 2048 && strings.Trim(again, printable) == "" {
			return value{text: again}, nil
		}
	}
	return refuse(o, text, "a URL that begins with http:// or https://, or a path")
}

// printable are the characters of a URL (RFC 3986, 2.2, 2.3 and "%").
const printable = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~:/?#[]@!$&'()*+,;=%"

func validHost(u *url.URL) bool {
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return false
		}
	} else if strings.HasSuffix(u.Host, ":") {
		return false
	}
	_, err := netip.ParseAddr(u.Hostname())
	return err == nil || token.IsHostname(strings.ToLower(u.Hostname()))
}

func parseRealm(o *Option, text string) (value, error) {
	text = strings.Trim(text, " ")
	if text == "" || len(text) > 128 || strings.ContainsAny(text, `"'\`) {
		return refuse(o, text, "a text of up to 128 bytes without quotes and backslashes")
	}
	return value{text: text}, nil
}

// parseSalt does not show the text in its message, since it is meant to be secret.
func parseSalt(o *Option, text string) (value, error) {
	if text == "" || len(text) > 256 {
		return refuse(o, "empty or too long", "a text of 1 to 256 bytes")
	}
	return value{text: text}, nil
}

func parseTag(o *Option, text string) (value, error) {
	if !isPlain(text) {
		return refuse(o, text, "letters, digits, - and _")
	}
	return value{text: text}, nil
}

func parseCookieName(o *Option, text string) (value, error) { return parseTag(o, text) }

// parseCookieDomain takes a name with a dot in it: HAProxy warns of others, browsers ignore them.
func parseCookieDomain(o *Option, text string) (value, error) {
	lower := strings.ToLower(text)
	name := strings.TrimPrefix(lower, ".")
	if text != "" && (!token.IsHostname(name) || !strings.Contains(name, ".")) {
		return refuse(o, text, "a DNS name with a dot in it")
	}
	return value{text: lower}, nil
}

// parseCheckAddress refuses addresses that would make HAProxy knock at its own door or at
// the metadata service of a cloud.
func parseCheckAddress(o *Option, text string) (value, error) {
	if text == "" {
		return value{}, nil
	}
	a, err := netip.ParseAddr(text)
	a = a.Unmap()
	if err != nil || a.Zone() != "" || a.IsLoopback() || a.IsUnspecified() || a.IsMulticast() || a.IsLinkLocalUnicast() {
		return refuse(o, text, "an IP address that is not a loopback, link-local or multicast one")
	}
	return value{text: a.String()}, nil
}

// parseBalance takes the algorithms with which servers can come and go at run time, and
// whose arguments can't be anything but names and numbers (configuration manual, "balance").
func parseBalance(o *Option, text string) (value, error) {
	words := strings.Fields(text)
	canonical := strings.Join(words, " ")
	if len(words) > 0 && validBalance(words[0], words[1:]) {
		return value{text: canonical}, nil
	}
	if len(words) > 0 && (words[0] == "static-rr" || strings.HasPrefix(words[0], "rdp-cookie")) {
		return value{}, &unsupportedValue{"balance-algorithm " + words[0] + " is not offered, since servers can't come and go at run time with it; use roundrobin"}
	}
	return refuse(o, text, "one of "+strings.Join(o.Values, ", "))
}

func validBalance(name string, arguments []string) bool {
	switch name {
	case "roundrobin", "leastconn", "first", "random", "source":
		return len(arguments) == 0
	case "uri":
		return validURIArguments(arguments)
	case "url_param":
		return len(arguments) == 1 && isPlain(arguments[0])
	case "hash":
		return len(arguments) == 1 && (arguments[0] == "src" || arguments[0] == "path" || arguments[0] == "pathq" ||
			namedArg.MatchString(arguments[0]) && !strings.HasPrefix(arguments[0], "hdr("))
	}
	if m := randomDraws.FindStringSubmatch(name); m != nil {
		draws, _ := strconv.Atoi(m[1]) // digits
		return draws >= 1 && draws <= 100 && len(arguments) == 0
	}
	return namedArg.MatchString(name) && strings.HasPrefix(name, "hdr(") &&
		(len(arguments) == 0 || len(arguments) == 1 && arguments[0] == "use_domain_only")
}

// validURIArguments takes [whole] [path-only] [len n] [depth n], each at most once.
func validURIArguments(arguments []string) bool {
	seen := map[string]bool{}
	for i := 0; i < len(arguments); i++ {
		word := arguments[i]
		if seen[word] {
			return false
		}
		seen[word] = true
		switch word {
		case "whole", "path-only":
		case "len", "depth":
			if i++; i == len(arguments) {
				return false
			}
			if n, err := parseDigits(arguments[i]); err != nil || n < 1 || n > 1024 {
				return false
			}
		default:
			return false
		}
	}
	return true
}
