package vhost

import (
	"fmt"
	"strings"

	"github.com/sluice-proxy/sluice/pkg/converters/gateway"
	"github.com/sluice-proxy/sluice/pkg/haproxy/pattern"
)

// conditionsOf are the conditions of a candidate besides those on its path, empty where it
// has none.
func conditionsOf(c candidate) string {
	var list []string
	if c.path != "" {
		list = append(list, "p~"+c.path)
	}
	if c.match.Method != "" {
		list = append(list, "m="+escape(c.match.Method))
	}
	for _, h := range c.match.Headers {
		list = append(list, condition("h", h))
	}
	for _, q := range c.match.Query {
		list = append(list, condition("q", q))
	}
	return strings.Join(list, "&")
}

func condition(kind string, c gateway.Condition) string {
	if !c.Pattern {
		return kind + "=" + escape(c.Name) + "=" + escape(c.Value)
	}
	automaton, err := pattern.Compile(c.Value)
	if err != nil {
		automaton = never // the converter has said so
	}
	return kind + "~" + escape(c.Name) + "~" + automaton
}

// never is an automaton that matches nothing.
const never = "0:1:1:0:"

// escape writes what could end a name or a value as %XX.
func escape(text string) string {
	var b strings.Builder
	for i := range len(text) {
		c := text[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._/", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
