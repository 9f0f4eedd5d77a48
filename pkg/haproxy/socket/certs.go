package socket

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/plan"
)

// addCertificate loads a certificate. Its name is a digest of its content, so that one
// which was committed before is the same and is left alone.
func (s *session) addCertificate(c plan.AddCertificate) error {
	return s.load("ssl cert", c.Certificate, s.loaded)
}

// addCAFile loads certificates that servers are verified with, named in the same way.
func (s *session) addCAFile(c plan.AddCAFile) error {
	return s.load("ssl ca-file", c.Certificate, s.loadedCA)
}

// load loads a file of a kind ("ssl cert", "ssl ca-file"), unless HAProxy knows it and it is
// loaded.
func (s *session) load(kind string, c *model.Certificate, loaded func(path string) (bool, error)) error {
	path := certPath(c.Name)
	text, err := canonicalPEM(c.PEM)
	if err != nil {
		return &Invalid{What: "set " + kind, Why: err}
	}
	set, err := certCall("set "+kind, path)
	if err != nil {
		return err
	}
	set.payload, set.secret = text, true
	if err := s.limits.check(set.request); err != nil {
		var large *TooLarge
		if errors.As(err, &large) {
			large.What = path
		}
		return err
	}
	got, err := s.certCalls(path, "new "+kind)
	if err != nil {
		return err
	}
	if got[0] == exists {
		loaded, err := loaded(path)
		if err != nil || loaded {
			return err
		}
	}
	if err := s.commit(kind, path, set); err != nil {
		// Nothing of it must stay: an open transaction blocks all others, and an empty
		// certificate would be taken for this one.
		if _, undo := s.certCalls(path, "abort "+kind, "del "+kind); undo != nil {
			err = errors.Join(err, undo)
		}
		return err
	}
	return nil
}

// commit sends the content and makes it count. A transaction that a controller left open
// when it died is aborted.
func (s *session) commit(kind, path string, set call) error {
	answers, err := s.ask(set.request)
	if err != nil {
		return err
	}
	m, err := set.judge(answers[0])
	if m == foreign {
		_, rest, _ := strings.Cut(answers[0], "'")
		other, _, _ := strings.Cut(rest, "'")
		if _, err := s.certCalls(other, "abort "+kind); err != nil {
			return err
		}
		if answers, err = s.ask(set.request); err != nil {
			return err
		}
		m, err = set.judge(answers[0])
	}
	if err != nil {
		return err
	}
	if m != done {
		return &UnexpectedAnswer{Command: set.line, Answer: quotable(answers[0])}
	}
	_, err = s.certCalls(path, "commit "+kind)
	return err
}

func (s *session) delCertificate(c plan.DelCertificate) error {
	_, err := s.certCalls(certPath(c.Name), "del ssl cert")
	return err
}

// loaded tells whether a certificate that HAProxy knows has content.
func (s *session) loaded(path string) (bool, error) {
	show, err := line("show ssl cert", path)
	if err != nil {
		return false, err
	}
	answers, err := s.ask(request{line: show})
	if err != nil {
		return false, err
	}
	_, status, found := strings.Cut(answers[0], "\nStatus: ")
	if !found {
		return false, &UnexpectedAnswer{Command: show, Answer: quotable(answers[0])}
	}
	return strings.HasPrefix(status, "Used\n") || strings.HasPrefix(status, "Unused\n"), nil
}

// loadedCA tells whether a CA file that HAProxy knows has content.
func (s *session) loadedCA(path string) (bool, error) {
	const show = "show ssl ca-file"
	answers, err := s.ask(request{line: show})
	if err != nil {
		return false, err
	}
	for l := range strings.Lines(answers[0]) {
		// certs/NAME.pem - 2 certificate(s)
		if words := strings.Fields(l); len(words) == 4 && words[0] == path {
			return words[2] != "0", nil
		}
	}
	return false, &UnexpectedAnswer{Command: show, Answer: quotable(answers[0])}
}

func certCall(verb, path string) (call, error) {
	text, err := line(verb, path)
	return call{verb, request{line: text}}, err
}

// certCalls sends commands whose only argument is the certificate.
func (s *session) certCalls(path string, verbs ...string) ([]meaning, error) {
	calls := make([]call, len(verbs))
	for i, verb := range verbs {
		c, err := certCall(verb, path)
		if err != nil {
			return nil, err
		}
		calls[i] = c
	}
	return s.expect(calls...)
}

// crtEntry is a line of the crt-list as HAProxy holds it.
type crtEntry struct {
	certificate string // path
	number      string // line number, which names it in a deletion; empty: not known
	clients     string // see clientsOf
	hosts       []string
}

