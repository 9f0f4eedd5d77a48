package vhost

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-proxy/sluice/pkg/converters/gateway"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/pattern"
)

// Rule is a rule that stands in the virtual host.
type Rule struct {
	Route   snapshot.Key
	Created time.Time // of the route
	Index   int       // within the route
	Matches []gateway.Match
	Targets []Target // never empty
	// Protects: a backend of it keeps somebody out.
	Protects bool
}

// Target is a backend, by name, with its weight.
type Target struct {
	Backend string
	Weight  int
	Limit   int // milliseconds for all tries of a request together; 0: none
}

// action leads to the backend.
func (t *Target) action() string {
	if t.Limit == 0 {
		return t.Backend
	}
	return "^" + strconv.Itoa(t.Limit) + "^" + t.Backend
}

// Program is what the tables hold of a virtual host, by key.
type Program struct{ Exact, Prefix, Conditions, Weights map[string]string }

// ID names the virtual host of a listener's host and a host pattern in a frontend. The part
// before the "." is the same for all virtual hosts of the listener.
func ID(frontend, listener, host string) string {
	of := model.NewHasher().Str(frontend, listener).Digest().String()[:digits]
	return of + "." + model.NewHasher().Str(host).Digest().String()[:digits]
}

// None stands in the table of hosts for a listener that has no route for a host.
func None(frontend, listener string) string {
	of, _, _ := strings.Cut(ID(frontend, listener, ""), ".")
	return of + ".-"
}

// Clients is the key under which the table of conditions says that all clients of a listener
// have shown a certificate.
func Clients(frontend, listener string) string {
	of, _, _ := strings.Cut(ID(frontend, listener, ""), ".")
	return "clients/" + of
}

// digits of each half of an id; tenants choose hosts, so there are enough of them.
const digits = 16

// maxList bounds a list, so that a change of it is one command: a longer one goes on in
// another one.
const maxList = 4000

// Compile makes the tables of a virtual host of the rules that stand in it, in any order.
func Compile(id string, rules []Rule) Program {
	c := &compiler{
		id:    id,
		out:   Program{Exact: map[string]string{}, Prefix: map[string]string{}, Conditions: map[string]string{}, Weights: map[string]string{}},
		exact: map[string][]candidate{}, prefix: map[string][]candidate{}, tails: map[string]string{},
		actions: map[string]bool{},
	}
	for i := range rules {
		c.add(&rules[i])
	}
	c.compile()
	c.guard()
	return c.out
}

// Guard is the key under which the table of conditions says that a virtual host is guarded.
func Guard(id string) string { return "guard/" + id }

// What Guard says: the spelling of a path decides about a protection, and whether regular
// expressions read it, too.
const (
	guarded         = "g"
	guardedPatterns = "p"
)

// guard notes a virtual host where a path that can be read in two ways may go round a
// protection: a rule protects, and not every path leads to the same backend.
func (c *compiler) guard() {
	_, all := c.elements(c.prefix["/"])
	switch {
	case !c.protects || all && len(c.actions) == 1:
	case len(c.patterns) > 0:
		c.out.Conditions[Guard(c.id)] = guardedPatterns
	default:
		c.out.Conditions[Guard(c.id)] = guarded
	}
}

// candidate is one match of one rule.
type candidate struct {
	rule   *Rule
	match  *gateway.Match
	at     int
	path   string // automaton of its path; empty: none
	action string
}

type compiler struct {
	id            string
	out           Program
	exact, prefix map[string][]candidate // by path
	patterns      []candidate
	protects      bool
	actions       map[string]bool
	tails         map[string]string // by prefix: the element that a list goes on with there
	patternList   string            // element that reads the patterns; empty: there are none
}

func (c *compiler) add(rule *Rule) {
	action := c.action(rule.Targets)
	c.actions[action] = true
	c.protects = c.protects || rule.Protects
	for i := range rule.Matches {
		match := &rule.Matches[i]
		candidate := candidate{rule: rule, match: match, at: i, action: action}
		switch match.How {
		case gateway.PathExact:
			c.exact[match.Path] = append(c.exact[match.Path], candidate)
		case gateway.PathPrefix:
			c.prefix[match.Path] = append(c.prefix[match.Path], candidate)
		default:
			automaton, err := pattern.Compile(match.Path)
			if err != nil {
				continue // the converter has said so
			}
			candidate.path = automaton
			c.patterns = append(c.patterns, candidate)
		}
	}
}

