package settings

import (
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/sluice-proxy/sluice/pkg/haproxy/token"
)

// broken are texts that no option takes that fails closed: empty, junk, junk that a shell, a
// configuration or a template might evaluate, and control characters.
var broken = []string{
	"", " ", "junk !", "TRUE ", "10.0.0.0/8,junk", "junk,10.0.0.0/8", "ns/na me", "users\nuser x", "true\n", "true\x00", "\xff",
	"10.0.0.1\u2028", "-1", "$HOME", "%[env(HOME)]", `"`, "a b", "}", "#",
}

// words are broken too, but where a name may stand.
var words = []string{"maybe", "ten", "1e9", "99999999999999999999", "8mm"}

func TestProtectionWithABrokenTextNeverOpensAPath(t *testing.T) {
	for _, o := range Options() {
		texts := broken
		if o.Type != SecretRef && o.Type != Hostname && o.Name != "secure-sni" {
			texts = slices.Concat(broken, words)
		}
		if !o.FailClosed {
			continue
		}
		for _, text := range texts {
			for where, set := range map[string]func() (*Set, string){
				"an Ingress": func() (*Set, string) {
					s, f := globals(t).Override(route, layer("web", o.Name, text))
					return s, codes(f)
				},
				"the global ConfigMap": func() (*Set, string) {
					s, f := Globals(layer("globals", o.Name, text))
					return s, codes(f)
				},
			} {
				s, found := set()
				if found != "OptionInvalid" && found != "ControlCharacter" {
					t.Errorf("%s is %q on %s: findings %q", o.Name, text, where, found)
				}
				if o.Safe != "" && s.Denied() == nil && s.Text(o.Name) == o.Safe {
					continue
				}
				if codes(s.Denied()) != "ProtectionDenied" {
					t.Errorf("%s is %q on %s: not denied", o.Name, text, where)
				}
			}
		}
	}
}

func TestControlCharactersAreRefusedInEveryOption(t *testing.T) {
	for _, o := range Options() {
		for _, bad := range []string{"\n", "\r", "\x00", "\t", "\x7f", "\u0085", "\u2028", "\u2029", "\xff"} {
			if bad == "\n" && (o.Type == Headers || o.Type == Names) {
				continue // lines of a list
			}
			text := o.Default + bad + "server evil 127.0.0.1:1"
			s, findings := Globals(layer("globals", o.Name, text))
			if codes(findings) != "ControlCharacter" {
				t.Errorf("%s with %q: findings %v", o.Name, bad, findings)
			}
			if got := s.Text(o.Name); strings.Contains(got, "evil") {
				t.Errorf("%s with %q: the value is %q", o.Name, bad, got)
			}
		}
	}
}

// anyText draws what a user may write, with pieces that options know and that HAProxy does.
func anyText() *rapid.Generator[string] {
	pieces := []string{
		"true", "10.0.0.0/8", "!", ",", "\n", " ", ":", "/", "X-A: b", "https://a.example", "5s", "100", "m", "unlimited", "hdr(", ")", "name", "=",
		"%[env(HOME)]", "$HOME", `"`, "'", `\`, "#", "}", "{", ";", "\r", "\x00", "\u2028", "é", "*",
	}
	for _, o := range table {
		pieces = append(pieces, o.Default)
		pieces = append(pieces, o.Values...)
	}
	joined := rapid.Map(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 5), func(s []string) string { return strings.Join(s, "") })
	return rapid.OneOf(joined, rapid.String())
}

// checkText holds for one option and any text: no panic; either findings or a value that
// is free of control characters and is read back as itself; a protection is honoured,
// replaced by its safe value, or denied.
func checkText(t interface{ Fatalf(string, ...any) }, o Option, text string) {
	base, _ := Globals(Layer{})
	s, findings := base.with(AnyScope, true, []Layer{layer("web", o.Name, text)})
	value := s.values[index[o.Name]]
	if len(findings) > 0 {
		if o.FailClosed && s.Denied() == nil && value.text != o.Safe {
			t.Fatalf("%s is %q: it is open", o.Name, text)
		}
		return
	}
	for _, one := range append([]string{value.text}, value.names...) {
		allowed := ""
		if o.Type == Headers {
			allowed = "\n"
		}
		if err := token.CheckText(one, allowed); err != nil {
			t.Fatalf("%s is %q: the value is %q: %v", o.Name, text, one, err)
		}
	}
	for _, h := range value.headers {
		if strings.IndexFunc(h.Name+h.Value, unicode.IsControl) >= 0 || h.Name == "" || h.Value == "" {
			t.Fatalf("%s is %q: it has the header %q", o.Name, text, h)
		}
	}
	if value.text == "" && o.FailClosed {
		t.Fatalf("%s is %q: it is set to nothing", o.Name, text)
	}
	again := mustRead(&o, value.text)
	if o.Type == Names && value.text == "" || o.Name == "syslog-endpoint" {
		return // "none" and the empty list have no other text
	}
	if diff := cmp.Diff(value.text, again.text); diff != "" || !value.equal(again) && o.Type != Names {
		t.Fatalf("%s is %q: its canonical text is read as another value: %s", o.Name, text, diff)
	}
}

func TestAnyTextIsReadOrRefused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		checkText(t, rapid.SampledFrom(Options()).Draw(t, "option"), anyText().Draw(t, "text"))
	})
}

func FuzzOption(f *testing.F) {
	for i, o := range table {
		f.Add(uint(i), o.Default)
	}
	f.Add(uint(index["request-set-headers"]), "Host: x\nX-A: %[env(HOME)]")
	f.Add(uint(index["allowlist-source-range"]), "10.0.0.0/8,!::1")
	f.Fuzz(func(t *testing.T, i uint, text string) { checkText(t, table[i%uint(len(table))], text) })
}

// TestLayersCanBePutOnOneByOne holds that it makes no difference whether layers come
// together or one after the other.
func TestLayersCanBePutOnOneByOne(t *testing.T) {
	base, _ := Globals(Layer{})
	rapid.Check(t, func(t *rapid.T) {
		draw := func(object string) Layer {
			l := layer(object)
			for range rapid.IntRange(0, 4).Draw(t, "keys") {
				l.Raw[rapid.SampledFrom(Options()).Draw(t, "option").Name] = anyText().Draw(t, "text")
			}
			return l
		}
		a, b := draw("a"), draw("b")
		together, findings := base.Override(AnyScope, a, b)
		first, findingsA := base.Override(AnyScope, a)
		second, findingsB := first.Override(AnyScope, b)
		if !together.Equal(second, AnyScope) {
			t.Fatalf("the values differ")
		}
		if diff := cmp.Diff(findings, append(findingsA, findingsB...), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("the findings differ: %s", diff)
		}
		if diff := cmp.Diff(together.Denied(), second.Denied(), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("what is denied differs: %s", diff)
		}
	})
}
