package gateway

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/resolve"
	"github.com/sluice-proxy/sluice/pkg/converters/settings"
	"github.com/sluice-proxy/sluice/pkg/haproxy/token"
)

// filterSet are the filters of a rule or of a backend.
type filterSet struct {
	filters
	prefix bool     // one replaces the prefix that was matched
	wrong  *problem // why the rule is left out
	deny   *problem // why the rule answers 500
	seen   []gatewayv1.HTTPRouteFilterType
}

func (s *filterSet) refuse(why *problem) {
	if s.wrong == nil {
		s.wrong = why
	}
}

// httpFilters reads filters. One that can't be honoured costs the rule; one that may keep
// somebody out closes it.
func (c *routeConverter) httpFilters(list []gatewayv1.HTTPRouteFilter, field string) filterSet {
	var s filterSet
	for i := range list {
		f := &list[i]
		if slices.Contains(s.seen, f.Type) && f.Type != gatewayv1.HTTPRouteFilterRequestMirror {
			s.refuse(unsupported("filter %.60s stands there twice", f.Type))
			continue
		}
		s.seen = append(s.seen, f.Type)
		c.httpFilter(&s, f, fmt.Sprintf("%s.filters[%d]", field, i))
	}
	if slices.Contains(s.seen, gatewayv1.HTTPRouteFilterRequestRedirect) && slices.Contains(s.seen, gatewayv1.HTTPRouteFilterURLRewrite) {
		s.refuse(problemOf(gatewayv1.RouteReasonIncompatibleFilters, "RequestRedirect and URLRewrite exclude each other"))
	}
	return s
}

func (c *routeConverter) httpFilter(s *filterSet, f *gatewayv1.HTTPRouteFilter, field string) {
	var err error
	given := true
	switch f.Type {
	case gatewayv1.HTTPRouteFilterRequestHeaderModifier:
		if given = f.RequestHeaderModifier != nil; given {
			s.Request, err = headersOf(f.RequestHeaderModifier, true)
		}
	case gatewayv1.HTTPRouteFilterResponseHeaderModifier:
		if given = f.ResponseHeaderModifier != nil; given {
			s.Response, err = headersOf(f.ResponseHeaderModifier, false)
		}
	case gatewayv1.HTTPRouteFilterRequestRedirect:
		if given = f.RequestRedirect != nil; given {
			err = s.redirect(f.RequestRedirect)
		}
	case gatewayv1.HTTPRouteFilterURLRewrite:
		if given = f.URLRewrite != nil; given {
			err = s.rewrite(f.URLRewrite)
		}
	case gatewayv1.HTTPRouteFilterRequestMirror:
		if given = f.RequestMirror != nil; given {
			err = c.mirror(s, f.RequestMirror, field)
		}
	case gatewayv1.HTTPRouteFilterCORS:
		if given = f.CORS != nil; given {
			s.CORS, err = corsOf(f.CORS)
		}
	case gatewayv1.HTTPRouteFilterExternalAuth:
		s.deny = unsupported("filter ExternalAuth is not offered")
	case gatewayv1.HTTPRouteFilterExtensionRef:
		s.deny = unsupported("a filter of another API (ExtensionRef) is not known")
	default:
		s.deny = unsupported("filter %.60q is not known", f.Type)
	}
	if !given {
		err = fmt.Errorf("it says nothing")
	}
	if err != nil {
		s.refuse(unsupported("filter %s: %v", f.Type, err))
	}
}

// headersOf are the changes of a filter. Of equal names the first one counts.
func headersOf(f *gatewayv1.HTTPHeaderFilter, request bool) (resolve.Headers, error) {
	var h resolve.Headers
	add := func(to *[]resolve.HeaderValue, list []gatewayv1.HTTPHeader, setsHost bool) error {
		for _, header := range list {
			name := lower(header.Name)
			if err := settings.CheckHeader(name, setsHost); err != nil {
				return err
			}
			if err := checkValue(header.Value); err != nil {
				return fmt.Errorf("header %s: %w", name, err)
			}
			if header.Value == "" {
				return fmt.Errorf("header %s has no value; remove it instead", name)
			}
			if !slices.ContainsFunc(*to, func(v resolve.HeaderValue) bool { return v.Name == name }) {
				*to = append(*to, resolve.HeaderValue{Name: name, Value: header.Value})
			}
		}
		return nil
	}
	if err := add(&h.Set, f.Set, request); err != nil {
		return h, err
	}
	if err := add(&h.Add, f.Add, false); err != nil {
		return h, err
	}
	for _, name := range f.Remove {
		name = strings.ToLower(name)
		if err := settings.CheckHeader(name, false); err != nil {
			return h, err
		}
		if !slices.Contains(h.Remove, name) {
			h.Remove = append(h.Remove, name)
		}
	}
	return h, nil
}