// compare is the precedence among candidates of equal paths.
func compare(a, b candidate) int {
	return cmp.Or(
		-cmp.Compare(len(a.match.Method), 0)+cmp.Compare(len(b.match.Method), 0),
		-cmp.Compare(len(a.match.Headers), len(b.match.Headers)),
		-cmp.Compare(len(a.match.Query), len(b.match.Query)),
		a.rule.Created.Compare(b.rule.Created),
		cmp.Compare(a.rule.Route.Namespace, b.rule.Route.Namespace),
		cmp.Compare(a.rule.Route.Name, b.rule.Route.Name),
		cmp.Compare(a.rule.Route.Kind, b.rule.Route.Kind),
		cmp.Compare(a.rule.Index, b.rule.Index),
		cmp.Compare(a.at, b.at),
	)
}

func (c *compiler) compile() {
	if len(c.patterns) > 0 {
		elements, _ := c.elements(c.patterns)
		c.patternList = "@" + c.list(elements)
		if c.prefix["/"] == nil {
			c.prefix["/"] = nil // all paths have to be compared
		}
	}
	paths := make([]string, 0, len(c.prefix))
	for path := range c.prefix {
		paths = append(paths, path)
	}
	slices.SortFunc(paths, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	for _, path := range paths { // what a path goes on with is shorter
		elements := c.own(c.prefix[path], c.cover(path))
		tail := c.tail(elements)
		c.tails[path] = tail
		if c.patternList != "" {
			elements = []string{c.patternList}
			if tail != "" {
				elements = append(elements, tail)
			}
		}
		c.out.Prefix[c.id+"#"+strings.TrimRight(path, "/")+"/"] = c.value(elements)
	}
	for path, candidates := range c.exact {
		rest := []string{}
		if c.patternList != "" {
			rest = append(rest, c.patternList)
		}
		covering := path
		if c.prefix[path] == nil {
			covering = c.coverOf(path)
		}
		if tail := c.tails[covering]; tail != "" {
			rest = append(rest, tail)
		}
		c.out.Exact[c.id+"#"+path] = c.value(c.own(candidates, rest...))
	}
}

// own are the elements of a path with what follows them.
func (c *compiler) own(candidates []candidate, rest ...string) []string {
	elements, final := c.elements(candidates)
	if final {
		return elements
	}
	for _, element := range rest {
		if element != "" {
			elements = append(elements, element)
		}
	}
	return elements
}

// elements are those of candidates of one path, up to the first without a condition; final
// tells whether there is one.
func (c *compiler) elements(candidates []candidate) (elements []string, final bool) {
	candidates = slices.Clone(candidates)
	slices.SortFunc(candidates, compare)
	for _, candidate := range candidates {
		conditions := conditionsOf(candidate)
		elements = append(elements, conditions+">"+candidate.action)
		if conditions == "" {
			return elements, true
		}
	}
	return elements, false
}

// tail is the one element that stands for all.
func (c *compiler) tail(elements []string) string {
	switch {
	case len(elements) == 0:
		return ""
	case len(elements) == 1 && elements[0][0] != '@':
		return elements[0]
	}
	return "+" + c.list(elements)
}

// value is the action of a path.
func (c *compiler) value(elements []string) string {
	if len(elements) > 0 && elements[0][0] == '>' {
		return elements[0][1:]
	}
	if len(elements) == 1 && elements[0][0] == '+' {
		return "?" + elements[0][1:]
	}
	return "?" + c.list(elements)
}

// cover is what the longest prefix goes on with that is shorter than a prefix.
func (c *compiler) cover(path string) string {
	if path == "/" {
		return ""
	}
	return c.tails[c.coverOf(path)]
}

// coverOf is the longest prefix that covers a path and is not the path itself; empty: none.
func (c *compiler) coverOf(path string) string {
	for path != "" {
		path = path[:max(strings.LastIndexByte(path, '/'), 0)]
		at := cmp.Or(path, "/")
		if _, known := c.prefix[at]; known {
			return at
		}
	}
	return ""
}

// list puts elements into lists of limited size and is the id of the first one.
func (c *compiler) list(elements []string) string {
	next := ""
	for end := len(elements); ; {
		start, size := end, len(next)
		for start > 0 && (start == end || size+len(elements[start-1]) < maxList) {
			start--
			size += len(elements[start]) + 1
		}
		text := strings.Join(elements[start:end], ";")
		if next != "" {
			text += ";+" + next
		}
		id := model.NewHasher().Str(c.id, text).Digest().String()[:digits]
		c.out.Conditions[id] = text
		if start == 0 {
			return id
		}
		next, end = id, start
	}
}
