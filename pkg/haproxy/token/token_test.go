package token

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// nasty are texts that mean something to HAProxy, to a shell or to a template.
var nasty = []string{
	`%[env(HOME)]`, `%%[env(HOME)]`, `%{+Q}o`, `%`, `%%`, `100%`, `$HOME`, `${HOME}`, `"$HOME"`, `"`, `'`, `''`, `"'"`, `\`, `\\`, `\'`, `\"`,
	`\x41`, `\n`, `#`, `a # b`, `} { if TRUE`, `x or TRUE`, `a b`, `a  b`, `a;b`, `a <<b`, `<<`, `a<<`, `]`, `)`, `,`, `é`, "\u00a0", `&<>`, "`id`", `$(id)`, `�`,
	`it's "quoted" \ and 50% #off for $USER`, `@1`, `-`, `*`, `!`,
}

// text draws a string: nasty pieces, any Unicode, or any bytes.
func text() *rapid.Generator[string] {
	pieces := rapid.Map(rapid.SliceOfN(rapid.OneOf(rapid.SampledFrom(nasty), rapid.SampledFrom([]string{" ", "x", "\t", "\n", "\r", "\x00", "\x7f", "\u0085", "\u2028", "\u2029", "\xff", "\xef\xbf"})), 0, 6),
		func(s []string) string { return strings.Join(s, "") })
	bytes := rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })
	return rapid.OneOf(pieces, rapid.String(), bytes)
}

// must holds what every encoder does: a text with a control character is refused, and one
// without is refused only where refusable says so.
func must(t interface {
	Helper()
	Fatalf(string, ...any)
}, s string, err error, refusable bool) bool {
	t.Helper()
	clean := utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool {
		return r < 0x20 || r >= 0x7f && r <= 0x9f || r == 0x2028 || r == 0x2029
	}) < 0
	switch {
	case !clean && err == nil:
		t.Fatalf("%q was not refused", s)
	case clean && err != nil && !refusable:
		t.Fatalf("%q was refused: %v", s, err)
	}
	return err == nil
}

// check holds for one text what the encoders promise.
func check(t interface {
	Helper()
	Fatalf(string, ...any)
}, s string) {
	t.Helper()
	inLine := func(encoded, want string) string {
		t.Helper()
		words, err := tokenizeLine("keyword " + encoded + " last")
		if err != nil || len(words) != 3 || words[0] != "keyword" || words[2] != "last" {
			t.Fatalf("%q was encoded as %s, which is read as %q, %v", s, encoded, words, err)
		}
		if want != "" && words[1] != want {
			t.Fatalf("%q was encoded as %s, which is read as %q", s, encoded, words[1])
		}
		return words[1]
	}
	if word, err := Word(s); must(t, s, err, true) {
		inLine(word, s)
	}
	if quoted, err := Quoted(s); must(t, s, err, false) {
		if got := inLine(quoted, ""); got != s {
			t.Fatalf("%q was encoded as %s, which is read as %q", s, quoted, got)
		}
	}
	if format, err := LogFormat(s); must(t, s, err, false) {
		if got, err := evaluate(inLine(format, "")); got != s || err != nil {
			t.Fatalf("%q was encoded as %s, which comes to %q, %v", s, format, got, err)
		}
	}
	key, keyErr := MapKey(s)
	if must(t, s, keyErr, true) {
		if got, value, ok := readMapLine(key + " v"); !ok || got != s || value != "v" {
			t.Fatalf("key %q is read as %q with value %q", s, got, value)
		}
	}
	if value, err := MapValue(s); must(t, s, err, true) {
		if key, got, ok := readMapLine("k " + value); !ok || key != "k" || got != s {
			t.Fatalf("value %q is read as key %q with value %q", s, key, got)
		}
	}
	if word, err := CLIWord(s); must(t, s, err, s == "") {
		commands, err := readCommand("set map m " + word + " last; show info")
		want := [][]string{{"set", "map", "m", s, "last"}, {"show", "info"}}
		if err != nil || !cmp.Equal(commands, want) {
			t.Fatalf("%q was encoded as %s, which is read as %q, %v", s, word, commands, err)
		}
	}
	checkKeys(t, s)
}

// checkKeys holds for one text, as host and as path, what the route keys promise.
func checkKeys(t interface {
	Helper()
	Fatalf(string, ...any)
}, s string) {
	t.Helper()
	for name, make := range map[string]func() (string, error){
		"HostKey":    func() (string, error) { key, _, err := HostKey(s); return key, err },
		"DefaultKey": func() (string, error) { return DefaultKey(s) },
		"ExactKey":   func() (string, error) { return ExactKey("host", "/"+s) },
		"PrefixKey":  func() (string, error) { return PrefixKey("host", "/"+s) },
		"BeginKey":   func() (string, error) { return BeginKey("host", "/"+s) },
	} {
		if key, err := make(); must(t, s, err, true) {
			if got, err := MapKey(key); got != key || err != nil {
				t.Fatalf("%s of %q is %q, which is not a key: %v", name, s, key, err)
			}
		}
	}
}

