package socket

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/plan"
)

func ready(n int) []plan.Command {
	state := model.Ready
	list := make([]plan.Command, n)
	for i := range list {
		list[i] = plan.SetServer{Backend: "b", Server: fmt.Sprintf("10.0.0.%d:80", i), State: &state}
	}
	return list
}

func TestRunNeverTakesFailureForSuccess(t *testing.T) {
	const at = 7
	bad := fmt.Sprintf("set server b/10.0.0.%d:80 state ready", at)
	cases := map[string]struct {
		answer string
		err    error
		wantOK int // results without error, counted from the first
		broken error
	}{
		"one command of twenty is refused: the others are done": {
			answer: "[3]: No such server.", wantOK: 20,
		},
		"a text that is not known counts as failure": {
			answer: "[6]: Everything is fine, trust me.", wantOK: 20,
		},
		"a warning counts as failure": {
			answer: "[4]: something", wantOK: 20,
		},
		"a socket that stops answering ends the run at the deadline": {
			err: errHang, wantOK: at, broken: context.DeadlineExceeded,
		},
		"a socket that closes ends the run": {
			err: errClose, wantOK: at, broken: errors.ErrUnsupported,
		},
	}
	for sentence, c := range cases {
		t.Run(sentence, func(t *testing.T) {
			f := newFake(t, func(got command) (string, error) {
				if got.line == bad {
					return c.answer, c.err
				}
				return "", nil
			})
			start := time.Now()
			results, err := NewRuntime(f.path, Options{}).Run(deadline(t, 300*time.Millisecond), ready(20))
			if took := time.Since(start); took > 3*time.Second {
				t.Errorf("it took %v", took)
			}
			if (err != nil) != (c.broken != nil) {
				t.Errorf("error %v", err)
			}
			if errors.Is(c.broken, context.DeadlineExceeded) && !errors.Is(err, c.broken) {
				t.Errorf("error %v, want %v", err, c.broken)
			}
			if len(results) != 20 {
				t.Fatalf("%d results", len(results))
			}
			for i, r := range results {
				if want := i < c.wantOK && i != at; (r.Err == nil) != want {
					t.Errorf("result %d: %v", i, r.Err)
				}
			}
			var unexpected *UnexpectedAnswer
			if c.answer != "" && !errors.As(results[at].Err, &unexpected) {
				t.Errorf("%v is not an UnexpectedAnswer", results[at].Err)
			}
		})
	}
}

func TestASocketThatNobodyAcceptsOn(t *testing.T) {
	results, err := NewRuntime(folder(t)+"/none", Options{}).Run(t.Context(), ready(1))
	if err == nil || results[0].Err == nil {
		t.Errorf("no error: %v, %v", err, results[0].Err)
	}
}

func TestAnotherWorkerIsSentNothing(t *testing.T) {
	f := newFake(t, func(command) (string, error) { return "Name: HAProxy\nPid: 12\nUptime: 0d", nil })
	_, err := NewRuntime(f.path, Options{Worker: func() int { return 11 }}).Run(t.Context(), ready(1))
	var wrong *WrongWorker
	if !errors.As(err, &wrong) || wrong.Have != 12 {
		t.Fatalf("error %v", err)
	}
	if diff := cmp.Diff([]command{{line: "show info"}}, f.commands(), cmp.AllowUnexported(command{})); diff != "" {
		t.Error(diff)
	}
}

func TestLinesStayBelowTheBufferSize(t *testing.T) {
	f := newFake(t, func(command) (string, error) { return "", nil })
	s, err := open(t.Context(), f.path, limits{line: 300, payload: 1000})
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	var requests []request
	for i := range 50 {
		requests = append(requests, request{line: fmt.Sprintf("set server b/10.0.0.%d:80 state ready", i)})
	}
	for rest := requests; len(rest) > 0; {
		text, n := s.pack(rest)
		if len(text) > 300 || n == 0 {
			t.Fatalf("%d bytes, %d requests", len(text), n)
		}
		rest = rest[n:]
	}
	var large *TooLarge
	if _, err := s.ask(request{line: strings.Repeat("x", 301)}); !errors.As(err, &large) {
		t.Errorf("error %v", err)
	}
	if _, err := s.ask(request{line: "x", payload: strings.Repeat("x", 1000)}); !errors.As(err, &large) {
		t.Errorf("error %v", err)
	}
}

