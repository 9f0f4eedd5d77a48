package gateway

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/resolve"
	"github.com/sluice-proxy/sluice/pkg/converters/settings"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/token"
)

// ConvertRoute turns the HTTPRoute, GRPCRoute, TLSRoute, TCPRoute or UDPRoute of the given key
// into its fragment; the zero RouteFragment if there is none, or if all of its parents are
// foreign.
func ConvertRoute(v *snapshot.View, class Class, key snapshot.Key) RouteFragment {
	meta, spec := read(v, key)
	if meta == nil {
		return RouteFragment{}
	}
	c := &routeConverter{v: v, class: class, key: key, origin: key.Origin()}
	c.hostnames(spec.hostnames)
	parents := c.attach(spec.parents)
	if !c.f.Mine {
		return RouteFragment{}
	}
	c.f.Created, c.f.Generation = meta.CreationTimestamp.Time, meta.Generation
	c.f.Findings = append(c.f.Findings, resolve.ForeignAnnotations(c.origin, meta.Annotations)...)
	c.layers = resolve.AnnotationLayers(c.origin, meta.Annotations)
	if token.IsLabel(key.Namespace) {
		spec.rules(c)
	}
	c.emit(parents)
	c.f.Findings = report.Sort(c.f.Findings)
	return c.f
}

// routeSpec is what the kinds of routes have in common.
type routeSpec struct {
	parents   []gatewayv1.ParentReference
	hostnames []gatewayv1.Hostname
	rules     func(*routeConverter)
}

// read looks a route up by its kind; nil: there is none.
func read(v *snapshot.View, key snapshot.Key) (*metav1.ObjectMeta, routeSpec) {
	switch key.Kind {
	case snapshot.HTTPRoute:
		if r := v.HTTPRoute(key.Namespace, key.Name); r != nil {
			return &r.ObjectMeta, routeSpec{r.Spec.ParentRefs, r.Spec.Hostnames, func(c *routeConverter) { c.httpRules(r.Spec.Rules) }}
		}
	case snapshot.GRPCRoute:
		if r := v.GRPCRoute(key.Namespace, key.Name); r != nil {
			return &r.ObjectMeta, routeSpec{r.Spec.ParentRefs, r.Spec.Hostnames, func(c *routeConverter) { c.grpcRules(r.Spec.Rules) }}
		}
	case snapshot.TLSRoute:
		if r := v.TLSRoute(key.Namespace, key.Name); r != nil {
			return &r.ObjectMeta, routeSpec{r.Spec.ParentRefs, r.Spec.Hostnames, func(c *routeConverter) {
				for i := range r.Spec.Rules {
					c.connections(i, r.Spec.Rules[i].Name, r.Spec.Rules[i].BackendRefs)
				}
			}}
		}
	case snapshot.TCPRoute:
		if r := v.TCPRoute(key.Namespace, key.Name); r != nil {
			return &r.ObjectMeta, routeSpec{r.Spec.ParentRefs, nil, func(c *routeConverter) {
				for i := range r.Spec.Rules {
					c.connections(i, r.Spec.Rules[i].Name, r.Spec.Rules[i].BackendRefs)
				}
			}}
		}
	case snapshot.UDPRoute:
		if r := v.UDPRoute(key.Namespace, key.Name); r != nil {
			return &r.ObjectMeta, routeSpec{r.Spec.ParentRefs, nil, func(c *routeConverter) {
				for i := range r.Spec.Rules {
					c.connections(i, r.Spec.Rules[i].Name, r.Spec.Rules[i].BackendRefs)
				}
			}}
		}
	default:
		panic("gateway: " + string(key.Kind) + " is no kind of route")
	}
	return nil, routeSpec{}
}

// routeConverter collects the fragment of one route.
type routeConverter struct {
	v      *snapshot.View
	class  Class
	key    snapshot.Key
	origin model.Origin
	layers []settings.Layer // of the route
	hosts  []string         // valid ones
	named  bool             // the route names hostnames

	drafts  []draft
	count   int        // of rules
	dropped []ruleFlaw // rules that are left out, or deny, in their order
	broken  *problem   // the first broken reference to a backend
	f       RouteFragment
}

// ruleFlaw is why a rule is not as its author asked for.
type ruleFlaw struct {
	index  int
	denied bool // the rule stands, and answers 500
	why    *problem
}

func (c *routeConverter) report(code report.Code, field, format string, args ...any) {
	c.f.Findings = append(c.f.Findings, report.New(code, c.at(field), format, args...))
}

func (c *routeConverter) at(field string) model.Origin {
	origin := c.origin
	origin.Field = field
	return origin
}

