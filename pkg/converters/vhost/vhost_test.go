package vhost_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-proxy/sluice/pkg/converters/gateway"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/converters/vhost"
)

const id = "v.h"

// rule is a rule of route "r" for one backend.
func rule(backend string, matches ...gateway.Match) vhost.Rule {
	return vhost.Rule{Route: snapshot.Key{Kind: snapshot.HTTPRoute, Namespace: "a", Name: "r"}, Matches: matches, Targets: []vhost.Target{{Backend: backend, Weight: 1}}}
}

func prefix(path string) gateway.Match  { return gateway.Match{Path: path} }
func exact(path string) gateway.Match   { return gateway.Match{Path: path, How: gateway.PathExact} }
func pattern(path string) gateway.Match { return gateway.Match{Path: path, How: gateway.PathPattern} }

func header(m gateway.Match, name, value string) gateway.Match {
	m.Headers = append(m.Headers, gateway.Condition{Name: name, Value: value})
	return m
}

// compile compiles rules in the order given and in the reverse one, which must make no
// difference.
func compile(t *testing.T, rules ...vhost.Rule) vhost.Program {
	t.Helper()
	for i := range rules {
		rules[i].Index = i
	}
	program := vhost.Compile(id, rules)
	reversed := make([]vhost.Rule, 0, len(rules))
	for i := range rules {
		reversed = append(reversed, rules[len(rules)-1-i])
	}
	if diff := cmp.Diff(program, vhost.Compile(id, reversed)); diff != "" {
		t.Errorf("another order of the rules (-one +other):\n%s", diff)
	}
	return program
}

// read is a list with all lists that it goes on with, as one.
func read(p vhost.Program, list string) string {
	var out []string
	for element := range strings.SplitSeq(p.Conditions[list], ";") {
		if element != "" && strings.Contains("@+", element[:1]) {
			element = element[:1] + "(" + read(p, element[1:]) + ")"
		}
		out = append(out, element)
	}
	return strings.Join(out, ";")
}

// action is what stands for a path, with lists read out.
func action(p vhost.Program, table map[string]string, path string) string {
	value := table[id+"#"+path]
	if list, found := strings.CutPrefix(value, "?"); found {
		return "?" + read(p, list)
	}
	return value
}

func TestPathsWithoutConditionsAreBackends(t *testing.T) {
	p := compile(t, rule("one", prefix("/")), rule("two", prefix("/x/y")), rule("three", exact("/x")))
	if got := action(p, p.Prefix, "/"); got != "one" {
		t.Errorf("/: %s", got)
	}
	if got := action(p, p.Prefix, "/x/y/"); got != "two" {
		t.Errorf("/x/y: %s", got)
	}
	if got := action(p, p.Exact, "/x"); got != "three" {
		t.Errorf("/x: %s", got)
	}
	if len(p.Conditions)+len(p.Weights) > 0 {
		t.Errorf("beside: %v %v", p.Conditions, p.Weights)
	}
}

