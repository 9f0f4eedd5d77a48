package settings

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// layer is one object's options, given as name and text in turn.
func layer(object string, pairs ...string) Layer {
	l := Layer{Origin: model.Origin{Kind: "Ingress", Namespace: "shop", Name: object}, Raw: map[string]string{}}
	for i := 0; i < len(pairs); i += 2 {
		l.Raw[pairs[i]] = pairs[i+1]
	}
	return l
}

// globals is the set of a global ConfigMap without mistakes.
func globals(t *testing.T, pairs ...string) *Set {
	t.Helper()
	s, findings := Globals(layer("globals", pairs...))
	if len(findings) > 0 {
		t.Fatalf("the ConfigMap has findings: %v", findings)
	}
	return s
}

// codes are the codes of findings, in their order.
func codes(findings []report.Finding) string {
	var list []string
	for _, f := range findings {
		list = append(list, string(f.Code))
	}
	return strings.Join(list, " ")
}

const route = Frontend | Host | Path | Backend

func TestDefaultsAreThoseOfTheDesign(t *testing.T) {
	s := globals(t)
	for name, want := range map[string]string{
		"timeout-connect": "1000ms", "balance-algorithm": "roundrobin", "ssl-redirect": "true", "ssl-redirect-code": "302",
		"syslog-endpoint": "stdout", "proxy-body-size": "unlimited", "path-type": "begin", "affinity": "", "allowlist-source-range": "",
		"tls-alpn": "h2,http/1.1", "timeout-stop": "600000ms", "backend-protocol": "h1", "secure-verify-ca-secret": "",
	} {
		if got := s.Text(name); got != want {
			t.Errorf("%s is %q, expected %q", name, got, want)
		}
	}
	if s.Denied() != nil || s.IsSet("ssl-redirect") || !s.Origin("ssl-redirect").IsZero() {
		t.Error("defaults deny, are set, or come from somewhere")
	}
}

func TestLaterLayersWin(t *testing.T) {
	s := globals(t, "timeout-server", "10s", "hsts", "false", "maxconn-server", "7")
	ingress := layer("web", "timeout-server", "20s", "proxy-body-size", "8m")
	service := layer("svc", "timeout-server", "30s")
	got, findings := s.Override(route, ingress, service)
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	if d := got.Duration("timeout-server"); d != 30*time.Second {
		t.Errorf("timeout-server is %v", d)
	}
	if got.Size("proxy-body-size") != 8<<20 || got.Bool("hsts") || got.Int("maxconn-server") != 7 {
		t.Error("a lower layer was lost")
	}
	if !got.IsSet("timeout-server") || got.IsSet("hsts") || got.IsSet("cors-enable") {
		t.Error("IsSet is about the layers of Override only")
	}
	if o := got.Origin("timeout-server"); o.Name != "svc" || o.Field != "timeout-server" {
		t.Errorf("timeout-server comes from %v", o)
	}
	if s.Duration("timeout-server") != 10*time.Second {
		t.Error("Override changed its receiver")
	}
}

func TestOverrideWithoutKeysIsFree(t *testing.T) {
	s := globals(t)
	empty := Layer{Raw: map[string]string{}}
	var got *Set
	if n := testing.AllocsPerRun(100, func() { got, _ = s.Override(route, empty, empty) }); n != 0 || got != s {
		t.Errorf("%v allocations, the receiver itself: %v", n, got == s)
	}
	got, findings := s.Override(route, layer("web", "no-such-option", "x"))
	if got != s || len(findings) != 1 {
		t.Error("a key without effect made a new set")
	}
}

func TestKeysThatAreNotOptions(t *testing.T) {
	for name, c := range map[string]struct {
		key, text string
		want      report.Code
		says      string
		denied    bool
	}{
		"a typing mistake names the nearest":     {"timeout-servr", "1s", report.OptionUnknown, "timeout-server", false},
		"swapped letters too":                    {"blaance-algorithm", "first", report.OptionUnknown, "balance-algorithm", false},
		"a name like no other names the page":    {"x", "1", report.OptionUnknown, "docs/options.md", false},
		"a long name costs nothing":              {strings.Repeat("a", 5000), "", report.OptionUnknown, "docs/options.md", false},
		"a name with a line feed is quoted":      {"a\nb", "", report.OptionUnknown, `\n`, false},
		"a global option on an Ingress":          {"max-connections", "5", report.OptionScope, "global ConfigMap", false},
		"a global option that is not offered":    {"acme-emails", "a@example.com", report.OptionScope, "global ConfigMap", false},
		"an option that is not offered":          {"service-upstream", "true", report.OptionUnsupported, "go to the pods", false},
		"a snippet":                              {"config-backend", "http-request deny", report.OptionUnsupported, "refused", false},
		"a protection that is not offered":       {"auth-url", "http://auth", report.OptionUnsupported, "denied", true},
		"client certificates":                    {"auth-tls-secret", "ca", report.OptionUnsupported, "denied", true},
		"a protection that is switched off":      {"ssl-passthrough", "false", report.OptionUnsupported, "no effect", false},
		"a control character where none matters": {"service-upstream", "a\nb", report.OptionUnsupported, "no effect", false},
	} {
		t.Run(name, func(t *testing.T) {
			s, findings := globals(t).Override(route, layer("web", c.key, c.text))
			if codes(findings) != string(c.want) || !strings.Contains(findings[0].Message, c.says) {
				t.Errorf("findings are %v", findings)
			}
			if denied := s.Denied(); (len(denied) == 1) != c.denied {
				t.Errorf("denied: %v", denied)
			}
		})
	}
}

func TestEveryOptionMayStandInTheGlobalConfigMap(t *testing.T) {
	for _, o := range Options() {
		if o.Default == "" {
			continue
		}
		if _, findings := Globals(layer("globals", o.Name, o.Default)); len(findings) > 0 {
			t.Errorf("%s: %v", o.Name, findings)
		}
	}
}

