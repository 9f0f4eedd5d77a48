package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/tests/harness"
)

// secured is an Ingress of a host with TLS, whose Secret has the Ingress' name.
func secured(name, host string, annotations ...string) string {
	return harness.Ingress(name, host, "web", annotations...) + fmt.Sprintf("  tls: [{hosts: [%q], secretName: %s}]\n", host, name)
}

// serial is the serial number of the certificate that is served for a server name, and the
// status of a request; an error where the handshake is refused.
func serial(c *harness.Controller, host string) (serial int64, status int, err error) {
	answer, state, err := c.GetTLS(host, "/")
	if state == nil {
		return 0, 0, err
	}
	return state.PeerCertificates[0].SerialNumber.Int64(), answer.Status, err
}

func serves(c *harness.Controller, host string, want int64) func() error {
	return func() error {
		got, status, err := serial(c, host)
		if err == nil && (got != want || status != 200) {
			err = fmt.Errorf("%s: serial %d, want %d, status %d", host, got, want, status)
		}
		return err
	}
}

func refuses(c *harness.Controller, host string) func() error {
	return func() error {
		if got, status, err := serial(c, host); err == nil {
			return fmt.Errorf("%s: certificate %d was served, status %d", host, got, status)
		}
		return nil
	}
}

func must(t *testing.T, condition func() error) {
	t.Helper()
	if err := condition(); err != nil {
		t.Error(err)
	}
}

// shown is everything that sluice shows of itself: log, state, configuration, metrics.
func shown(t *testing.T, c *harness.Controller) string {
	t.Helper()
	text := c.Log()
	for _, path := range []string{"/api/v1/state", "/api/v1/config", "/metrics"} {
		answer, err := http.Get("http://" + c.Admin + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != 200 {
			t.Fatalf("%s: status %d: %v", path, answer.StatusCode, err)
		}
		text += string(body)
	}
	return text
}

// private fails the test where a key file is open to others or a key is shown.
func private(t *testing.T, c *harness.Controller, pairs ...*harness.Pair) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(c.ConfigDir, "gen-*", "certs", "*"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no certificates: %v", err)
	}
	paths = append(paths, holds(t, c, "PRIVATE KEY")...)
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %s", path, info.Mode())
		}
	}
	text := shown(t, c)
	for i, pair := range pairs {
		if strings.Contains(text, pair.KeyLine()) {
			t.Errorf("key %d is shown", i)
		}
	}
}

// A certificate that can't be used costs its own host only, which has the default one.
func TestCertificates(t *testing.T) {
	harness.EachVersion(t, func(t *testing.T, binary string) {
		pod, ca := harness.NewPod(t, "web-1"), harness.NewAuthority(t, "ca")
		a, b, wild := ca.Issue(t, "a.example"), ca.Issue(t, "b.example"), ca.Issue(t, "*.wild.example")
		other, expired := ca.Issue(t, "mismatch.example"), ca.IssueUntil(t, time.Now().Add(-time.Hour), "expired.example")
		manifests := map[string]string{
			"a.yaml": harness.Class + harness.Service("web") + harness.Slice("web", pod) + secured("a", "a.example") + secured("b", "b.example") + secured("wild", "*.wild.example") +
				a.TLSSecret("a") + b.TLSSecret("b") + wild.TLSSecret("wild") + harness.Ingress("plain", "plain.example", "web"),
			"bad.yaml": secured("missing", "missing.example") + secured("empty", "empty.example") + secured("mismatch", "mismatch.example") + secured("expired", "expired.example") +
				harness.Secret("empty", map[string]string{"tls.crt": "", "tls.key": other.Key}) + expired.TLSSecret("expired") +
				harness.Secret("mismatch", map[string]string{"tls.crt": other.Certificate, "tls.key": a.Key}),
		}
		c := start(t, binary, manifests)
		for round := range 2 {
			for host, pair := range map[string]*harness.Pair{"a.example": a, "b.example": b, "x.wild.example": wild, "A.Example": a} {
				must(t, serves(c, host, pair.Serial))
			}
			var standard int64
			for _, host := range []string{"missing.example", "empty.example", "mismatch.example", "expired.example"} {
				got, status, err := serial(c, host)
				if err != nil || status != 200 {
					t.Errorf("%s: status %d: %v", host, status, err)
				}
				if standard == 0 {
					standard = got
				}
				if got != standard || got == other.Serial || got == expired.Serial {
					t.Errorf("%s is served with certificate %d, not the default one", host, got)
				}
			}
			for _, host := range []string{"unknown.example", "x.y.wild.example", "wild.example", "example", "plain.example", ""} {
				must(t, refuses(c, host))
			}
			for code, text := range map[string]string{"SecretMissing": "does not exist", "SecretInvalid": "does not belong", "CertificateExpired": "expired at"} {
				harness.Eventually(t, "a finding", hasFinding(c, code, text))
			}
			must(t, hasFinding(c, "SecretInvalid", "no content under the key tls.crt"))
			private(t, c, a, b, wild, other, expired)
			if round == 0 {
				// The same after a restart of everything.
				c.Stop()
				c.Start()
			}
		}

		// Each of them is put right by its Secret alone.
		reloads := c.Metric("sluice_reloads_total", "")
		for _, name := range []string{"missing", "empty", "mismatch", "expired"} {
			pair := ca.Issue(t, name+".example")
			manifests["bad.yaml"] = replaceSecret(manifests["bad.yaml"], name, pair)
			c.Write("bad.yaml", manifests["bad.yaml"])
			within(t, time.Second, name+".example is mended", serves(c, name+".example", pair.Serial))
		}
		if got := c.Metric("sluice_reloads_total", ""); got != reloads {
			t.Errorf("%v reloads", got-reloads)
		}
	})
}