func (e crtEntry) is(l model.CrtLine) bool {
	hosts := slices.Clone(l.Hosts)
	slices.Sort(hosts)
	return e.certificate == certPath(l.Certificate) && e.clients == clientsOf(l) && slices.Equal(e.hosts, hosts)
}

// clientsOf are the options of a line that say which clients are let in: the file of
// authorities, and whether a certificate is optional.
func clientsOf(l model.CrtLine) string {
	if l.ClientCA == "" {
		return ""
	}
	return fmt.Sprint(certPath(l.ClientCA), l.Optional)
}

// clientsIn are those among the options of a line as HAProxy shows them, in any order.
func clientsIn(options []string) string {
	ca, optional := "", false
	for i := 1; i < len(options); i++ {
		switch options[i-1] {
		case "ca-file":
			ca = options[i]
		case "verify":
			optional = options[i] == "optional"
		}
	}
	if ca == "" {
		return ""
	}
	return fmt.Sprint(ca, optional)
}

// crtEntries reads a crt-list once per connection; addCrtLine and delCrtLine keep it.
func (s *session) crtEntries(list string) ([]crtEntry, error) {
	if s.crt[list] != nil {
		return s.crt[list], nil
	}
	show := "show ssl crt-list -n " + crtListPath(list)
	answers, err := s.ask(request{line: show})
	if err != nil {
		return nil, err
	}
	head, rest, _ := strings.Cut(answers[0], "\n")
	if head != "# "+crtListPath(list) {
		return nil, &UnexpectedAnswer{Command: show, Answer: quotable(answers[0])}
	}
	entries := []crtEntry{}
	for l := range strings.Lines(rest) {
		// certs/NAME.pem:3 [options] a.example *.b.example
		words := strings.Fields(l)
		colon := strings.LastIndexByte(words[0], ':')
		if colon < 0 {
			return nil, &UnexpectedAnswer{Command: show, Answer: quotable(l)}
		}
		hosts, clients := words[1:], ""
		if end := slices.IndexFunc(hosts, func(w string) bool { return strings.HasSuffix(w, "]") }); end >= 0 {
			clients = clientsIn(strings.Fields(strings.Trim(strings.Join(hosts[:end+1], " "), "[]")))
			hosts = hosts[end+1:]
		}
		slices.Sort(hosts)
		entries = append(entries, crtEntry{words[0][:colon], words[0][colon+1:], clients, hosts})
	}
	s.keep(list, entries)
	return entries, nil
}

// keep remembers what a crt-list holds; nil: it has to be read again.
func (s *session) keep(list string, entries []crtEntry) {
	if s.crt == nil {
		s.crt = map[string][]crtEntry{}
	}
	s.crt[list] = entries
}

// addCrtLine adds a line unless it stands there.
func (s *session) addCrtLine(l model.CrtLine) error {
	entries, err := s.crtEntries(l.List)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(entries, func(e crtEntry) bool { return e.is(l) }) {
		return nil
	}
	text, err := crtLine(l)
	if err != nil {
		return err
	}
	add := request{line: "add ssl crt-list " + crtListPath(l.List), payload: text + "\n"}
	if _, err := s.expect(call{"add ssl crt-list", add}); err != nil {
		return err
	}
	hosts := slices.Clone(l.Hosts)
	slices.Sort(hosts)
	s.keep(l.List, append(s.crt[l.List], crtEntry{certificate: certPath(l.Certificate), clients: clientsOf(l), hosts: hosts}))
	return nil
}

// delCrtLine removes every line that is equal to the given one.
func (s *session) delCrtLine(l model.CrtLine) error {
	entries, err := s.crtEntries(l.List)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(entries, func(e crtEntry) bool { return e.is(l) && e.number == "" }) {
		s.keep(l.List, nil)
		if entries, err = s.crtEntries(l.List); err != nil {
			return err
		}
	}
	for _, e := range entries {
		if !e.is(l) {
			continue
		}
		if _, err := strconv.Atoi(e.number); err != nil {
			return &UnexpectedAnswer{Command: "show ssl crt-list -n " + crtListPath(l.List), Answer: e.certificate + ":" + e.number}
		}
		text, err := line("del ssl crt-list", crtListPath(l.List), e.certificate+":"+e.number)
		if err != nil {
			return err
		}
		if _, err := s.expect(call{"del ssl crt-list", request{line: text}}); err != nil {
			s.keep(l.List, nil)
			return err
		}
	}
	s.keep(l.List, slices.DeleteFunc(s.crt[l.List], func(e crtEntry) bool { return e.is(l) }))
	return nil
}
