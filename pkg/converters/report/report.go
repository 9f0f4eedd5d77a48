package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// Severity says what a finding costs the user.
type Severity uint8

// The severities. They order findings: the worst comes last.
const (
	Info    Severity = iota // nothing is lost; worth knowing
	Warning                 // something the object asks for is not done
	Error                   // a part of the object is not served, or denied
)

// String is the severity in lower case.
func (s Severity) String() string { return [...]string{"info", "warning", "error"}[s] }

// MarshalText is String.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Finding is one thing to say about one object.
type Finding struct {
	Code    Code         `json:"code"`
	Object  model.Origin `json:"object"`         // with the field, where one is to blame
	Message string       `json:"message"`        // one sentence, says what to do where that is not obvious
	File    string       `json:"file,omitempty"` // manifest file; set where the source knows it
	Line    int          `json:"line,omitempty"` // 1-based line in File
}

// Severity is that of the code.
func (f Finding) Severity() Severity { return Catalogue[f.Code].Severity }

// MarshalJSON adds the severity, which a program that reads findings asks for first.
func (f Finding) MarshalJSON() ([]byte, error) {
	type plain Finding // without this method
	return json.Marshal(struct {
		Severity Severity `json:"severity"`
		plain
	}{f.Severity(), plain(f)})
}

// String is one line: file:line where known, severity, object, message, code.
func (f Finding) String() string {
	where := ""
	if f.File != "" {
		where = fmt.Sprintf("%s:%d: ", f.File, f.Line)
	}
	return oneLine(fmt.Sprintf("%s%s: %s: %s [%s]", where, f.Severity(), f.Object, f.Message, f.Code))
}

// oneLine writes what can't be printed as Go does in a string: a user's line feed must
// not begin a line of the report.
func oneLine(text string) string {
	var b strings.Builder
	for _, r := range text {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}

// New is a finding with a formatted message.
func New(code Code, object model.Origin, format string, args ...any) Finding {
	return Finding{Code: code, Object: object, Message: fmt.Sprintf(format, args...)}
}

// Sort orders findings by object, code and message, and drops repetitions.
func Sort(findings []Finding) []Finding {
	slices.SortFunc(findings, func(a, b Finding) int {
		return cmp.Or(
			model.CompareOrigins(a.Object, b.Object),
			cmp.Compare(a.Code, b.Code),
			cmp.Compare(a.Message, b.Message),
		)
	})
	return slices.Compact(findings)
}
