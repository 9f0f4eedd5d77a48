package pattern

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// matches runs an automaton as the Lua does.
func matches(t interface{ Fatal(...any) }, code, text string) bool {
	parts := strings.Split(code, ":")
	if len(parts) != 5 {
		t.Fatal("not five parts: ", code)
	}
	starts, class, next, accept := numbers(parts[0]), numbers(parts[1]), numbers(parts[3]), numbers(parts[4])
	classes, _ := strconv.Atoi(parts[2])
	state := 1
	for i := range len(text) {
		of := 0
		for j, start := range starts {
			if int(text[i]) >= start {
				of = class[j]
			}
		}
		if state = next[(state-1)*classes+of-1]; state == 0 {
			return false
		}
	}
	for _, a := range accept {
		if a == state {
			return true
		}
	}
	return false
}

func numbers(text string) []int {
	var list []int
	for part := range strings.SplitSeq(text, ",") {
		if n, err := strconv.Atoi(part); err == nil {
			list = append(list, n)
		}
	}
	return list
}

func TestWholeTexts(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"/v[0-9]+", "/v1", true},
		{"/v[0-9]+", "/xv1y", false},
		{"/v[0-9]+", "/v1/", false},
		{"a|bc", "bc", true},
		{"a|bc", "abc", false},
		{"^/a$", "/a", true},
		{"a^b", "ab", false},
		{"$", "", true},
		{"", "", true},
		{"", "a", false},
		{"(?i)Foo", "fOO", true},
		{"[^/]+", "\xc3\xa4", true},
		{"[^/]+", "a/b", false},
		{"x{2,3}", "xxx", true},
		{"x{2,3}", "xxxx", false},
		{"(a+)+", strings.Repeat("a", 5000) + "!", false},
		{`/\d{4}-\d\d`, "/2026-11", true},
	} {
		code, err := Compile(c.pattern)
		if err != nil {
			t.Errorf("%s: %v", c.pattern, err)
			continue
		}
		if got := matches(t, code, c.text); got != c.want {
			t.Errorf("%s matches %.20q: %v (%s)", c.pattern, c.text, got, code)
		}
	}
}

func TestRefusedPatterns(t *testing.T) {
	for pattern, part := range map[string]string{
		"/(([a-z]{2})?/news/?$":     "missing closing )",
		"*.example.com":             "missing argument to repetition operator",
		`\bfoo`:                     "word boundaries",
		`(a)\1`:                     "invalid escape sequence",
		"(?=a)":                     "invalid or unsupported Perl syntax",
		"(x?){1000}":                "too complex",
		strings.Repeat("a", 2000):   "longer than",
		"[01]*1[01]{12}":            "too complex",
		"a)(b":                      "unexpected )",
		"((((a{9}){9}){9}){9}){9}$": "invalid repeat count",
	} {
		if code, err := Compile(pattern); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%.30s: %v, %.60s; want an error with %q", pattern, err, code, part)
		}
	}
}

// TestLikeRegexp compares with the package that users of RE2 know.
func TestLikeRegexp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		expr := rapid.StringMatching(`([ab./^$]|\[[ab]{1,2}\]|\[\^a\]|\(a\|b\)|\([ab]{0,2}\)[*+?]|[ab][*+?]){0,8}`).Draw(t, "pattern")
		text := rapid.StringMatching(`[abc/]{0,8}`).Draw(t, "text")
		want, err := regexp.Compile(`^(?:` + expr + `)$`)
		code, err2 := Compile(expr)
		if (err == nil) != (err2 == nil) {
			t.Fatalf("%s: %v, regexp says %v", expr, err2, err)
		}
		if err == nil && matches(t, code, text) != want.MatchString(text) {
			t.Fatalf("%s on %q: %v", expr, text, !want.MatchString(text))
		}
	})
}