// textCase is a command, what HAProxy answers to which line (to others: nothing), and
// what must be sent.
type textCase struct {
	command plan.Command
	answers map[string]string
	want    []command
}

func testText(t *testing.T, cases map[string]textCase) {
	t.Helper()
	for sentence, c := range cases {
		t.Run(sentence, func(t *testing.T) {
			f := newFake(t, func(got command) (string, error) { return c.answers[got.line], nil })
			results, err := NewRuntime(f.path, Options{}).Run(deadline(t, 5*time.Second), []plan.Command{c.command})
			if err != nil || results[0].Err != nil {
				t.Errorf("errors %v, %v", err, results[0].Err)
			}
			if diff := cmp.Diff(c.want, f.commands(), cmp.AllowUnexported(command{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestServerText(t *testing.T) {
	server := model.Server{Addr: netip.MustParseAddrPort("[fd00::1]:80"), Weight: 3, State: model.Drain}
	zero, maint := 0, model.Maint
	testText(t, map[string]textCase{
		"a draining server with a check is added ready, with weight 0": {
			command: plan.AddServer{Backend: "b", Server: server, Options: model.ServerOptions{Check: model.Check{On: true}}},
			answers: map[string]string{"add server b/fd00::1:80 [fd00::1]:80 weight 0 pool-max-conn 0 check": "[6]: New server registered."},
			want: []command{
				{line: "add server b/fd00::1:80 [fd00::1]:80 weight 0 pool-max-conn 0 check"},
				{line: "enable health b/fd00::1:80"},
				{line: "set server b/fd00::1:80 state ready"},
			},
		},
		"a server that exists gets its weight, too": {
			command: plan.AddServer{Backend: "b", Server: server},
			answers: map[string]string{"add server b/fd00::1:80 [fd00::1]:80 weight 0 pool-max-conn 0": "[3]: Already exists a server with the same name in backend."},
			want: []command{
				{line: "add server b/fd00::1:80 [fd00::1]:80 weight 0 pool-max-conn 0"},
				{line: "set server b/fd00::1:80 state ready"},
				{line: "set server b/fd00::1:80 weight 0"},
			},
		},
		"weight comes before state": {
			command: plan.SetServer{Backend: "b", Server: "s", State: &maint, Weight: &zero},
			want:    []command{{line: "set server b/s weight 0"}, {line: "set server b/s state maint"}},
		},
		"a server without connections is deleted at once": {
			command: plan.DelServer{Backend: "b", Server: "s"},
			answers: map[string]string{"del server b/s": "[6]: Server deleted."},
			want:    []command{{line: "set server b/s state maint"}, {line: "del server b/s"}},
		},
	})
}

func TestPatternText(t *testing.T) {
	text := func(s string) *string { return &s }
	testText(t, map[string]textCase{
		"a map entry is set, and added only where there is none; blanks are escaped": {
			command: plan.EditMap{Map: "values", Edits: []model.Edit{
				{Key: "b/redirect", Value: text(`a b\c <<`)}, {Key: "b/new", Value: text("v")}, {Key: "b/gone"}, {Key: "b/twice"}, {Key: "b/twice", Value: text("2")},
			}},
			answers: map[string]string{
				"set map maps/values.map b/new v": "[3]: entry not found.",
				"del map maps/values.map b/gone":  "[3]: Key not found.",
			},
			want: []command{
				{line: `set map maps/values.map b/redirect a\ b\\c\ \<\<`},
				{line: "set map maps/values.map b/new v"},
				{line: "del map maps/values.map b/gone"},
				{line: "set map maps/values.map b/twice 2"},
				{line: "add map maps/values.map b/new v"},
			},
		},
		"an empty value is deleted and added": {
			command: plan.EditMap{Map: "values", Edits: []model.Edit{{Key: "b/rewrite", Value: text("")}}},
			want: []command{
				{line: "del map maps/values.map b/rewrite"},
				{line: "add map maps/values.map", payload: "b/rewrite \n"},
			},
		},
		"list entries are compared with those that stand": {
			command: plan.EditList{List: "l", Add: []string{"10.0.0.0/8", "::1"}, Remove: []string{"1.2.3.4", "5.6.7.8"}},
			answers: map[string]string{"show acl lists/l.lst": "0x7f01 10.0.0.0/8\n0x7f02 1.2.3.4\n0x7f03 1.2.3.4"},
			want: []command{
				{line: "show acl lists/l.lst"},
				{line: "add acl lists/l.lst ::1"},
				{line: "del acl lists/l.lst #0x7f02"},
				{line: "del acl lists/l.lst #0x7f03"},
			},
		},
		"a crt-list line is deleted by its number": {
			command: plan.DelCrtLine{Line: model.CrtLine{List: model.CrtListHTTPS, Certificate: "c.pem", Hosts: []string{"a.example", "b.example"}}},
			answers: map[string]string{
				"show ssl crt-list -n crt-lists/https.list":           "# crt-lists/https.list\ncerts/d.pem:1\ncerts/c.pem:2 z.example\ncerts/c.pem:7 [alpn h2,http/1.1] b.example a.example",
				"del ssl crt-list crt-lists/https.list certs/c.pem:7": "[5]: Entry 'certs/c.pem' deleted in crtlist 'crt-lists/https.list'!",
			},
			want: []command{
				{line: "show ssl crt-list -n crt-lists/https.list"},
				{line: "del ssl crt-list crt-lists/https.list certs/c.pem:7"},
			},
		},
		"a crt-list line that stands is not added": {
			command: plan.AddCrtLine{Line: model.CrtLine{List: model.CrtListHTTPS, Certificate: "c.pem", Hosts: []string{"z.example"}}},
			answers: map[string]string{"show ssl crt-list -n crt-lists/https.list": "# crt-lists/https.list\ncerts/d.pem:1\ncerts/c.pem:2 z.example"},
			want:    []command{{line: "show ssl crt-list -n crt-lists/https.list"}},
		},
	})
}

func TestInvalidCommandsAreNotSent(t *testing.T) {
	text := func(s string) *string { return &s }
	server := model.Server{Addr: netip.MustParseAddrPort("10.0.0.1:80")}
	cases := map[string]plan.Command{
		"a line feed in a map value":         plan.EditMap{Map: "values", Edits: []model.Edit{{Key: "k", Value: text("a\nshutdown frontend http")}}},
		"a map key that looks like a number": plan.EditMap{Map: "values", Edits: []model.Edit{{Key: "#1", Value: text("v")}}},
		"a semicolon in the server options":  plan.AddServer{Backend: "b", Server: server, Options: model.ServerOptions{SSL: true, SNI: "str(a);x"}},
		"quotes in the server options":       plan.AddServer{Backend: "b", Server: server, Options: model.ServerOptions{SSL: true, SNI: "'str(a b)'"}},
		"a blank in a host":                  plan.AddCrtLine{Line: model.CrtLine{List: model.CrtListHTTPS, Certificate: "c.pem", Hosts: []string{"a b"}}},
		"a line feed in a host":              plan.AddCrtLine{Line: model.CrtLine{List: model.CrtListHTTPS, Certificate: "c.pem", Hosts: []string{"a\nb"}}},
		"no PEM at all":                      plan.AddCertificate{Certificate: &model.Certificate{Name: "c.pem", PEM: model.NewSecret([]byte("junk"))}},
	}
	for sentence, c := range cases {
		t.Run(sentence, func(t *testing.T) {
			f := newFake(t, func(command) (string, error) { return "# crt-lists/https.list\ncerts/d.pem:1", nil })
			results, err := NewRuntime(f.path, Options{}).Run(deadline(t, 5*time.Second), []plan.Command{c})
			var invalid *Invalid
			if err != nil || !errors.As(results[0].Err, &invalid) {
				t.Errorf("errors %v, %v", err, results[0].Err)
			}
			for _, got := range f.commands() {
				if !strings.HasPrefix(got.line, "show ssl crt-list") {
					t.Errorf("sent %q", got.line)
				}
			}
		})
	}
}

func TestMatch(t *testing.T) {
	cases := map[string]struct {
		pattern, text string
		want          bool
	}{
		"equal":                           {"", "", true},
		"not equal":                       {"Done.", "Done", false},
		"a star at the front":             {"*registered.", "x\nNew server registered.", true},
		"stars in the middle":             {"Entry '*' deleted in crtlist '*'!", "Entry 'a' deleted in crtlist 'b'!", true},
		"too short for both ends":         {"ab*bc", "abc", false},
		"a middle part that is not there": {"a*b*c", "axc", false},
	}
	for sentence, c := range cases {
		if got := match(c.pattern, c.text); got != c.want {
			t.Errorf("%s: %v", sentence, got)
		}
	}
}
