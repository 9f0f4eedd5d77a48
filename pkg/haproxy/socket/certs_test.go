package socket

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/plan"
)

// hostile is the PEM of a certificate with what a tenant may write into a Secret: text
// between the blocks that would be commands behind an empty line.
func hostile(t *testing.T) (*model.Certificate, string) {
	t.Helper()
	good := certificate(t, "a.example", nil)
	text := good.PEM.Reveal()
	bad := "shutdown frontend https\n\n" + strings.ReplaceAll(text, "-----BEGIN", "\n\nset server b/s state maint\n-END-\ndisable frontend https\n\n-----BEGIN") + "\nquit\n"
	return &model.Certificate{Name: good.Name, PEM: model.NewSecret([]byte(bad))}, text
}

func TestAPEMIsNeverACommand(t *testing.T) {
	bad, text := hostile(t)
	path := "certs/" + bad.Name
	f := newFake(t, func(c command) (string, error) {
		switch {
		case strings.HasPrefix(c.line, "new"):
			return "[5]: New empty certificate store '" + path + "'!", nil
		case strings.HasPrefix(c.line, "set"):
			return "[5]: Transaction created for certificate " + path + "!", nil
		}
		return "Committing " + path + "\nSuccess!", nil
	})
	results, err := NewRuntime(f.path, Options{}).Run(deadline(t, 5*time.Second), []plan.Command{plan.AddCertificate{Certificate: bad}})
	if err != nil || results[0].Err != nil {
		t.Errorf("errors %v, %v", err, results[0].Err)
	}
	want := []command{{line: "new ssl cert " + path}, {line: "set ssl cert " + path, payload: text}, {line: "commit ssl cert " + path}}
	if diff := cmp.Diff(want, f.commands(), cmp.AllowUnexported(command{})); diff != "" {
		t.Error(diff)
	}
}

func TestErrorsHoldNoKey(t *testing.T) {
	c := certificate(t, "a.example", nil)
	lines := strings.Split(strings.TrimSpace(c.PEM.Reveal()), "\n")
	secrets := lines[len(lines)-4 : len(lines)-1]
	cases := map[string]error{
		"the key is quoted in an answer":                      nil,
		"the key is quoted and then the connection hangs":     errHang,
		"the key is quoted and then the connection is closed": errClose,
	}
	for sentence, fail := range cases {
		t.Run(sentence, func(t *testing.T) {
			f := newFake(t, func(got command) (string, error) {
				if strings.HasPrefix(got.line, "new") {
					return "[5]: New empty certificate store 'x'!", nil
				}
				return "[3]: Unknown command: '" + strings.Join(secrets, "'\n'") + "'", fail
			})
			results, err := NewRuntime(f.path, Options{}).Run(deadline(t, 300*time.Millisecond), []plan.Command{plan.AddCertificate{Certificate: c}})
			if results[0].Err == nil {
				t.Fatal("no error")
			}
			text := fmt.Sprintf("%v %+v %#v %v", err, results, results, results[0].Err)
			for _, secret := range secrets {
				if strings.Contains(text, secret) {
					t.Errorf("a line of the key is in %s", text)
				}
			}
		})
	}
}

