package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sluice-proxy/sluice/pkg/haproxy/pattern"
	"github.com/sluice-proxy/sluice/pkg/haproxy/token"
)

// Bounds of what a match holds; those of the API.
const (
	maxValue   = 4096
	maxName    = 256
	maxPart    = 1024 // of a gRPC service or method
	maxMatches = 64   // of one rule
)

// everything is what a rule without matches takes.
func everything() []Match { return []Match{{Path: "/", How: PathPrefix}} }

func unsupported(format string, args ...any) *problem {
	return problemOf(gatewayv1.RouteReasonUnsupportedValue, format, args...)
}

func httpMatches(list []gatewayv1.HTTPRouteMatch) ([]Match, *problem) {
	if len(list) == 0 {
		return everything(), nil
	}
	if len(list) > maxMatches {
		return nil, unsupported("it has %d matches, at most %d are allowed", len(list), maxMatches)
	}
	matches := make([]Match, 0, len(list))
	for i := range list {
		m, err := httpMatch(&list[i])
		if err != nil {
			return nil, unsupported("matches[%d]: %v", i, err)
		}
		matches = append(matches, m)
	}
	return matches, nil
}

func httpMatch(match *gatewayv1.HTTPRouteMatch) (Match, error) {
	m := Match{Path: "/"}
	if match.Path != nil {
		if err := m.path(match.Path); err != nil {
			return m, err
		}
	}
	if match.Method != nil {
		m.Method = string(*match.Method)
		if !slices.Contains(methods, gatewayv1.HTTPMethod(m.Method)) {
			return m, fmt.Errorf("method %.30q is not known", m.Method)
		}
	}
	for _, h := range match.Headers {
		isRegex, err := isPattern(h.Type)
		if err == nil {
			m.Headers, err = addCondition(m.Headers, Condition{Name: strings.ToLower(string(h.Name)), Value: h.Value, Pattern: isRegex})
		}
		if err != nil {
			return m, fmt.Errorf("header %.60q: %w", h.Name, err)
		}
	}
	for _, q := range match.QueryParams {
		isRegex, err := isPattern(q.Type)
		if err == nil {
			m.Query, err = addCondition(m.Query, Condition{Name: string(q.Name), Value: q.Value, Pattern: isRegex})
		}
		if err != nil {
			return m, fmt.Errorf("query parameter %.60q: %w", q.Name, err)
		}
	}
	return m, nil
}

var methods = []gatewayv1.HTTPMethod{
	gatewayv1.HTTPMethodGet, gatewayv1.HTTPMethodHead, gatewayv1.HTTPMethodPost, gatewayv1.HTTPMethodPut, gatewayv1.HTTPMethodDelete,
	gatewayv1.HTTPMethodConnect, gatewayv1.HTTPMethodOptions, gatewayv1.HTTPMethodTrace, gatewayv1.HTTPMethodPatch,
}

func (m *Match) path(p *gatewayv1.HTTPPathMatch) error {
	how := gatewayv1.PathMatchPathPrefix
	if p.Type != nil {
		how = *p.Type
	}
	text := "/"
	if p.Value != nil {
		text = *p.Value
	}
	if how == gatewayv1.PathMatchRegularExpression {
		m.How, m.Path = PathPattern, text
		return checkPattern(text)
	}
	path, err := token.Path(text)
	if err != nil {
		return fmt.Errorf("path %.100q is not valid: %w", text, err)
	}
	m.Path = path
	switch how {
	case gatewayv1.PathMatchExact:
		m.How = PathExact
	case gatewayv1.PathMatchPathPrefix:
		m.How = PathPrefix
		if len(path) > 1 {
			m.Path = strings.TrimSuffix(path, "/")
		}
	default:
		return fmt.Errorf("path type %.60q is not known; use Exact, PathPrefix or RegularExpression", how)
	}
	return nil
}