// replaceSecret puts another Secret in the place of the one of that name, or adds it.
func replaceSecret(manifest, name string, pair *harness.Pair) string {
	var kept []string
	for document := range strings.SplitSeq(manifest, "---\n") {
		if !strings.Contains(document, "kind: Secret\nmetadata: {name: "+name+",") {
			kept = append(kept, document)
		}
	}
	return strings.Join(kept, "---\n") + pair.TLSSecret(name)
}

// forgotten tells whether no file holds the keys any more.
func forgotten(t *testing.T, c *harness.Controller, pairs ...*harness.Pair) func() error {
	return func() error {
		for i, pair := range pairs {
			if left := holds(t, c, pair.KeyLine()); len(left) > 0 {
				return fmt.Errorf("key %d is left in %v", i, left)
			}
		}
		return nil
	}
}

// The content of a Secret changes at run time; what it was before leaves the disk.
func TestCertificateIsReplaced(t *testing.T) {
	harness.EachVersion(t, func(t *testing.T, binary string) {
		pod, ca := harness.NewPod(t, "web-1"), harness.NewAuthority(t, "ca")
		other := ca.Issue(t, "other.example")
		c := start(t, binary, map[string]string{
			"a.yaml": harness.Class + harness.Service("web") + harness.Slice("web", pod) + secured("late", "late.example") + secured("other", "other.example") + other.TLSSecret("other"),
		})
		reloads := c.Metric("sluice_reloads_total", "")
		standard, _, err := serial(c, "late.example")
		if err != nil {
			t.Fatal(err)
		}
		var used []*harness.Pair
		for i := range 6 { // it comes, and is replaced five times
			pair := ca.Issue(t, "late.example")
			c.Write("late.yaml", pair.TLSSecret("late"))
			within(t, time.Second, fmt.Sprintf("certificate %d", i), serves(c, "late.example", pair.Serial))
			harness.Eventually(t, "the file is the new one", func() error {
				paths, err := filepath.Glob(filepath.Join(c.ConfigDir, "current", "certs", "*"))
				if err != nil {
					return err
				}
				if len(paths) != 3 { // default, other, late
					return fmt.Errorf("certs: %v", paths)
				}
				if len(holds(t, c, pair.KeyLine())) == 0 {
					return fmt.Errorf("no file holds it")
				}
				return nil
			})
			within(t, time.Second, "the keys before leave the disk", forgotten(t, c, used...))
			must(t, serves(c, "other.example", other.Serial))
			used = append(used, pair)
		}
		private(t, c, used...)

		// Gone, and back with the same bytes (C064).
		last := used[len(used)-1]
		for range 2 {
			c.Remove("late.yaml")
			within(t, time.Second, "the default certificate", serves(c, "late.example", standard))
			within(t, time.Second, "the keys leave the disk", forgotten(t, c, used...))
			c.Write("late.yaml", last.TLSSecret("late"))
			within(t, time.Second, "the same certificate again", serves(c, "late.example", last.Serial))
		}
		if got := c.Metric("sluice_reloads_total", ""); got != reloads {
			t.Errorf("%v reloads", got-reloads)
		}

		// A key leaves the older generations, too.
		change(t, c, map[string]string{"global.yaml": global("44s")})
		must(t, serves(c, "late.example", last.Serial))
		c.Remove("late.yaml")
		within(t, time.Second, "the key leaves the generation before", forgotten(t, c, last))
		change(t, c, map[string]string{"global.yaml": global("45s")})
		must(t, forgotten(t, c, last))
	})
}

