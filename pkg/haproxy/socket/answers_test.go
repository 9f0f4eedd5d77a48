package socket

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// step is a command, the entry of the table of answers it belongs to, and what its answer
// must mean.
type step struct {
	verb, line, payload string
	want                meaning
}

// TestAnswers provokes every answer of the table on both binaries.
func TestAnswers(t *testing.T) {
	versions(t, func(t *testing.T, h *haproxy, version string) {
		s := h.session(t)
		steps := slices.Concat(serverSteps(), patternSteps(), certificateSteps(certificate(t, "one", nil), certificate(t, "two", nil)), caSteps(certificate(t, "ca", nil)))
		if version == "3.4" {
			steps = append(steps, backendSteps()...)
		}
		seen := map[answer]bool{}
		for _, step := range steps {
			texts, err := s.ask(request{line: step.line, payload: step.payload})
			if err != nil {
				t.Fatalf("%s: %v", step.line, err)
			}
			if got := meaningOf(step.verb, texts[0]); got != step.want {
				t.Errorf("%s: %q means %d, want %d", step.line, texts[0], got, step.want)
			}
			for _, a := range answers(step.verb) {
				if match(a.text, texts[0]) {
					seen[answer{step.verb + ": " + a.text, a.means}] = true
				}
			}
		}
		// TestBusyServer provokes these two.
		seen[answer{"wait: Wait delay expired.*", busy}] = true
		seen[answer{"del backend: *Backend still has attached streams on it.", busy}] = true // TestBackendWithStream
		seen[answer{"del server: Server still has connections attached to it, cannot remove it.", busy}] = true
		for _, step := range steps {
			for _, a := range answers(step.verb) {
				if !seen[answer{step.verb + ": " + a.text, a.means}] {
					t.Errorf("no step provokes %q of %q", a.text, step.verb)
				}
			}
		}
	})
}

func serverSteps() []step {
	return []step{
		{"add server", "add server b/a:80 10.0.0.9:80 check weight 3", "", done},
		{"add server", "add server b/a:80 10.0.0.9:80", "", exists},
		{"add server", "add server b/t:80 10.0.0.9:80 tcp-ut 5s", "", unknown},
		{"add server", "add server b/t:80 10.0.0.9:80 ssl", "", unknown},
		{"add server", "add server nope/a:80 10.0.0.9:80", "", unknown},
		{"enable health", "enable health b/a:80", "", done},
		{"enable health", "enable health b/10.0.0.1:80", "", unknown},
		{"set server", "set server b/a:80 state ready", "", done},
		{"set server", "set server b/a:80 state drain", "", done},
		{"set server", "set server b/a:80 weight 256", "", done},
		{"set server", "set server b/a:80 weight 257", "", unknown},
		{"set server", "set server b/a:80 addr 999.0.0.9", "", unknown},
		{"set server", "set server b/nope state ready", "", unknown},
		{"del server", "del server b/a:80", "", unknown}, // not in maintenance
		{"set server maint", "set server b/a:80 state maint", "", done},
		{"set server maint", "set server b/nope state maint", "", missing},
		{"set server maint", "set server nope/a:80 state maint", "", missing},
		{"wait", "wait 100ms srv-removable b/a:80", "", done},
		{"del server", "del server b/a:80", "", done},
		{"wait", "wait 100ms srv-removable b/a:80", "", missing},
		{"del server", "del server b/a:80", "", missing},
		{"del server", "del server nope/a:80", "", missing},
	}
}

func backendSteps() []step {
	return []step{
		{"add backend", "add backend n from web mode http", "", done},
		{"add backend", "add backend n from web mode http", "", exists},
		{"add backend", "add backend b from web mode http", "", exists},
		{"add backend", "add backend web from web mode http", "", unknown},
		{"add backend", "add backend http from web mode http", "", unknown},
		{"add backend", "add backend m from nope mode http", "", unknown},
		{"add backend", "add backend m from fixed mode http", "", unknown}, // takes no servers
		{"publish backend", "publish backend n", "", done},
		{"publish backend", "publish backend n", "", done},
		{"publish backend", "publish backend nope", "", unknown},
		{"del backend", "del backend n", "", unknown}, // it is published
		{"show stat backend", "show stat n 2 -1", "", done},
		{"show stat backend", "show stat nope 2 -1", "", missing},
		{"show servers state", "show servers state n", "", done},
		{"show servers state", "show servers state nope", "", missing},
		{"add server", "add server n/a 10.0.0.9:80", "", done},
		{"unpublish backend", "unpublish backend n", "", done},
		{"unpublish backend", "unpublish backend n", "", done},
		{"unpublish backend", "unpublish backend nope", "", missing},
		{"del backend", "del backend n", "", busy},
		{"del server", "del server n/a", "", done},
		{"del backend", "del backend n", "", done},
		{"del backend", "del backend n", "", missing},
	}
}