func (c *routeConverter) hostnames(list []gatewayv1.Hostname) {
	c.named = len(list) > 0
	for i, text := range list {
		host, err := token.RuleHost(string(text))
		if err == nil && host == token.AnyHost {
			err = fmt.Errorf("it is empty")
		}
		if err != nil {
			c.report(report.HostInvalid, fmt.Sprintf("spec.hostnames[%d]", i), "host %.260q is not valid: %v", text, err)
			continue
		}
		c.hosts = append(c.hosts, host)
	}
}

// emit writes attachments and status.
func (c *routeConverter) emit(parents []attached) {
	unusable := c.unusable()
	rules := map[site][]Rule{}
	for i := range parents {
		a := &parents[i]
		if a.refused == nil && unusable != nil {
			a.refused, a.places = unusable, nil
		}
		for _, p := range a.places {
			c.place(&p, len(c.f.Parents), rules)
		}
		status := a.status(c.class, c.resolved())
		if a.refused == nil && len(c.dropped) > 0 {
			status.Conditions = append(status.Conditions, condition(gatewayv1.RouteConditionPartiallyInvalid, metav1.ConditionTrue,
				gatewayv1.RouteReasonUnsupportedValue, c.flaws()))
		}
		observed(status.Conditions, c.f.Generation)
		c.f.Parents = append(c.f.Parents, status)
	}
	slices.SortFunc(c.f.Attachments, func(a, b Attachment) int { return compareListeners(a.Listener, b.Listener) })
}

// place attaches the route to a listener, once whatever the number of parentRefs that lead
// there.
func (c *routeConverter) place(p *place, parent int, rules map[site][]Rule) {
	id := ListenerID{Gateway: p.parent.key, Set: p.parent.set, Name: string(p.listener.Name)}
	for i := range c.f.Attachments {
		if known := &c.f.Attachments[i]; known.Listener == id {
			if !slices.Contains(known.Parents, parent) {
				known.Parents = append(known.Parents, parent)
			}
			return
		}
	}
	s := siteOf(p, c.redirects())
	if _, made := rules[s]; !made {
		layers := append(p.parent.layers[:len(p.parent.layers):len(p.parent.layers)], c.layers...)
		for i := range c.drafts {
			rules[s] = append(rules[s], c.drafts[i].rule(s, p.parent.client, layers))
		}
	}
	c.f.Attachments = append(c.f.Attachments, Attachment{Listener: id, Hosts: p.hosts, Rules: rules[s], Parents: []int{parent}})
}

// redirects tells whether the listener's port matters.
func (c *routeConverter) redirects() bool {
	return slices.ContainsFunc(c.drafts, func(d draft) bool { return d.redirects() })
}

// unusable is why the route can't be accepted whatever the parent is: it has rules, and all of
// them are left out.
func (c *routeConverter) unusable() *problem {
	left := 0
	for _, flaw := range c.dropped {
		if !flaw.denied {
			left++
		}
	}
	if c.count == 0 || left < c.count {
		return nil
	}
	reason := c.dropped[0].why.reason
	if reason != string(gatewayv1.RouteReasonIncompatibleFilters) {
		reason = string(gatewayv1.RouteReasonUnsupportedValue)
	}
	return problemOf(reason, "%s", c.flaws())
}

// flaws says what became of which rules. The prefix is the API's.
func (c *routeConverter) flaws() string {
	var words []string
	for _, flaw := range c.dropped {
		fate := "left out"
		if flaw.denied {
			fate = "answers 500"
		}
		words = append(words, fmt.Sprintf("%d (%s): %s", flaw.index, fate, flaw.why.message))
	}
	return "Dropped Rule " + strings.Join(words, "; ")
}

func (c *routeConverter) resolved() metav1.Condition {
	if c.broken != nil {
		return condition(gatewayv1.RouteConditionResolvedRefs, metav1.ConditionFalse, c.broken.reason, c.broken.message)
	}
	return condition(gatewayv1.RouteConditionResolvedRefs, metav1.ConditionTrue, gatewayv1.RouteReasonResolvedRefs, "all references are resolved")
}

// drop notes that a rule is left out.
func (c *routeConverter) drop(index int, field string, why *problem) {
	c.report(report.RuleInvalid, field, "the rule is left out: %s", why.message)
	c.dropped = append(c.dropped, ruleFlaw{index: index, why: why})
}

// denyRule notes that a rule answers 500, since what a filter protects must not be open.
func (c *routeConverter) denyRule(index int, field string, why *problem) {
	c.report(report.RuleInvalid, field, "requests are answered 500: %s", why.message)
	c.dropped = append(c.dropped, ruleFlaw{index: index, denied: true, why: why})
}
