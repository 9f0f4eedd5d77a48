package process

import (
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
)

// BindError tells that HAProxy could not listen on an address.
type BindError struct {
	Address string // "127.0.0.1:80"
	Reason  string // as the system words it: "Address already in use"
	File    string // as in Refusal
	Line    int    // as in Refusal
	Output  string // everything HAProxy printed
}

// Error names the address and says what to do.
func (e *BindError) Error() string {
	advice := "choose another address with --http-address or --https-address"
	switch {
	case strings.Contains(e.Reason, "in use"):
		advice = "stop the process that listens there, or " + advice
	case strings.Contains(e.Reason, "Permission"):
		advice = "ports below 1024 need the capability CAP_NET_BIND_SERVICE; grant it, or " + advice
	}
	return fmt.Sprintf("haproxy can't listen on %s: %s; %s", e.Address, e.Reason, advice)
}

var bindText = regexp.MustCompile(`cannot bind (?:\S+ )?socket \(([^)]*)\) (?:for )?\[(.+)\]`)

// bindErrorOf finds the first alert about an address; nil if there is none.
func bindErrorOf(output, root string) error {
	for l := range strings.Lines(output) {
		m := alertLine.FindStringSubmatch(strings.TrimSpace(l))
		if m == nil {
			continue
		}
		bind := bindText.FindStringSubmatch(m[1])
		if bind == nil {
			continue
		}
		e := &BindError{Address: address(bind[2]), Reason: bind[1], Output: output}
		if place := placeText.FindStringSubmatch(m[1]); place != nil {
			e.File = relative(place[1], root)
			e.Line, _ = strconv.Atoi(place[2]) // digits by the expression
		}
		return e
	}
	return nil
}

// address puts an IPv6 address into brackets, which HAProxy does not print.
func address(text string) string {
	colon := strings.LastIndexByte(text, ':')
	if colon < 0 || !strings.Contains(text[:colon], ":") {
		return text
	}
	return net.JoinHostPort(text[:colon], text[colon+1:])
}