// Method before headers, more headers before fewer, headers before query parameters, older
// routes before younger ones, then the order within the route.
func TestPrecedenceAmongEqualPaths(t *testing.T) {
	method := prefix("/")
	method.Method = "GET"
	query := prefix("/")
	query.Query = []gateway.Condition{{Name: "q", Value: "1"}}
	younger := rule("younger", header(prefix("/"), "a", "1"))
	younger.Created = time.Unix(2, 0)
	older := rule("older", header(prefix("/"), "b", "1"))
	older.Created = time.Unix(1, 0)
	p := compile(t,
		rule("all", prefix("/")), rule("never", prefix("/")), rule("query", query), younger, older,
		rule("two", header(header(prefix("/"), "a", "1"), "b", "2")), rule("method", method))
	want := "?m=GET>method;h=a=1&h=b=2>two;h=b=1>older;h=a=1>younger;q=q=1>query;>all"
	if got := action(p, p.Prefix, "/"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Where no condition of a path holds, the next shorter prefix decides; a path of its own goes on
// with the prefix that covers it.
func TestWhatAPathGoesOnWith(t *testing.T) {
	p := compile(t, rule("root", prefix("/")), rule("x", header(prefix("/x"), "a", "1")), rule("xy", header(prefix("/x/y"), "a", "2")),
		rule("exact", header(exact("/x/z"), "a", "3")))
	for path, want := range map[string]string{"/x/": "?a=1>x;>root", "/x/y/": "?a=2>xy;+(a=1>x;>root)"} {
		if got := strings.ReplaceAll(action(p, p.Prefix, path), "h=", ""); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	if got := strings.ReplaceAll(action(p, p.Exact, "/x/z"), "h=", ""); got != "?a=3>exact;+(a=1>x;>root)" {
		t.Errorf("/x/z: %s", got)
	}
}

// Regular expressions are compared before prefixes and after exact paths, whatever the path.
func TestPatternsStandBeforePrefixes(t *testing.T) {
	p := compile(t, rule("re", pattern("/v[0-9]")), rule("root", prefix("/v")), rule("exact", exact("/v1")))
	if got := action(p, p.Prefix, "/v/"); !strings.HasPrefix(got, "?@(p~") || !strings.HasSuffix(got, ">re);>root") {
		t.Errorf("/v: %s", got)
	}
	if got := action(p, p.Exact, "/v1"); got != "exact" {
		t.Errorf("/v1: %s", got)
	}
	if got := action(p, p.Prefix, "/"); !strings.HasSuffix(got, ">re)") {
		t.Errorf("/: %s, want the expression alone", got)
	}
}

// A list that is too long for one command goes on in another one; no rule is lost.
func TestLongLists(t *testing.T) {
	var rules []vhost.Rule
	for i := range 300 {
		rules = append(rules, rule("b"+strconv.Itoa(i), header(prefix("/"), "x-some-name", "value-"+strconv.Itoa(i))))
	}
	p := compile(t, rules...)
	for list, text := range p.Conditions {
		if len(text) > 4100 {
			t.Errorf("list %s has %d bytes", list, len(text))
		}
	}
	all := action(p, p.Prefix, "/")
	at := 0
	for i := range 300 {
		next := strings.Index(all[at:], "value-"+strconv.Itoa(i)+">b"+strconv.Itoa(i))
		if next < 0 {
			t.Fatalf("rule %d is missing behind byte %d of %d", i, at, len(all))
		}
		at += next
	}
}

func TestWeights(t *testing.T) {
	for _, c := range []struct {
		weights []int
		want    map[string]int // slots of each backend
	}{
		{[]int{70, 30, 0}, map[string]int{"b0": 7, "b1": 3}},
		{[]int{1, 1}, map[string]int{"b0": 1, "b1": 1}},
		{[]int{1_000_000, 1}, map[string]int{"b0": 999, "b1": 1}},
		{[]int{999_999, 500_000, 3}, map[string]int{"b0": 666, "b1": 333, "b2": 1}},
	} {
		var r vhost.Rule
		r.Matches = []gateway.Match{prefix("/")}
		for i, w := range c.weights {
			r.Targets = append(r.Targets, vhost.Target{Backend: "b" + strconv.Itoa(i), Weight: w})
		}
		p := compile(t, r)
		set := p.Prefix[id+"#/"]
		n, err := strconv.Atoi(p.Weights[set])
		if err != nil {
			t.Fatalf("%v: %q %v", c.weights, set, p.Weights)
		}
		got := map[string]int{}
		for slot := range n {
			got[p.Weights[set+"/"+strconv.Itoa(slot)]]++
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", c.weights, diff)
		}
	}
	alone := rule("one", prefix("/"))
	alone.Targets = append(alone.Targets, vhost.Target{Backend: "two", Weight: 0})
	if got := compile(t, alone).Prefix[id+"#/"]; got != "one" {
		t.Errorf("a single backend with a weight: %s", got)
	}
}

// A virtual host is guarded where the spelling of a path decides about a protection.
func TestGuard(t *testing.T) {
	protected := func(path gateway.Match) vhost.Rule {
		r := rule("p", path)
		r.Protects = true
		return r
	}
	for name, c := range map[string]struct {
		rules []vhost.Rule
		want  string
	}{
		"no protection":     {[]vhost.Rule{rule("a", prefix("/")), rule("b", prefix("/x"))}, ""},
		"all the same":      {[]vhost.Rule{protected(prefix("/"))}, ""},
		"beside open paths": {[]vhost.Rule{protected(prefix("/x")), rule("a", prefix("/"))}, "g"},
		"beside nothing":    {[]vhost.Rule{protected(prefix("/x"))}, "g"},
		"under a condition": {[]vhost.Rule{protected(header(prefix("/"), "a", "1"))}, "g"},
		"with a pattern":    {[]vhost.Rule{protected(prefix("/x")), rule("a", pattern("/.*"))}, "p"},
	} {
		if got := compile(t, c.rules...).Conditions[vhost.Guard(id)]; got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// What ids stand for never changes: other weights or conditions are other ids.
func TestIDsFollowFromWhatTheyStandFor(t *testing.T) {
	one := compile(t, rule("a", header(prefix("/"), "x", "1")))
	other := compile(t, rule("a", header(prefix("/"), "x", "2")))
	if one.Prefix[id+"#/"] == other.Prefix[id+"#/"] {
		t.Error("two lists have one id")
	}
	for list := range one.Conditions {
		if _, both := other.Conditions[list]; both {
			t.Errorf("list %s stands for two things", list)
		}
	}
	if a, b := vhost.ID("f", "l", "h"), vhost.ID("f", "l", "i"); strings.Split(a, ".")[0] != strings.Split(b, ".")[0] || a == b {
		t.Errorf("%s and %s are two virtual hosts of one listener", a, b)
	}
	if vhost.None("f", "l") == vhost.None("f", "m") {
		t.Error("two listeners have one id")
	}
}