func TestAliasesAreTheSameOption(t *testing.T) {
	s, findings := globals(t).Override(route, layer("web", "whitelist-source-range", "10.0.0.1"))
	if len(findings) > 0 || s.Text("allowlist-source-range") != "10.0.0.1/32" || s.Text("whitelist-source-range") != "10.0.0.1/32" {
		t.Errorf("findings %v, list %q", findings, s.Text("allowlist-source-range"))
	}
	if o := s.Origin("allowlist-source-range"); o.Field != "whitelist-source-range" {
		t.Errorf("it comes from %v, not from what the user wrote", o)
	}
	s, findings = globals(t).Override(route, layer("web", "whitelist-source-range", "10.0.0.0/8", "allowlist-source-range", "10.0.0.1"))
	if codes(findings) != "OptionConflict" || s.Text("allowlist-source-range") != "10.0.0.1/32" {
		t.Errorf("findings %v, list %q", findings, s.Text("allowlist-source-range"))
	}
}

func TestOriginsCarryThePrefix(t *testing.T) {
	l := layer("web", "hsts", "maybe")
	l.Origin.Field = "haproxy-ingress.github.io/"
	_, findings := globals(t).Override(route, l)
	if len(findings) != 1 || findings[0].Object.Field != "haproxy-ingress.github.io/hsts" {
		t.Error(findings)
	}
}

func TestBadTextKeepsWhatStoodBelow(t *testing.T) {
	s, findings := globals(t).Override(route, layer("web", "timeout-server", "20s"), layer("svc", "timeout-server", "soon"))
	if codes(findings) != "OptionInvalid" || s.Duration("timeout-server") != 20*time.Second {
		t.Errorf("findings %v, timeout-server %v", findings, s.Duration("timeout-server"))
	}
	if o := s.Origin("timeout-server"); o.Name != "web" {
		t.Errorf("it comes from %v", o)
	}
}

func TestHigherLayerRepairsADeniedOption(t *testing.T) {
	s, _ := globals(t).Override(route, layer("web", "allowlist-source-range", "junk"))
	if codes(s.Denied()) != "ProtectionDenied" || !s.IsSet("allowlist-source-range") {
		t.Errorf("denied: %v", s.Denied())
	}
	s, _ = s.Override(Path|Backend, layer("svc", "allowlist-source-range", "10.0.0.1"))
	if s.Denied() != nil {
		t.Errorf("denied: %v", s.Denied())
	}
}

func TestEqualIsAboutValuesOfAScope(t *testing.T) {
	a := globals(t, "timeout-server", "60s", "max-connections", "100")
	for name, c := range map[string]struct {
		other *Set
		scope Scope
		want  bool
	}{
		"the same time written differently": {globals(t, "timeout-server", "1m", "max-connections", "100"), AnyScope, true},
		"another value of the scope":        {globals(t, "timeout-server", "59s"), Backend, false},
		"another value of another scope":    {globals(t, "timeout-server", "60s", "max-connections", "7"), Backend, true},
		"another value of any scope":        {globals(t, "timeout-server", "60s", "max-connections", "7"), AnyScope, false},
	} {
		if got := a.Equal(c.other, c.scope); got != c.want {
			t.Errorf("%s: equal is %v", name, got)
		}
	}
	denied, _ := a.Override(route, layer("web", "auth-url", "http://a"))
	if a.Equal(denied, route) || !a.Equal(denied, Global) {
		t.Error("a protection that is not offered makes a difference, for paths")
	}
}

func TestDigestOfALayerIsThatOfItsTexts(t *testing.T) {
	a, b := layer("one", "hsts", "true", "app-root", "/x"), layer("two", "app-root", "/x", "hsts", "true")
	if a.Digest() != b.Digest() {
		t.Error("the object or the order counts")
	}
	if a.Digest() == layer("one", "hsts", "true", "app-root", "/y").Digest() {
		t.Error("a text does not count")
	}
}

func TestWrongNamesAreBugs(t *testing.T) {
	s := globals(t)
	for name, call := range map[string]func(){
		"an unknown name": func() { s.Bool("no-such-option") },
		"a wrong type":    func() { s.Bool("timeout-server") },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s did not panic", name)
				}
			}()
			call()
		}()
	}
}

func TestTableIsSortedAndLookedUp(t *testing.T) {
	all := Options()
	if !slices.IsSortedFunc(all, func(a, b Option) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("Options is not sorted")
	}
	if o, found := Lookup("headers"); !found || o.Name != "request-set-headers" || !o.OnService {
		t.Errorf("Lookup of an alias: %v, %v", o.Name, found)
	}
	if o, _ := Lookup("path-type"); o.OnService {
		t.Error("path-type is allowed on a Service")
	}
	if got := Nearest("cors-alow-origins"); !cmp.Equal(got, []string{"cors-allow-origin"}) {
		t.Errorf("Nearest: %v", got)
	}
}

func TestUnsupportedTextsHaveTheirOwnFinding(t *testing.T) {
	for name, c := range map[string]struct {
		key, text string
		denied    bool
	}{
		"paths by regex":     {"path-type", "regex", false},
		"FastCGI":            {"backend-protocol", "fcgi", true},
		"static round robin": {"balance-algorithm", "static-rr", false},
		"credentials by file": {
			"auth-secret", "file:///etc/passwd", true,
		},
	} {
		s, findings := globals(t).Override(route, layer("web", c.key, c.text))
		if codes(findings) != "OptionUnsupported" || (s.Denied() != nil) != c.denied {
			t.Errorf("%s: findings %v, denied %v", name, findings, s.Denied())
		}
	}
}
