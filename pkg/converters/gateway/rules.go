package gateway

import (
	"fmt"
	"slices"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/resolve"
)

// ruleOf is what the rules of HTTPRoutes and GRPCRoutes have in common.
type ruleOf struct {
	index    int
	name     *gatewayv1.SectionName
	matches  []Match
	filters  filterSet
	backends []backendOf
	wrong    *problem // why it is left out
	h2       bool
}

// backendOf is a backend with the filters that are its own.
type backendOf struct {
	ref     gatewayv1.BackendRef
	filters filterSet
}

func (c *routeConverter) httpRules(rules []gatewayv1.HTTPRouteRule) {
	if rules == nil {
		rules = []gatewayv1.HTTPRouteRule{{}} // what the API server puts in
	}
	for i := range rules {
		rule := &rules[i]
		r := ruleOf{index: i, name: rule.Name}
		r.matches, r.wrong = httpMatches(rule.Matches)
		field := fmt.Sprintf("spec.rules[%d]", i)
		r.filters = c.httpFilters(rule.Filters, field)
		r.filters.timing(rule)
		for j := range rule.BackendRefs {
			b := &rule.BackendRefs[j]
			r.backends = append(r.backends, backendOf{b.BackendRef, c.httpFilters(b.Filters, fmt.Sprintf("%s.backendRefs[%d]", field, j))})
		}
		c.rule(&r)
	}
}

func (c *routeConverter) grpcRules(rules []gatewayv1.GRPCRouteRule) {
	for i := range rules {
		rule := &rules[i]
		r := ruleOf{index: i, name: rule.Name, h2: true}
		r.matches, r.wrong = grpcMatches(rule.Matches)
		field := fmt.Sprintf("spec.rules[%d]", i)
		r.filters = c.httpFilters(asHTTP(rule.Filters), field)
		if rule.SessionPersistence != nil {
			r.filters.refuse(unsupported("sessionPersistence is not offered"))
		}
		for j := range rule.BackendRefs {
			b := &rule.BackendRefs[j]
			r.backends = append(r.backends, backendOf{b.BackendRef, c.httpFilters(asHTTP(b.Filters), fmt.Sprintf("%s.backendRefs[%d]", field, j))})
		}
		c.rule(&r)
	}
}

// asHTTP are the filters in the terms of HTTPRoutes, which have all that GRPCRoutes have.
func asHTTP(list []gatewayv1.GRPCRouteFilter) []gatewayv1.HTTPRouteFilter {
	out := make([]gatewayv1.HTTPRouteFilter, len(list))
	for i, f := range list {
		out[i] = gatewayv1.HTTPRouteFilter{
			Type: gatewayv1.HTTPRouteFilterType(f.Type), RequestHeaderModifier: f.RequestHeaderModifier,
			ResponseHeaderModifier: f.ResponseHeaderModifier, RequestMirror: f.RequestMirror, ExtensionRef: f.ExtensionRef,
		}
	}
	return out
}

// rule makes drafts of a rule: one, or one for each prefix where a filter replaces that.
func (c *routeConverter) rule(r *ruleOf) {
	c.count++
	field := fmt.Sprintf("spec.rules[%d]", r.index)
	deny := r.filters.deny
	wrong := r.wrong
	if wrong == nil {
		wrong = r.filters.wrong
	}
	byPrefix := r.filters.prefix
	for i := range r.backends {
		b := &r.backends[i]
		if wrong == nil {
			wrong = b.filters.wrong
		}
		if deny == nil {
			deny = b.filters.deny
		}
		byPrefix = byPrefix || b.filters.prefix
	}
	targets := c.targets(r, field)
	if deny != nil && r.wrong == nil {
		c.denyRule(r.index, field, deny)
		c.add(r, r.matches, []target{c.denied(1)})
		c.drafts[len(c.drafts)-1].closed = true
		return
	}
	if wrong == nil && byPrefix && slices.ContainsFunc(r.matches, func(m Match) bool { return m.How != PathPrefix }) {
		wrong = unsupported("ReplacePrefixMatch needs matches of type PathPrefix")
	}
	if wrong != nil {
		c.drop(r.index, field, wrong)
		return
	}
	if !byPrefix {
		c.add(r, r.matches, targets)
		return
	}
	for _, group := range byPath(r.matches) {
		c.add(r, group, withPrefix(targets, group[0].Path))
	}
}