// HAProxy refuses a certificate at run time: a reload puts it right, and nothing of the key
// is seen anywhere.
func TestCertificateCommandFails(t *testing.T) {
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		pod, ca := harness.NewPod(t, "web-1"), harness.NewAuthority(t, "ca")
		pair := ca.Issue(t, "late.example")
		c := start(t, binary, map[string]string{
			"a.yaml": harness.Class + harness.Service("web") + harness.Slice("web", pod) + secured("late", "late.example"),
		}, "--log-level", "debug")
		name := "certs/" + model.DigestOf([]byte(pair.Certificate+pair.Key)).String() + ".pem"
		if answer := c.Runtime("new ssl cert " + name); !strings.Contains(answer, "New empty certificate store") {
			t.Fatalf("new ssl cert: %s", answer)
		}
		// An open transaction of somebody else.
		c.Runtime("set ssl cert " + name + " <<\n" + pair.Certificate + pair.Key + "\n")
		change(t, c, map[string]string{"late.yaml": pair.TLSSecret("late")})
		harness.Eventually(t, "the certificate is served", serves(c, "late.example", pair.Serial))
		private(t, c, pair)

		// A chain that is longer than HAProxy takes in one command (3.4: 128 kB).
		var chain strings.Builder
		long := ca.Issue(t, "late.example")
		chain.WriteString(long.Certificate)
		for range 300 {
			chain.WriteString(ca.Certificate)
		}
		reloads := c.Metric("sluice_reloads_total", "")
		before := c.State().Wanted
		c.Write("late.yaml", harness.Secret("late", map[string]string{"tls.crt": chain.String(), "tls.key": long.Key}))
		harness.Eventually(t, "the long chain is served", serves(c, "late.example", long.Serial))
		applied(t, c, before)
		if failed, more := c.Metric("sluice_runtime_commands_total", `result="error"`), c.Metric("sluice_reloads_total", "")-reloads; failed == 0 || more != 1 {
			t.Errorf("%v commands failed, %v reloads, want some and one", failed, more)
		}
		private(t, c, pair, long)
	})
}

// The default certificate comes from a Secret, which may come late.
func TestDefaultCertificate(t *testing.T) {
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		pod, ca := harness.NewPod(t, "web-1"), harness.NewAuthority(t, "ca")
		c := start(t, binary, map[string]string{
			"a.yaml": harness.Class + harness.Service("web") + harness.Slice("web", pod) + secured("none", "none.example"),
		}, "--default-ssl-certificate", "test/standard")
		_, status, err := serial(c, "none.example")
		if err != nil || status != 200 {
			t.Errorf("status %d: %v", status, err)
		}
		must(t, hasFinding(c, "SecretMissing", "certificate"))
		own, _, err := serial(c, "none.example")
		reloads := c.Metric("sluice_reloads_total", "")
		defer func() {
			if got := c.Metric("sluice_reloads_total", ""); got != reloads || err != nil {
				t.Errorf("%v reloads for a default certificate (%v)", got-reloads, err)
			}
		}()
		for range 2 {
			change(t, c, map[string]string{"standard.yaml": harness.Secret("standard", map[string]string{"tls.crt": "junk", "tls.key": "junk"})})
			must(t, serves(c, "none.example", own))
			must(t, hasFinding(c, "SecretInvalid", ""))
			pair := ca.Issue(t, "none.example")
			change(t, c, map[string]string{"standard.yaml": pair.TLSSecret("standard")})
			harness.Eventually(t, "the default certificate", serves(c, "none.example", pair.Serial))
			must(t, refuses(c, "unknown.example"))
			private(t, c, pair)
		}
	})
}