func TestCertificates(t *testing.T) {
	versions(t, func(t *testing.T, h *haproxy, version string) {
		bad, _ := hostile(t)
		line := model.CrtLine{List: model.CrtListHTTPS, Certificate: bad.Name, Hosts: []string{"*.b.example", "a.example"}}
		other := model.CrtLine{List: model.CrtListHTTPS, Certificate: bad.Name, Hosts: []string{"z.example"}}
		add := []plan.Command{plan.AddCertificate{Certificate: bad}, plan.AddCrtLine{Line: line}, plan.AddCrtLine{Line: other}, plan.AddCrtLine{Line: line}}
		h.must(t, add...)
		h.must(t, add...)
		names := func(want map[string]string) {
			t.Helper()
			for name, cn := range want {
				if got := h.handshake(t, name); got != cn {
					t.Errorf("%s is served %q, want %q", name, got, cn)
				}
			}
		}
		names(map[string]string{"a.example": "a.example", "x.b.example": "a.example", "z.example": "a.example", "unknown.example": ""})
		entries, err := h.session(t).crtEntries(model.CrtListHTTPS)
		if err != nil || len(entries) != 3 {
			t.Errorf("lines %v, %v", entries, err)
		}
		// One of two lines of the certificate, added and deleted over one connection.
		third := model.CrtLine{List: model.CrtListHTTPS, Certificate: bad.Name, Hosts: []string{"y.example"}}
		h.must(t, plan.AddCrtLine{Line: third}, plan.DelCrtLine{Line: line}, plan.DelCrtLine{Line: third}, plan.DelCrtLine{Line: line})
		names(map[string]string{"a.example": "", "x.b.example": "", "y.example": "", "z.example": "a.example"})

		results, err := h.run.Run(deadline(t, 5*time.Second), []plan.Command{plan.DelCertificate{Name: bad.Name}})
		var unexpected *UnexpectedAnswer
		if err != nil || !errors.As(results[0].Err, &unexpected) {
			t.Errorf("a certificate in use: %v, %v", err, results[0].Err)
		}
		del := []plan.Command{plan.DelCrtLine{Line: other}, plan.DelCertificate{Name: bad.Name}}
		h.must(t, del...)
		h.must(t, del...)
		names(map[string]string{"z.example": ""})
	})
}

func TestFailedCertificateLeavesNothing(t *testing.T) {
	versions(t, func(t *testing.T, h *haproxy, version string) {
		one, two := certificate(t, "one", nil), certificate(t, "two", nil)
		key := two.PEM.Reveal()[strings.Index(two.PEM.Reveal(), "-----BEGIN PRIVATE"):]
		chain := one.PEM.Reveal()[:strings.Index(one.PEM.Reveal(), "-----BEGIN PRIVATE")]
		mixed := &model.Certificate{Name: "mixed.pem", PEM: model.NewSecret([]byte(chain + key))}
		// A controller that was killed between set and commit left this one behind.
		if _, err := h.session(t).ask(
			request{line: "new ssl cert certs/" + one.Name},
			request{line: "set ssl cert certs/" + one.Name, payload: one.PEM.Reveal()},
		); err != nil {
			t.Fatal(err)
		}
		results, err := h.run.Run(deadline(t, 5*time.Second), []plan.Command{plan.AddCertificate{Certificate: mixed}})
		var unexpected *UnexpectedAnswer
		if err != nil || !errors.As(results[0].Err, &unexpected) || strings.Contains(results[0].Err.Error(), key[40:80]) {
			t.Errorf("errors %v, %v", err, results[0].Err)
		}
		text, err := h.run.query(deadline(t, 5*time.Second), "show ssl cert")
		if err != nil || strings.Contains(text, "mixed.pem") {
			t.Errorf("certificates %q, %v", text, err)
		}
		line := model.CrtLine{List: model.CrtListHTTPS, Certificate: one.Name, Hosts: []string{"one.example"}}
		h.must(t, plan.AddCertificate{Certificate: one}, plan.AddCrtLine{Line: line})
		if got := h.handshake(t, "one.example"); got != "one" {
			t.Errorf("served %q", got)
		}
	})
}

func TestLongChain(t *testing.T) {
	versions(t, func(t *testing.T, h *haproxy, version string) {
		ctx := deadline(t, 20*time.Second)
		if _, err := h.run.Probe(ctx); err != nil {
			t.Fatal(err)
		}
		sizes := map[int]bool{30: true, 45: version == "3.4", 280: version == "3.4", 400: false} // certificates of some 380 bytes
		for n, fits := range sizes {
			long := certificate(t, "long", make([]string, n))
			results, err := h.run.Run(ctx, []plan.Command{plan.AddCertificate{Certificate: long}})
			if err != nil {
				t.Fatal(err)
			}
			var large *TooLarge
			if ok := results[0].Err == nil; ok != fits || !ok && !errors.As(results[0].Err, &large) {
				t.Errorf("%d bytes: %v", long.PEM.Len(), results[0].Err)
			}
		}
	})
}