func isPattern[T ~string](kind *T) (bool, error) {
	switch {
	case kind == nil || string(*kind) == string(gatewayv1.HeaderMatchExact):
		return false, nil
	case string(*kind) == string(gatewayv1.HeaderMatchRegularExpression):
		return true, nil
	}
	return false, fmt.Errorf("match type %.60q is not known; use Exact or RegularExpression", *kind)
}

// addCondition adds a condition, sorted by name. Of equal names the first one counts.
func addCondition(list []Condition, c Condition) ([]Condition, error) {
	if !isName(c.Name) {
		return list, errors.New("the name is not one of letters, digits and some marks")
	}
	if c.Pattern {
		if err := checkPattern(c.Value); err != nil {
			return list, err
		}
	} else if err := checkValue(c.Value); err != nil {
		return list, err
	}
	i, found := slices.BinarySearchFunc(list, c.Name, func(c Condition, name string) int { return cmp.Compare(c.Name, name) })
	if found {
		return list, nil
	}
	return slices.Insert(list, i, c), nil
}

// isName tells whether a text is a token of RFC 9110, 5.6.2.
func isName(text string) bool {
	return text != "" && len(text) <= maxName && strings.Trim(text, "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

func checkValue(text string) error {
	if len(text) > maxValue {
		return fmt.Errorf("the value has %d bytes, at most %d are allowed", len(text), maxValue)
	}
	return token.CheckText(text, "")
}

// checkPattern takes the regular expressions that HAProxy can be given at a bounded cost.
func checkPattern(text string) error {
	if err := token.CheckText(text, ""); err != nil {
		return err
	}
	if _, err := pattern.Compile(text); err != nil {
		return fmt.Errorf("the regular expression %.60q can't be used: %w", text, err)
	}
	return nil
}

func grpcMatches(list []gatewayv1.GRPCRouteMatch) ([]Match, *problem) {
	if len(list) == 0 {
		return everything(), nil
	}
	if len(list) > maxMatches {
		return nil, unsupported("it has %d matches, at most %d are allowed", len(list), maxMatches)
	}
	matches := make([]Match, 0, len(list))
	for i := range list {
		m, err := grpcMatch(&list[i])
		if err != nil {
			return nil, unsupported("matches[%d]: %v", i, err)
		}
		matches = append(matches, m)
	}
	return matches, nil
}

func grpcMatch(match *gatewayv1.GRPCRouteMatch) (Match, error) {
	m := Match{Path: "/"}
	if match.Method != nil {
		if err := m.call(match.Method); err != nil {
			return m, err
		}
	}
	for _, h := range match.Headers {
		isRegex, err := isPattern(h.Type)
		if err == nil {
			m.Headers, err = addCondition(m.Headers, Condition{Name: strings.ToLower(string(h.Name)), Value: h.Value, Pattern: isRegex})
		}
		if err != nil {
			return m, fmt.Errorf("header %.60q: %w", h.Name, err)
		}
	}
	return m, nil
}

// call compares service and method, which gRPC writes as the path /service/method.
func (m *Match) call(method *gatewayv1.GRPCMethodMatch) error {
	isRegex, err := isPattern(method.Type)
	if err != nil {
		return err
	}
	service, name := value(method.Service), value(method.Method)
	if !isRegex {
		for _, text := range []string{service, name} {
			if strings.Trim(text, "._0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" || len(text) > maxPart {
				return fmt.Errorf("%.100q is not the name of a gRPC service or method", text)
			}
		}
	}
	switch {
	case service == "" && name == "":
		return nil
	case !isRegex && name == "":
		m.Path = "/" + service
		return nil
	case !isRegex && service != "":
		m.How, m.Path = PathExact, "/"+service+"/"+name
		return nil
	}
	parts := [2]string{"[^/]+", "[^/]+"}
	for i, text := range []string{service, name} {
		if text == "" {
			continue
		}
		if !isRegex {
			text = strings.ReplaceAll(text, ".", `\.`)
		}
		if err := checkPattern(text); err != nil {
			return err
		}
		parts[i] = "(?:" + text + ")"
	}
	m.How, m.Path = PathPattern, "/"+parts[0]+"/"+parts[1]
	return checkPattern(m.Path)
}

func value(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}
