package settings

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/token"
)

// Globals is the set of the built-in defaults and the global ConfigMap.
func Globals(layer Layer) (*Set, []report.Finding) {
	return defaults.with(AnyScope, false, []Layer{layer})
}

// Override is the set with the given layers put over it, later ones winning. An option is
// allowed if one of its scopes is. Without any key the receiver itself is returned.
func (s *Set) Override(allowed Scope, layers ...Layer) (*Set, []report.Finding) {
	return s.with(allowed, true, layers)
}

func (s *Set) with(allowed Scope, above bool, layers []Layer) (*Set, []report.Finding) {
	keys := 0
	for i := range layers {
		keys += len(layers[i].Raw)
	}
	if keys == 0 {
		return s, nil
	}
	e := editor{next: s, old: s, allowed: allowed, above: above}
	for _, layer := range layers {
		for _, name := range layer.names() {
			e.put(layer, name)
		}
	}
	return e.next, e.findings
}

// editor puts keys over a set, which it copies at the first change.
type editor struct {
	old, next *Set
	allowed   Scope
	above     bool
	findings  []report.Finding
}

func (e *editor) report(code report.Code, origin model.Origin, format string, args ...any) {
	e.findings = append(e.findings, report.New(code, origin, format, args...))
}

// writable is the set to change.
func (e *editor) writable() *Set {
	if e.next == e.old {
		e.next = &Set{values: slices.Clone(e.old.values), refused: slices.Clip(e.old.refused)}
	}
	return e.next
}

// put puts one key of a layer over the set.
func (e *editor) put(layer Layer, name string) {
	i, found := index[name]
	if !found {
		e.putUnknown(layer, name)
		return
	}
	option, origin := &table[i], layer.origin(name)
	if option.Scope&e.allowed == 0 {
		e.report(report.OptionScope, origin, "%s", belongs(name, option.Scope, ""))
		return
	}
	if name != option.Name {
		if text, both := layer.Raw[option.Name]; both {
			if text != layer.Raw[name] {
				e.report(report.OptionConflict, origin, "%s is another name of %s, which stands on the object with another value and wins; remove %s", name, option.Name, name)
			}
			return
		}
	}
	v, err := read(option, layer.Raw[name])
	if err != nil {
		if v, found = e.fallback(option, origin, err); !found {
			return
		}
	}
	v.origin, v.above = origin, e.above
	e.writable().values[i] = &v
}

// fallback reports an unreadable text and says what takes its place; false: what stood there before.
func (e *editor) fallback(option *Option, origin model.Origin, err error) (value, bool) {
	code, after := report.OptionInvalid, "it is ignored"
	var control *token.ControlError
	var lacks *unsupportedValue
	switch {
	case errors.As(err, &control):
		code = report.ControlCharacter
	case errors.As(err, &lacks):
		code = report.OptionUnsupported
	}
	defer func() { e.report(code, origin, "%v; %s", err, after) }()
	if option.hasSafe {
		after = "for safety, " + option.Safe + " takes its place"
		if option.Safe == "" {
			after = "for safety, nothing is allowed"
		}
		return *mustRead(option, option.Safe), true
	}
	if option.FailClosed {
		after = "the path is denied until it is corrected"
		v := *e.next.values[index[option.Name]]
		denied := report.New(report.ProtectionDenied, origin, "the path answers 503, since %s can't be honoured: %v", option.Name, err)
		v.denied = &denied
		return v, true
	}
	return value{}, false
}

// putUnknown reports a key that no option has. A protection that sluice lacks is noted in the set.
func (e *editor) putUnknown(layer Layer, name string) {
	origin := layer.origin(name)
	lacking, known := LookupUnsupported(name)
	switch {
	case !known:
		hint := "see docs/options.md for those that do"
		if near := Nearest(name); near != nil {
			hint = "did you mean " + strings.Join(near, " or ") + "?"
		}
		e.report(report.OptionUnknown, origin, "there is no option %s; %s", quote(name), hint)
	case lacking.Scope&e.allowed == 0:
		e.report(report.OptionScope, origin, "%s", belongs(name, lacking.Scope, "; moreover, sluice does not offer it: "+lacking.Instead))
	default:
		after := "it has no effect"
		if lacking.Guards && !off(layer.Raw[name]) {
			after = "the path is denied, since it would be open without"
			set := e.writable()
			set.refused = append(set.refused, report.New(report.ProtectionDenied, origin,
				"the path answers 503, since sluice does not offer the protection %s: %s", name, lacking.Instead))
		}
		e.report(report.OptionUnsupported, origin, "sluice does not offer %s: %s; %s", name, lacking.Instead, after)
	}
}

// belongs says where an option of the given scope has its place.
func belongs(name string, scope Scope, more string) string {
	place := "it belongs on an Ingress or into the global ConfigMap"
	switch {
	case scope == Global:
		place = "it belongs into the global ConfigMap"
	case scope&(Path|Backend) != 0:
		place = "it belongs on an Ingress, on a Service or into the global ConfigMap"
	}
	return fmt.Sprintf("%s has no effect here: %s%s", name, place, more)
}