func caSteps(ca *model.Certificate) []step {
	pem := ca.PEM.Reveal()
	pem = pem[:strings.Index(pem, "-----BEGIN PRIVATE")]
	return []step{
		{"new ssl ca-file", "new ssl ca-file certs/a.pem", "", done},
		{"new ssl ca-file", "new ssl ca-file certs/a.pem", "", exists},
		{"new ssl ca-file", "new ssl ca-file certs/b.pem", "", done},
		{"set ssl ca-file", "set ssl ca-file certs/a.pem", pem, done},
		{"set ssl ca-file", "set ssl ca-file certs/a.pem", pem, done},
		{"set ssl ca-file", "set ssl ca-file certs/b.pem", pem, foreign},
		{"set ssl ca-file", "set ssl ca-file certs/a.pem", "junk\n", unknown},
		{"commit ssl ca-file", "commit ssl ca-file certs/b.pem", "", unknown},
		{"commit ssl ca-file", "commit ssl ca-file certs/a.pem", "", done},
		{"set ssl ca-file", "set ssl ca-file certs/b.pem", pem, done},
		{"abort ssl ca-file", "abort ssl ca-file certs/b.pem", "", done},
		{"abort ssl ca-file", "abort ssl ca-file certs/b.pem", "", missing},
		{"del ssl ca-file", "del ssl ca-file certs/b.pem", "", done},
		{"del ssl ca-file", "del ssl ca-file certs/b.pem", "", missing},
	}
}

func patternSteps() []step {
	return []step{
		{"set map", "set map maps/values.map k v", "", missing},
		{"add map", "add map maps/values.map k v", "", done},
		{"set map", "set map maps/values.map k w", "", done},
		{"add map", "add map maps/values.map", "p1 x y\np2 \n", done},
		{"del map", "del map maps/values.map k", "", done},
		{"del map", "del map maps/values.map k", "", missing},
		{"set map", "set map maps/nope.map k v", "", unknown},
		{"add map", "add map maps/nope.map k v", "", unknown},
		{"del map", "del map maps/nope.map k", "", unknown},
		{"add acl", "add acl lists/l.lst 10.0.0.0/8", "", done},
		{"add acl", "add acl lists/l.lst junk", "", unknown},
		{"add acl", "add acl lists/nope.lst ::1", "", unknown},
		{"del acl", "del acl lists/l.lst 10.0.0.0/8", "", done},
		{"del acl", "del acl lists/l.lst 10.0.0.0/8", "", missing},
	}
}

func certificateSteps(one, two *model.Certificate) []step {
	pem := one.PEM.Reveal()
	noKey := pem[:len(pem)/2] + "\n"
	return []step{
		{"new ssl cert", "new ssl cert certs/one.pem", "", done},
		{"new ssl cert", "new ssl cert certs/one.pem", "", exists},
		{"set ssl cert", "set ssl cert certs/one.pem", pem, done},
		{"set ssl cert", "set ssl cert certs/one.pem", pem, done},
		{"new ssl cert", "new ssl cert certs/two.pem", "", done},
		{"set ssl cert", "set ssl cert certs/two.pem", two.PEM.Reveal(), foreign},
		{"commit ssl cert", "commit ssl cert certs/two.pem", "", unknown},
		{"abort ssl cert", "abort ssl cert certs/two.pem", "", unknown},
		{"commit ssl cert", "commit ssl cert certs/one.pem", "", done},
		{"commit ssl cert", "commit ssl cert certs/one.pem", "", unknown},
		{"abort ssl cert", "abort ssl cert certs/one.pem", "", missing},
		{"set ssl cert", "set ssl cert certs/two.pem", two.PEM.Reveal(), done},
		{"abort ssl cert", "abort ssl cert certs/two.pem", "", done},
		{"set ssl cert", "set ssl cert certs/two.pem", noKey, unknown},
		{"set ssl cert", "set ssl cert certs/nope.pem", pem, unknown},
		{"del ssl cert", "del ssl cert certs/two.pem", "", done},
		{"del ssl cert", "del ssl cert certs/two.pem", "", missing},
		{"add ssl crt-list", "add ssl crt-list crt-lists/https.list", "certs/one.pem one.example\n", done},
		{"add ssl crt-list", "add ssl crt-list crt-lists/https.list", "certs/two.pem two.example\n", unknown},
		{"add ssl crt-list", "add ssl crt-list crt-lists/nope.list", "certs/one.pem one.example\n", unknown},
		{"del ssl cert", "del ssl cert certs/one.pem", "", unknown}, // in use
		{"del ssl crt-list", "del ssl crt-list crt-lists/https.list certs/one.pem:9", "", unknown},
		{"del ssl crt-list", "del ssl crt-list crt-lists/https.list certs/one.pem:2", "", done},
		{"del ssl cert", "del ssl cert certs/one.pem", "", done},
	}
}
