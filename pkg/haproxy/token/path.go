package token

import (
	"errors"
	"fmt"
	"strings"
)

// maxPath bounds a path, so that its key fits one runtime command and HAProxy's buffer.
const maxPath = 2048

// Path is the path of a rule as the frontend spells the path of a request before it
// looks it up; "/" if it is empty.
func Path(path string) (string, error) {
	if path == "" {
		return "/", nil
	}
	if err := CheckText(path, ""); err != nil {
		return "", err
	}
	switch {
	case path[0] != '/':
		return "", errors.New("it does not begin with '/'")
	case len(path) > maxPath:
		return "", fmt.Errorf("it is longer than %d bytes", maxPath)
	case strings.ContainsAny(path, " #?"):
		return "", errors.New("it holds a blank, '#' or '?'")
	case strings.Contains(path, "\\"):
		return "", errors.New(`it holds a '\'`)
	}
	return normalise(path), nil
}

// normalise spells a path as the frontend does before it looks a request up: escapes
// decoded but for those that would change what the path says, these with upper case digits,
// no double slashes, no dot segments. Bytes that stand in no request are escaped, as
// clients do. See RFC 3986, 6.2.2.
func normalise(path string) string {
	if strings.IndexFunc(path, escapes) < 0 && !strings.Contains(path, "//") && !strings.Contains(path, "/.") {
		return path // nearly every path
	}
	return resolveDots(reescape(path))
}

func escapes(r rune) bool { return r == '%' || r == '"' || r >= 0x80 }

func reescape(path string) string {
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		c := path[i]
		switch {
		case c == '%' && i+2 < len(path) && digit(path[i+1]) >= 0 && digit(path[i+2]) >= 0:
			if decoded := byte(digit(path[i+1])<<4 | digit(path[i+2])); sameDecoded(decoded) {
				b.WriteByte(decoded)
			} else {
				fmt.Fprintf(&b, "%%%02X", decoded)
			}
			i += 2
		case c == '"' || c >= 0x80:
			fmt.Fprintf(&b, "%%%02X", c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

func digit(c byte) int { return strings.IndexByte("0123456789abcdef", c|0x20) }

// sameDecoded tells whether the escape of a character says the same as the character: all that
// can be printed, but what ends a segment, a path or an escape, or can't stand in a key.
func sameDecoded(c byte) bool { return '!' <= c && c <= '~' && strings.IndexByte(`"#%/?\`, c) < 0 }

// resolveDots takes out empty, "." and ".." segments, the latter with the one before it. A
// path that ends in one of them ends with a slash.
func resolveDots(path string) string {
	var kept []string
	slash := false
	for segment := range strings.SplitSeq(path[1:], "/") {
		slash = segment == "" || segment == "." || segment == ".."
		switch {
		case !slash:
			kept = append(kept, segment)
		case segment == ".." && len(kept) > 0:
			kept = kept[:len(kept)-1]
		}
	}
	if slash && len(kept) > 0 {
		kept = append(kept, "")
	}
	return "/" + strings.Join(kept, "/")
}
