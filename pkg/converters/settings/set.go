package settings

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// Networks are the entries of an address list, each masked, IPv4 as IPv4.
type Networks struct {
	Include []netip.Prefix
	Exclude []netip.Prefix // those with "!"
}

// Header is one line of a list of headers. The value is literal text.
type Header struct{ Name, Value string }

// value is what one option came to. It is never changed.
type value struct {
	text     string // canonical
	number   int64  // Int, Code, Size in bytes, Duration in nanoseconds, Bool as 0 or 1
	names    []string
	networks Networks
	headers  []Header

	origin model.Origin
	above  bool            // set by an Override layer
	denied *report.Finding // the option fails closed, and its text can't be honoured
}

func (v *value) equal(other *value) bool {
	return v == other || v.text == other.text && v.number == other.number &&
		slices.Equal(v.names, other.names) && slices.Equal(v.headers, other.headers) &&
		slices.Equal(v.networks.Include, other.networks.Include) &&
		slices.Equal(v.networks.Exclude, other.networks.Exclude) &&
		(v.denied == nil) == (other.denied == nil)
}

// Set is the value of every option. It is immutable and may be shared.
type Set struct {
	values []*value // by index in table
	// refused are the guards that sluice lacks, by name: see Denied.
	refused []report.Finding
}

// defaults are the built-in values.
var defaults = buildDefaults()

func buildDefaults() *Set {
	s := &Set{values: make([]*value, len(table))}
	for i := range table {
		s.values[i] = mustRead(&table[i], table[i].Default)
	}
	return s
}

// mustRead reads a text of the table. The empty text is the zero value, even where a user
// may not write it.
func mustRead(o *Option, text string) *value {
	if text == "" {
		return &value{}
	}
	v, err := read(o, text)
	if err != nil {
		panic("settings: a text of the table can't be read: " + err.Error())
	}
	return &v
}

// at is the value of an option. An unknown name is a bug of the caller.
func (s *Set) at(name string, types ...Type) *value {
	i, found := index[name]
	if !found {
		panic("settings: there is no option " + name)
	}
	if len(types) > 0 && !slices.Contains(types, table[i].Type) {
		panic("settings: option " + name + " is of type " + table[i].Type.String())
	}
	return s.values[i]
}

// Bool is the value of a Bool.
func (s *Set) Bool(name string) bool { return s.at(name, Bool).number != 0 }

// Int is the value of an Int or a Code.
func (s *Set) Int(name string) int { return int(s.at(name, Int, Code).number) }

// Duration is the value of a Duration, in whole milliseconds.
func (s *Set) Duration(name string) time.Duration {
	return time.Duration(s.at(name, Duration).number)
}

// Size is the value of a Size in bytes; 0 stands for unlimited.
func (s *Set) Size(name string) int64 { return s.at(name, Size).number }

// Text is the canonical text of an option of any type; empty: none.
func (s *Set) Text(name string) string { return s.at(name).text }

// CIDRs is the value of an address list; both parts empty: there is none.
func (s *Set) CIDRs(name string) Networks { return s.at(name, CIDRs).networks }

// Headers is the value of a list of headers, in the order of its lines. Don't change it.
func (s *Set) Headers(name string) []Header { return s.at(name, Headers).headers }

// Names is the value of a list, in the user's order and without repetitions. Don't change it.
func (s *Set) Names(name string) []string { return s.at(name, Names).names }

// Secret is the Secret that a SecretRef names; namespace is empty where the user wrote none
// (it is that of the object then), name is empty where the option is not set.
func (s *Set) Secret(option string) (namespace, name string) {
	text := s.at(option, SecretRef).text
	if i := strings.IndexByte(text, '/'); i >= 0 {
		return text[:i], text[i+1:]
	}
	return "", text
}

// IsSet tells whether an Override layer set the option, be it to an unreadable text that is
// denied. Built-in defaults and the global ConfigMap don't count.
func (s *Set) IsSet(name string) bool { return s.at(name).above }

// Origin is where the value comes from; zero for a built-in default.
func (s *Set) Origin(name string) model.Origin { return s.at(name).origin }

// Denied are the protections that can't be honoured: the path must answer 503. They are not
// among the findings of Globals and Override, which say what is wrong with the text: report
// these too where the path is really denied. Sorted; nil for nearly every Set.
func (s *Set) Denied() []report.Finding {
	denied := s.refused
	for _, v := range s.values {
		if v.denied != nil {
			denied = append(denied[:len(denied):len(denied)], *v.denied)
		}
	}
	if len(denied) == 0 {
		return nil
	}
	return report.Sort(slices.Clone(denied))
}

// Equal tells whether the options of the given scopes have the same values in both sets.
// Where they come from does not count.
func (s *Set) Equal(other *Set, scope Scope) bool {
	if s == other {
		return true
	}
	for i := range table {
		if table[i].Scope&scope != 0 && !s.values[i].equal(other.values[i]) {
			return false
		}
	}
	return scope&^Global == 0 || slices.EqualFunc(s.refused, other.refused, func(a, b report.Finding) bool { return a.Message == b.Message })
}