func TestNastyTextsAreReadBackAsTheyWere(t *testing.T) {
	for _, s := range nasty {
		t.Run(s, func(t *testing.T) { check(t, s) })
	}
}

func TestAnyTextIsReadBackOrRefused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { check(t, text().Draw(t, "text")) })
}

func FuzzTokens(f *testing.F) {
	for _, s := range nasty {
		f.Add(s)
	}
	f.Add("a\nb")
	f.Add("\xff")
	f.Fuzz(func(t *testing.T, s string) { check(t, s) })
}

func TestNamesOfDifferentBackendsDiffer(t *testing.T) {
	part := rapid.OneOf(rapid.StringMatching(`[a-z0-9._:-]{0,6}`), text(), rapid.StringMatching(`[a_:-]{100,120}`))
	rapid.Check(t, func(t *rapid.T) {
		a := [3]string{part.Draw(t, "namespace"), part.Draw(t, "service"), part.Draw(t, "port")}
		b := [3]string{part.Draw(t, "other namespace"), part.Draw(t, "other service"), part.Draw(t, "other port")}
		nameA, nameB := Name(a[0], a[1], a[2]), Name(b[0], b[1], b[2])
		if (a == b) != (nameA == nameB) {
			t.Fatalf("%q is named %s, %q is named %s", a, nameA, b, nameB)
		}
		if word, err := Word(nameA); word != nameA || err != nil || len(nameA) > maxName {
			t.Fatalf("%q is named %s: %v", a, nameA, err)
		}
	})
}

func TestNameOfUsualBackendIsReadable(t *testing.T) {
	if got := Name("shop", "web-app", "8080"); got != "shop_web-app_8080" {
		t.Errorf("got %s", got)
	}
	if a, b := Name("a", "b-c", "http"), Name("a-b", "c", "http"); a == b {
		t.Errorf("both are named %s", a)
	}
}

func TestRouteKeys(t *testing.T) {
	two := func(key string, err error) string {
		if err != nil {
			return "refused"
		}
		return key
	}
	for name, c := range map[string]struct{ got, want string }{
		"an exact path":                          {two(ExactKey("a.example", "/foo")), "a.example#/foo"},
		"a prefix ends in a slash":               {two(PrefixKey("a.example", "/foo")), "a.example#/foo/"},
		"a prefix with a slash has no second":    {two(PrefixKey("a.example", "/foo/")), "a.example#/foo/"},
		"the prefix of all paths":                {two(PrefixKey("a.example", "/")), "a.example#/"},
		"the beginning of a path":                {two(BeginKey("*.example", "/foo")), "*.example#/foo"},
		"the default of a host":                  {two(DefaultKey("a.example")), "a.example#"},
		"rules without a host":                   {two(DefaultKey(AnyHost)), "*#"},
		"a host in capitals":                     {two(DefaultKey("A.example")), "refused"},
		"a host with a path in it":               {two(DefaultKey("a#/b")), "refused"},
		"a host with an empty label":             {two(DefaultKey("a..b")), "refused"},
		"a star in the middle":                   {two(DefaultKey("a.*.b")), "refused"},
		"a path that does not begin with /":      {two(ExactKey("a", "foo")), "refused"},
		"a path with a fragment":                 {two(ExactKey("a", "/foo#bar")), "refused"},
		"a path that is not in its escaped form": {two(ExactKey("a", "/é")), "refused"},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %q, want %q", name, c.got, c.want)
		}
	}
	if key, wildcard, err := HostKey("*.example.com"); key != "example.com" || !wildcard || err != nil {
		t.Errorf("HostKey of a wildcard: %q, %v, %v", key, wildcard, err)
	}
	if key, wildcard, err := HostKey("example.com"); key != "example.com" || wildcard || err != nil {
		t.Errorf("HostKey of a name: %q, %v, %v", key, wildcard, err)
	}
}

func TestControlErrorNamesTheByte(t *testing.T) {
	for text, want := range map[string]string{
		"ab\ncd":   "the control character U+000A at byte 2",
		"é\u2028":  "the control character U+2028 at byte 2",
		"a\xff":    "invalid UTF-8 at byte 1",
		"\xef\xbf": "invalid UTF-8 at byte 0",
		"ok �":     "",
	} {
		got := ""
		if err := CheckText(text, ""); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	if err := CheckText("a\nb", "\n"); err != nil {
		t.Errorf("an allowed line feed: %v", err)
	}
}