func (c *routeConverter) add(r *ruleOf, matches []Match, targets []target) {
	d := draft{matches: matches, targets: targets, origin: c.at(fmt.Sprintf("spec.rules[%d]", r.index))}
	if r.name != nil {
		d.name = string(*r.name)
	}
	c.drafts = append(c.drafts, d)
}

// byPath are the matches in groups of one path each, in their order.
func byPath(matches []Match) [][]Match {
	var groups [][]Match
next:
	for _, m := range matches {
		for i := range groups {
			if groups[i][0].Path == m.Path {
				groups[i] = append(groups[i], m)
				continue next
			}
		}
		groups = append(groups, []Match{m})
	}
	return groups
}

// withPrefix are targets whose filters know which prefix they replace.
func withPrefix(targets []target, prefix string) []target {
	out := slices.Clone(targets)
	for i := range out {
		f := &out[i].filters
		f.RewritePath = prefixed(f.RewritePath, prefix)
		if f.Redirect != nil && f.Redirect.Path != nil {
			redirect := *f.Redirect
			redirect.Path = prefixed(redirect.Path, prefix)
			f.Redirect = &redirect
		}
	}
	return out
}

func prefixed(path *resolve.PathModifier, prefix string) *resolve.PathModifier {
	if path == nil || path.Full {
		return path
	}
	return &resolve.PathModifier{Prefix: prefix, Path: path.Path}
}

// targets are the backends of a rule. A broken one keeps its share.
func (c *routeConverter) targets(r *ruleOf, field string) []target {
	if r.filters.Redirect != nil {
		ref := resolve.BackendRef{Namespace: c.key.Namespace, Origin: c.at(field)}
		return []target{{weight: 1, backend: ref, filters: r.filters.filters}}
	}
	refs := make([]gatewayv1.BackendRef, len(r.backends))
	for i := range r.backends {
		refs[i] = r.backends[i].ref
	}
	targets := c.backends(refs, field)
	for i := range targets {
		t := &targets[i]
		t.h2 = r.h2
		if i < len(r.backends) {
			t.filters = merge(r.filters.filters, r.backends[i].filters.filters)
			if t.filters.Redirect != nil {
				t.backend = resolve.BackendRef{Namespace: c.key.Namespace, Origin: t.backend.Origin}
			}
		}
	}
	return targets
}

// connections are the backends of a rule that takes each connection.
func (c *routeConverter) connections(index int, name *gatewayv1.SectionName, refs []gatewayv1.BackendRef) {
	c.count++
	targets := c.backends(refs, fmt.Sprintf("spec.rules[%d]", index))
	for i := range targets {
		targets[i].backend.TCP = true
		targets[i].udp = c.datagrams()
	}
	c.add(&ruleOf{index: index, name: name}, nil, targets)
}

// merge are the filters of a rule and then those of one of its backends.
func merge(rule, own filters) filters {
	out := rule
	out.Request = rule.Request.Then(own.Request)
	out.Response = rule.Response.Then(own.Response)
	if own.Redirect != nil {
		out.Redirect, out.port = own.Redirect, own.port
	}
	if own.RewriteHost != "" {
		out.RewriteHost = own.RewriteHost
	}
	if own.RewritePath != nil {
		out.RewritePath = own.RewritePath
	}
	out.Mirrors = slices.Concat(rule.Mirrors, own.Mirrors)
	if own.CORS != nil {
		out.CORS = own.CORS
	}
	return out
}

// weightOf is the share of a backend.
func weightOf(ref *gatewayv1.BackendRef) (int, bool) {
	if ref.Weight == nil {
		return 1, true
	}
	w := int(*ref.Weight)
	return w, w >= 0 && w <= 1_000_000
}

func lower(name gatewayv1.HTTPHeaderName) string { return strings.ToLower(string(name)) }
