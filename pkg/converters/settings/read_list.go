package settings

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/pkg/haproxy/token"
)

// items splits a list at commas and line feeds, trims blanks and drops empty items.
func items(text string) []string {
	var list []string
	for _, item := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == '\n' }) {
		if item = strings.Trim(item, " "); item != "" {
			list = append(list, item)
		}
	}
	return list
}

// list is the value of a list: repetitions are dropped.
func list(names []string) value {
	var unique []string
	for _, name := range names {
		if !slices.Contains(unique, name) {
			unique = append(unique, name)
		}
	}
	return value{text: strings.Join(unique, ","), names: unique}
}

// parseEach parses each item of a list; one that is refused refuses the list.
func parseEach(o *Option, text, expected string, parse func(string) (string, bool)) (value, error) {
	names := items(text)
	for i, item := range names {
		canonical, ok := parse(item)
		if !ok {
			return refuse(o, item, expected)
		}
		names[i] = canonical
	}
	return list(names), nil
}

func parseNames(_ *Option, text string) (value, error) { return list(items(text)), nil }

// parseChoices takes a list of the option's values, at least one.
func parseChoices(o *Option, text string) (value, error) {
	expected := "a list of " + strings.Join(o.Values, ", ")
	if len(items(text)) == 0 {
		return refuse(o, text, expected)
	}
	return parseEach(o, text, expected, func(s string) (string, bool) { return s, slices.Contains(o.Values, s) })
}

// parseCookieKeywords takes a list that is separated by blanks, as on HAProxy's cookie line.
func parseCookieKeywords(o *Option, text string) (value, error) {
	return parseEach(o, strings.ReplaceAll(text, " ", ","), "a list of "+strings.Join(o.Values, ", "),
		func(s string) (string, bool) { return s, slices.Contains(o.Values, s) })
}

// parseTokens takes names of methods or headers; "*" is such a name.
func parseTokens(o *Option, text string) (value, error) {
	v, err := parseEach(o, text, "a list of names of methods or headers", func(s string) (string, bool) { return s, isToken(s) })
	v.text = strings.Join(v.names, ", ") // goes into a header as it is
	return v, err
}

// parsePaths takes a list of beginnings of paths.
func parsePaths(o *Option, text string) (value, error) {
	return parseEach(o, text, "a list of paths", func(s string) (string, bool) { return s, isPath(s, false) })
}

// parseOrigins takes "*" alone, or origins (RFC 6454, 6.2). "null" is refused: every sandboxed
// page has that origin.
func parseOrigins(o *Option, text string) (value, error) {
	const expected = "* alone, or origins such as https://example.com"
	if strings.TrimSpace(text) == "*" {
		return value{text: "*", names: []string{"*"}}, nil
	}
	return parseEach(o, text, expected, func(s string) (string, bool) {
		u, err := url.Parse(s)
		s = strings.ToLower(s)
		if err != nil || u.Host == "" || s != strings.ToLower(u.Scheme+"://"+u.Host) || u.User != nil {
			return "", false
		}
		host := u.Hostname()
		if _, err := netip.ParseAddr(host); err != nil && !token.IsHostname(strings.ToLower(host)) {
			return "", false
		}
		return s, !strings.HasSuffix(s, ":")
	})
}

// parseCIDRs takes addresses and networks; bits of a network behind its length are cleared,
// as HAProxy does.
func parseCIDRs(o *Option, text string) (value, error) {
	v := value{}
	for _, item := range items(text) {
		bare, exclude := strings.CutPrefix(item, "!")
		prefix, ok := network(strings.TrimLeft(bare, " "))
		if !ok {
			return refuse(o, item, "IP addresses and networks such as 10.0.0.0/8, separated by commas")
		}
		if exclude {
			v.networks.Exclude = append(v.networks.Exclude, prefix)
		} else {
			v.networks.Include = append(v.networks.Include, prefix)
		}
	}
	v.networks.Include = unique(v.networks.Include)
	v.networks.Exclude = unique(v.networks.Exclude)
	v.text = v.networks.String()
	return v, nil
}

func network(text string) (netip.Prefix, bool) {
	if !strings.Contains(text, "/") {
		address, err := netip.ParseAddr(text)
		if err != nil || address.Zone() != "" {
			return netip.Prefix{}, false
		}
		address = address.Unmap()
		return netip.PrefixFrom(address, address.BitLen()), true
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil || prefix.Addr().Is4In6() {
		return netip.Prefix{}, false
	}
	return prefix.Masked(), true
}

func unique(networks []netip.Prefix) []netip.Prefix {
	slices.SortFunc(networks, netip.Prefix.Compare)
	return slices.Compact(networks)
}

// String is the list as a user would write it.
func (n Networks) String() string {
	var items []string
	for _, p := range n.Include {
		items = append(items, p.String())
	}
	for _, p := range n.Exclude {
		items = append(items, "!"+p.String())
	}
	return strings.Join(items, ",")
}

// parseGuardCIDRs refuses a list without a network: who writes an empty allow list may
// mean nobody or everybody, and only one of these guesses is harmless. The empty text is the
// built-in default.
func parseGuardCIDRs(o *Option, text string) (value, error) {
	v, err := parseCIDRs(o, text)
	if err == nil && len(v.networks.Include) == 0 {
		return refuse(o, text, "at least one address or network without !")
	}
	return v, err
}

// parseTrusted takes a list of networks without exceptions.
func parseTrusted(o *Option, text string) (value, error) {
	v, err := parseCIDRs(o, text)
	if err == nil && len(v.networks.Exclude) > 0 {
		return refuse(o, text, "networks without !")
	}
	return v, err
}

// parseEndpoints takes targets of the log. Names are refused: HAProxy looks them up at its
// start and does not start without an answer.
func parseEndpoints(o *Option, text string) (value, error) {
	if text == "" || text == "none" {
		return value{}, nil
	}
	return parseEach(o, text, "stdout, stderr, none, or IP addresses with a port such as 10.0.0.1:514", func(s string) (string, bool) {
		if s == "stdout" || s == "stderr" {
			return s, true
		}
		target, err := netip.ParseAddrPort(s)
		return target.String(), err == nil && target.Port() != 0 && target.Addr().Zone() == ""
	})
}

// parseResolvers takes lines name=address[:port] and adds the port 53.
func parseResolvers(o *Option, text string) (value, error) {
	seen := map[string]bool{}
	return parseEach(o, text, "lines name=address or name=address:port, with different names", func(s string) (string, bool) {
		name, target, found := strings.Cut(s, "=")
		if !found || !isPlain(name) || seen[name] {
			return "", false
		}
		seen[name] = true
		if address, err := netip.ParseAddr(strings.Trim(target, "[]")); err == nil {
			target = netip.AddrPortFrom(address, 53).String()
		}
		server, err := netip.ParseAddrPort(target)
		return fmt.Sprintf("%s=%s", name, server), err == nil && server.Port() != 0 && server.Addr().Zone() == ""
	})
}

// parseListenIPs takes addresses without a port for listeners, at least one.
func parseListenIPs(o *Option, text string) (value, error) {
	const expected = "IP addresses to listen on; * stands for all IPv4, [::] for all IPv6 addresses"
	if len(items(text)) == 0 {
		return refuse(o, text, expected)
	}
	return parseEach(o, text, expected, func(s string) (string, bool) {
		if s == "*" {
			return s, true
		}
		address, err := netip.ParseAddr(strings.Trim(s, "[]"))
		if err != nil || address.Zone() != "" {
			return "", false
		}
		if address.Is4() {
			return address.String(), true
		}
		return "[" + address.String() + "]", true
	})
}