func (s *filterSet) redirect(f *gatewayv1.HTTPRequestRedirectFilter) error {
	r := &resolve.Redirect{Status: 302}
	if f.StatusCode != nil {
		r.Status = *f.StatusCode
		if !slices.Contains([]int{301, 302, 303, 307, 308}, r.Status) {
			return fmt.Errorf("%d is no status of a redirect; use 301, 302, 303, 307 or 308", r.Status)
		}
	}
	if f.Scheme != nil {
		r.Scheme = strings.ToLower(*f.Scheme)
		if r.Scheme != "http" && r.Scheme != "https" {
			return fmt.Errorf("scheme %.30q is not known; use http or https", *f.Scheme)
		}
	}
	var err error
	if r.Host, err = preciseHost(f.Hostname); err != nil {
		return err
	}
	if f.Port != nil {
		if *f.Port < 1 || *f.Port > 65535 {
			return fmt.Errorf("%d is not a port from 1 to 65535", *f.Port)
		}
		s.port = int(*f.Port)
	}
	if r.Path, err = s.path(f.Path); err != nil {
		return err
	}
	s.Redirect = r
	return nil
}

func (s *filterSet) rewrite(f *gatewayv1.HTTPURLRewriteFilter) (err error) {
	if s.RewriteHost, err = preciseHost(f.Hostname); err != nil {
		return err
	}
	s.RewritePath, err = s.path(f.Path)
	return err
}

func preciseHost(host *gatewayv1.PreciseHostname) (string, error) {
	if host == nil || *host == "" {
		return "", nil
	}
	text, err := token.RuleHost(string(*host))
	if err != nil || strings.HasPrefix(text, "*") {
		return "", fmt.Errorf("hostname %.260q is not valid", *host)
	}
	return text, nil
}

// path is what takes the place of a request's path, or of its prefix that was matched.
func (s *filterSet) path(p *gatewayv1.HTTPPathModifier) (*resolve.PathModifier, error) {
	if p == nil {
		return nil, nil
	}
	var text string
	switch p.Type {
	case gatewayv1.FullPathHTTPPathModifier:
		text = value(p.ReplaceFullPath)
	case gatewayv1.PrefixMatchHTTPPathModifier:
		s.prefix = true
		text = value(p.ReplacePrefixMatch)
	default:
		return nil, fmt.Errorf("path modifier %.60q is not known", p.Type)
	}
	if text == "" {
		text = "/"
	}
	if text[0] != '/' {
		text = "/" + text
	}
	if err := checkValue(text); err != nil {
		return nil, err
	}
	if strings.ContainsAny(text, " ?#") {
		return nil, fmt.Errorf("path %.100q holds a blank, '?' or '#'", text)
	}
	return &resolve.PathModifier{Full: p.Type == gatewayv1.FullPathHTTPPathModifier, Path: text}, nil
}

// mirror sends copies elsewhere. Where the reference is broken, there are none, and the
// requests go on.
func (c *routeConverter) mirror(s *filterSet, f *gatewayv1.HTTPRequestMirrorFilter, field string) error {
	m := resolve.Mirror{Numerator: 100, Denominator: 100}
	switch {
	case f.Percent != nil:
		m.Numerator = int(*f.Percent)
	case f.Fraction != nil:
		m.Numerator = int(f.Fraction.Numerator)
		if f.Fraction.Denominator != nil {
			m.Denominator = int(*f.Fraction.Denominator)
		}
	}
	if m.Numerator < 0 || m.Denominator <= 0 || m.Numerator > m.Denominator {
		return fmt.Errorf("%d of %d is no share of the requests", m.Numerator, m.Denominator)
	}
	ref, wrong := c.backend(&f.BackendRef, field+".requestMirror.backendRef")
	c.unresolved(field+".requestMirror.backendRef", wrong)
	if ref.Deny != 0 || m.Numerator == 0 {
		return nil
	}
	ref.Gateway = &resolve.GatewayRef{H2: c.isGRPC()}
	m.Backend = ref
	s.Mirrors = append(s.Mirrors, m)
	return nil
}

