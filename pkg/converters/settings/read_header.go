package settings

import (
	"fmt"
	"slices"
	"strings"
)

// maxHeaders bounds the lines of one option: each of them is a rule of HAProxy that every
// request of the backend runs.
const maxHeaders = 64

// ownedHeaders belong to a connection or frame a message: HAProxy makes them itself, and to
// change one of them is to let two sides see two different messages (RFC 9110, 7.6.1, and
// RFC 9112, 6).
var ownedHeaders = []string{"connection", "content-length", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"}

// parseHeaders takes lines "Name: value". Blank lines are skipped.
func parseHeaders(o *Option, text string) (value, error) {
	v := value{}
	lines := []string{}
	for i, line := range strings.Split(text, "\n") {
		if strings.Trim(line, " ") == "" {
			continue
		}
		name, content, found := strings.Cut(line, ":")
		name, content = strings.Trim(name, " "), strings.Trim(content, " ")
		if !found || !isToken(name) {
			// Not quoted: it may hold a password.
			return value{}, fmt.Errorf("line %d of %s is no header, expected lines \"Name: value\"", i+1, o.Name)
		}
		if why := refusedHeader(o, name); why != "" {
			return value{}, fmt.Errorf("%s has the header %s, %s", o.Name, quote(name), why)
		}
		if content == "" {
			return value{}, fmt.Errorf("%s has the header %s without a value; to remove it, use %s", o.Name, quote(name), delOption(o.Name))
		}
		if len(content) > maxText {
			return value{}, fmt.Errorf("%s has the header %s with %d bytes, at most %d are allowed", o.Name, quote(name), len(content), maxText)
		}
		v.headers = append(v.headers, Header{name, content})
		lines = append(lines, name+": "+content)
	}
	if len(v.headers) > maxHeaders {
		return value{}, fmt.Errorf("%s has %d headers, at most %d are allowed", o.Name, len(v.headers), maxHeaders)
	}
	v.text = strings.Join(lines, "\n")
	return v, nil
}

// parseHeaderNames takes names of headers to remove.
func parseHeaderNames(o *Option, text string) (value, error) {
	names := items(text)
	for _, name := range names {
		if !isToken(name) {
			return refuse(o, name, "names of headers, separated by commas")
		}
		if why := refusedHeader(o, name); why != "" {
			return value{}, fmt.Errorf("%s has the header %s, %s", o.Name, quote(name), why)
		}
	}
	if len(names) > maxHeaders {
		return value{}, fmt.Errorf("%s has %d headers, at most %d are allowed", o.Name, len(names), maxHeaders)
	}
	return list(names), nil
}

// CheckHeader tells what stands against changing a header of requests or answers. Host may only
// be set, and in requests only.
func CheckHeader(name string, setsHost bool) error {
	option := &Option{Name: "headers"}
	if setsHost {
		option.Name = "request-set-headers"
	}
	if !isToken(name) {
		return fmt.Errorf("%s is not the name of a header", quote(name))
	}
	if why := refusedHeader(option, name); why != "" {
		return fmt.Errorf("%s is a header %s", quote(name), why)
	}
	return nil
}

// refusedHeader says why an option may not touch a header; empty: it may. Host may be set,
// since the route is chosen by then, but a request must have exactly one.
func refusedHeader(o *Option, name string) string {
	name = strings.ToLower(name)
	switch {
	case slices.Contains(ownedHeaders, name):
		return "which belongs to the connection and is made by HAProxy"
	case name == "host" && o.Name != "request-set-headers":
		return "of which a request has exactly one; use request-set-headers"
	}
	return ""
}

// delOption is the option that removes what the given one sets or adds.
func delOption(name string) string {
	side, _, _ := strings.Cut(name, "-")
	return side + "-del-headers"
}

// isToken tells whether s is a token of RFC 9110, 5.6.2: the name of a header or a method.
func isToken(s string) bool {
	for i := range len(s) {
		if !alphanumeric(s[i]) && strings.IndexByte("!#$%&'*+-.^_`|~", s[i]) < 0 {
			return false
		}
	}
	return s != "" && len(s) <= 256
}

func alphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
