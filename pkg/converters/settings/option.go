package settings

import (
	"cmp"
	"slices"
	"strings"
)

// Scope says where an option has its effect; a bit mask. Every option can be set in the
// global ConfigMap, as a default; the other places are named by the bits.
type Scope uint8

// The scopes.
const (
	Global   Scope = 1 << iota // the process and its listeners: the global ConfigMap only
	Frontend                   // a listener
	Host                       // all paths of a host
	Path                       // one path of one host
	Backend                    // a service port with everything that leads to it
	TCP                        // a TCP service
)

// AnyScope allows every option.
const AnyScope = Global | Frontend | Host | Path | Backend | TCP

// String lists the names of the scopes, separated by blanks.
func (s Scope) String() string {
	var names []string
	for i, name := range []string{"global", "frontend", "host", "path", "backend", "tcp"} {
		if s&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, " ")
}

// Type says how the text of an option is read, and which getter of Set gives it.
type Type uint8

// The types. Set.Text gives the canonical text of any of them.
const (
	Bool      Type = iota // true or false; Set.Bool
	Int                   // a decimal number; Set.Int
	Duration              // HAProxy's time format: number and us, ms, s, m, h or d, without a unit ms; Set.Duration
	Size                  // bytes, with k, m or g times 1024; Set.Size
	Code                  // status of an HTTP answer; Set.Int
	Enum                  // one of Option.Values; Set.Text
	Text                  // one line; Set.Text
	LogFormat             // a HAProxy log-format, evaluated by HAProxy; Set.Text
	CIDRs                 // addresses and networks, separated by commas, "!" excludes; Set.CIDRs
	Headers               // lines "Name: value", the value is literal text; Set.Headers
	Names                 // a list; Set.Names
	URL                   // an absolute URL or a path; Set.Text
	URLPath               // a path that begins with "/"; Set.Text
	SecretRef             // "name" or "namespace/name" of a Secret; Set.Secret
	Hostname              // a DNS name; Set.Text
	Balance               // a load balancing algorithm with its arguments; Set.Text
)

// String is the type as the reference page calls it.
func (t Type) String() string {
	return [...]string{"bool", "number", "time", "size", "status code", "one of", "text", "log-format", "networks",
		"header lines", "list", "URL or path", "path", "Secret", "host name", "algorithm"}[t]
}

// Option is one row of the table.
type Option struct {
	Name    string
	Aliases []string // other names that users may write
	Scope   Scope
	Type    Type
	Default string   // as a user would write it; empty: off, none or automatic, as Doc says
	Values  []string // of an Enum; what may stand in some lists
	// Min and Max bound an Int or a Code, a Size in bytes, a Duration in milliseconds.
	// Max 0 stands for the bound of the type.
	Min, Max int64
	// FailClosed: where the value can't be read, Safe takes its place; without Safe, the
	// path must answer 503 (Set.Denied).
	FailClosed bool
	Safe       string // also of a few options that must not become wider by mistake
	// Guards: the option keeps somebody out, or keeps requests from servers that are not
	// verified. An object never falls back to a form that guards less, see Guards.
	Guards    bool
	OnService bool   // may stand on a Service
	Own       bool   // haproxy-ingress has no such option
	Risk      string // what can go wrong with it; empty for most
	Doc       string // one or two sentences
	Theirs    string // default of haproxy-ingress, where it differs
	Note      string // why something differs from haproxy-ingress
	Live      Live   // how a change of the global value is applied

	hasSafe bool   // Safe counts although it is empty: an empty list
	parse   parser // nil: that of the type
}

// index finds a row of the table by its name or alias.
var (
	table = buildTable()
	index = buildIndex()
)

func buildTable() []Option {
	all := slices.Concat(globalOptions(), logOptions(), tcpOptions(), namespaceOptions(), timeoutOptions(), backendOptions(), secureOptions(), pathOptions(), corsOptions())
	slices.SortFunc(all, func(a, b Option) int { return cmp.Compare(a.Name, b.Name) })
	for i := range all {
		o := &all[i]
		o.OnService = o.OnService || o.Scope&(Path|Backend) != 0 && o.Name != "path-type" && o.Name != "rewrite-target"
		o.hasSafe = o.hasSafe || o.Safe != ""
		o.Live = liveOf(o.Name)
		if o.parse == nil {
			o.parse = parserOf(o.Type)
		}
	}
	return all
}

func buildIndex() map[string]int {
	byName := make(map[string]int, 2*len(table))
	for i, o := range table {
		for _, name := range append([]string{o.Name}, o.Aliases...) {
			if _, double := byName[name]; double {
				panic("settings: two options are named " + name)
			}
			byName[name] = i
		}
	}
	return byName
}

// Options is the table, sorted by name.
func Options() []Option { return slices.Clone(table) }

// Lookup finds an option by its name or by an alias.
func Lookup(name string) (Option, bool) {
	i, found := index[name]
	if !found {
		return Option{}, false
	}
	return table[i], true
}

// Guards tells whether an option keeps somebody out: a row of the table that says so, or a
// protection that sluice does not offer.
func Guards(name string) bool {
	if i, offered := index[name]; offered {
		return table[i].Guards
	}
	return unsupportedIndex[name].Guards
}

// Nearest are up to three names of options that resemble the given one, the nearest first.
func Nearest(name string) []string {
	type candidate struct {
		name     string
		distance int
	}
	if len(name) > maxName {
		return nil
	}
	limit := max(2, len(name)/3)
	var near []candidate
	for known := range index {
		if d := distance(name, known); d <= limit {
			near = append(near, candidate{known, d})
		}
	}
	slices.SortFunc(near, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.name, b.name))
	})
	var names []string
	for _, c := range near[:min(3, len(near))] {
		names = append(names, c.name)
	}
	return names
}

// maxName bounds the names that Nearest compares; no option has such a long one.
const maxName = 64

// distance is the number of bytes to insert, delete or replace to make b of a, where two
// swapped neighbours count once (optimal string alignment).
func distance(a, b string) int {
	var before []int
	last, row := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, make([]int, len(b)+1)
	}
	return last[len(b)]
}