// timing are timeouts, retries and what else is a rule's only.
func (s *filterSet) timing(rule *gatewayv1.HTTPRouteRule) {
	if rule.SessionPersistence != nil {
		s.refuse(unsupported("sessionPersistence is not offered; the annotation affinity is"))
	}
	if t := rule.Timeouts; t != nil {
		var err error
		if s.Timeout, err = duration(t.Request); err == nil {
			s.TryTimeout, err = duration(t.BackendRequest)
		}
		if err == nil && s.Timeout > 0 && s.TryTimeout > s.Timeout {
			err = fmt.Errorf("backendRequest is longer than request")
		}
		if err != nil {
			s.refuse(unsupported("timeouts: %v", err))
		}
	}
	if rule.Retry != nil {
		retry, err := retryOf(rule.Retry)
		if err != nil {
			s.refuse(unsupported("retry: %v", err))
		}
		s.Retry = retry
	}
}

// duration reads a duration as the API writes it; -1 where it is written and 0: none.
func duration(text *gatewayv1.Duration) (time.Duration, error) {
	if text == nil || *text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(string(*text))
	if strings.Trim(string(*text), "0123456789hms") != "" || err != nil || d > maxDuration || d != d.Truncate(time.Millisecond) {
		return 0, fmt.Errorf("%.30q is no duration such as 1h30m or 500ms", *text)
	}
	if d == 0 {
		return -1, nil
	}
	return d, nil
}

// maxDuration is the greatest timeout of HAProxy, in whole days.
const maxDuration = 24 * 24 * time.Hour

// retryCodes are the statuses that HAProxy tries again ("retry-on").
var retryCodes = []int{401, 403, 404, 408, 425, 429, 500, 501, 502, 503, 504}

// maxAttempts bounds the tries of one request: each costs a server as much as a request.
const maxAttempts = 100

func retryOf(r *gatewayv1.HTTPRouteRetry) (*resolve.Retry, error) {
	out := &resolve.Retry{}
	for _, code := range r.Codes {
		if !slices.Contains(retryCodes, int(code)) {
			return nil, fmt.Errorf("HAProxy does not retry after the status %d", code)
		}
		out.Codes = append(out.Codes, int(code))
	}
	slices.Sort(out.Codes)
	out.Codes = slices.Compact(out.Codes)
	if r.Attempts != nil {
		out.Attempts = *r.Attempts
		if out.Attempts < 1 || out.Attempts > maxAttempts {
			return nil, fmt.Errorf("%d attempts are not 1 to %d", out.Attempts, maxAttempts)
		}
	}
	if wait, err := duration(r.Backoff); err != nil || wait > 0 {
		return nil, fmt.Errorf("HAProxy does not wait between tries; leave backoff out")
	}
	return out, nil
}

// corsOf reads a CORS filter.
func corsOf(f *gatewayv1.HTTPCORSFilter) (*resolve.CORSFilter, error) {
	c := &resolve.CORSFilter{Credentials: f.AllowCredentials != nil && *f.AllowCredentials, MaxAge: 5}
	for _, origin := range f.AllowOrigins {
		text, err := originOf(string(origin))
		if err != nil {
			return nil, err
		}
		c.Origins = append(c.Origins, text)
	}
	for _, method := range f.AllowMethods {
		if method != "*" && !slices.Contains(methods, gatewayv1.HTTPMethod(method)) {
			return nil, fmt.Errorf("method %.30q is not known", method)
		}
		c.Methods = append(c.Methods, string(method))
	}
	for _, list := range []struct {
		to    *[]string
		names []gatewayv1.HTTPHeaderName
	}{{&c.Headers, f.AllowHeaders}, {&c.Expose, f.ExposeHeaders}} {
		for _, name := range list.names {
			if !isName(string(name)) {
				return nil, fmt.Errorf("%.60q is not the name of a header", name)
			}
			*list.to = append(*list.to, string(name))
		}
	}
	if f.MaxAge != 0 {
		if f.MaxAge < 0 {
			return nil, fmt.Errorf("maxAge is negative")
		}
		c.MaxAge = int(f.MaxAge)
	}
	return c, nil
}

// originOf is an origin in lower case, without the port that its scheme has anyway.
func originOf(text string) (string, error) {
	if text == "*" {
		return text, nil
	}
	wrong := fmt.Errorf("origin %.260q is not scheme://host or scheme://host:port", text)
	scheme, rest, found := strings.Cut(strings.ToLower(text), "://")
	host, port, hasPort := strings.Cut(rest, ":")
	if !found || scheme != "http" && scheme != "https" {
		return "", wrong
	}
	if hasPort {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 || strconv.FormatUint(n, 10) != port {
			return "", wrong
		}
		if scheme == "http" && n == 80 || scheme == "https" && n == 443 {
			hasPort = false
		}
	}
	if name := strings.TrimPrefix(host, "*."); host != "*" && !token.IsHostname(name) {
		return "", wrong
	}
	if hasPort {
		host += ":" + port
	}
	return scheme + "://" + host, nil
}
