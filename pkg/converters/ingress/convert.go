package ingress

import (
	"fmt"
	"strconv"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/resolve"
	"github.com/sluice-proxy/sluice/pkg/converters/settings"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/token"
)

// Convert turns the Ingress of the given key into its fragment; the zero Fragment if there
// is none.
func Convert(v *snapshot.View, g *resolve.Globals, class Class, key snapshot.Key) Fragment {
	ing := v.Ingress(key.Namespace, key.Name)
	if ing == nil {
		return Fragment{}
	}
	selected := class.selects(v, ing, key.Origin())
	if !selected.mine {
		return Fragment{Findings: selected.findings}
	}
	c := converter{key: key, origin: key.Origin(), fragment: Fragment{Mine: true, Created: ing.CreationTimestamp.Time}}
	if !token.IsLabel(key.Namespace) {
		c.report(report.ObjectInvalid, "metadata.namespace", "%.70q is not the name of a namespace", key.Namespace)
		return c.fragment
	}
	parameters, findings := class.parameters(v, selected.class)
	c.fragment.Findings = append(findings, resolve.ForeignAnnotations(c.origin, ing.Annotations)...)
	c.layers = append(parameters, resolve.AnnotationLayers(c.origin, ing.Annotations)...)
	// What is wrong with the options is reported by each backend unit, which reads them too.
	c.set, _ = g.Set.Override(allowed, c.layers...)
	if c.isTCP() {
		c.tcp(&ing.Spec)
		return c.fragment
	}
	hosts := c.rules(ing.Spec.Rules, ing.Spec.DefaultBackend != nil)
	c.appRoot(hosts)
	c.defaultBackend(ing.Spec.DefaultBackend, hosts, len(ing.Spec.Rules) == 0)
	c.tls(ing.Spec.TLS, hosts)
	return c.fragment
}

// allowed are the scopes of options that an Ingress and the parameters of its class set.
const allowed = settings.Host | settings.Path | settings.Backend | settings.TCP

// converter collects the fragment of one Ingress.
type converter struct {
	key      snapshot.Key
	origin   model.Origin
	layers   []settings.Layer
	set      *settings.Set
	listener *Listener // of a TCP service; nil: the Ingress is one for HTTP
	fragment Fragment
}

func (c *converter) report(code report.Code, field, format string, args ...any) {
	c.fragment.Findings = append(c.fragment.Findings, report.New(code, c.at(field), format, args...))
}

func (c *converter) at(field string) model.Origin {
	origin := c.origin
	origin.Field = field
	return origin
}

// rules converts all rules and returns their valid hosts, in the order of the rules and
// without repetitions.
func (c *converter) rules(rules []networkingv1.IngressRule, hasDefault bool) []string {
	var hosts []string
	seen := map[string]bool{}
	for i := range rules {
		rule := &rules[i]
		field := "spec.rules[" + strconv.Itoa(i) + "]"
		host, err := token.RuleHost(rule.Host)
		if err != nil {
			c.report(report.HostInvalid, field+".host", "host %.260q is not valid: %v", rule.Host, err)
			continue
		}
		if !seen[host] {
			seen[host] = true
			hosts = append(hosts, host)
		}
		if rule.HTTP == nil || len(rule.HTTP.Paths) == 0 {
			if !hasDefault {
				c.report(report.ObjectInvalid, field, "the rule has no paths and the Ingress no defaultBackend; nothing is served")
			}
			continue
		}
		for j := range rule.HTTP.Paths {
			c.path(host, &rule.HTTP.Paths[j], field+".http.paths["+strconv.Itoa(j)+"]")
		}
	}
	return hosts
}

func (c *converter) path(host string, p *networkingv1.HTTPIngressPath, field string) {
	path, err := token.Path(p.Path)
	if err != nil {
		c.report(report.PathInvalid, field+".path", "path %.100q is not valid: %v", p.Path, err)
		return
	}
	match, ok := c.match(p.PathType)
	if !ok {
		c.report(report.ObjectInvalid, field+".pathType", "path type %.30q is not known; use Exact, Prefix or ImplementationSpecific", *p.PathType)
		return
	}
	if match == Prefix && len(path) > 1 && path[len(path)-1] == '/' {
		path = path[:len(path)-1]
	}
	ref, ok := c.backend(&p.Backend, field+".backend")
	if !ok {
		return
	}
	if ref.Service != "" && c.set.Text(optionRewrite) != "" {
		ref.StripPath = path
	}
	c.add(Route{Host: host, Path: path, Match: match, Backend: ref, Origin: c.at(field)})
}

func (c *converter) add(route Route) { c.fragment.Routes = append(c.fragment.Routes, route) }

func (c *converter) match(pathType *networkingv1.PathType) (Match, bool) {
	if pathType == nil {
		return c.specific(), true
	}
	switch *pathType {
	case networkingv1.PathTypeExact:
		return Exact, true
	case networkingv1.PathTypePrefix:
		return Prefix, true
	case networkingv1.PathTypeImplementationSpecific, "":
		return c.specific(), true
	}
	return 0, false
}

// specific is what ImplementationSpecific means.
func (c *converter) specific() Match {
	switch c.set.Text(optionPathType) {
	case "exact":
		return Exact
	case "prefix":
		return Prefix
	}
	return Begin
}

// backend is what a path asks for; false if that makes no sense.
func (c *converter) backend(b *networkingv1.IngressBackend, field string) (resolve.BackendRef, bool) {
	ref := resolve.BackendRef{Namespace: c.key.Namespace, Layers: c.layers, Origin: c.at(field), TCP: c.listener != nil}
	switch {
	case b.Service == nil && b.Resource != nil:
		c.report(report.ResourceBackend, field+".resource", "%s %q can't be a backend; name a Service", b.Resource.Kind, b.Resource.Name)
		return resolve.BackendRef{Namespace: c.key.Namespace, Deny: resolve.StatusDenied, TCP: ref.TCP}, true
	case b.Service == nil:
		c.report(report.ObjectInvalid, field, "the backend names no Service")
		return ref, false
	case !token.IsLabel(b.Service.Name):
		c.report(report.ObjectInvalid, field+".service.name", "%.70q is not the name of a Service", b.Service.Name)
		return ref, false
	}
	ref.Service = b.Service.Name
	switch port := b.Service.Port; {
	case port.Number > 0:
		ref.Port = strconv.Itoa(int(port.Number))
	case token.IsLabel(port.Name):
		ref.Port = port.Name
	default:
		c.report(report.ObjectInvalid, field+".service.port", "the backend names no port of Service %s", b.Service.Name)
		return ref, false
	}
	return ref, true
}

// appRoot adds what the option app-root asks for: a redirect of "/" on each host. It stands
// before the Ingress' own paths, which it wins over.
func (c *converter) appRoot(hosts []string) {
	target := c.set.Text(optionAppRoot)
	if target == "" {
		return
	}
	origin := c.set.Origin(optionAppRoot)
	redirect := settings.Layer{Origin: origin, Raw: map[string]string{"redirect-to": target}}
	redirect.Origin.Field += " as "
	layers := append(c.layers[:len(c.layers):len(c.layers)], redirect)
	routes := make([]Route, 0, len(hosts)+len(c.fragment.Routes))
	for _, host := range hosts {
		ref := resolve.BackendRef{Namespace: c.key.Namespace, Layers: layers}
		routes = append(routes, Route{Host: host, Path: "/", Match: Exact, Backend: ref, Origin: c.at(origin.Field)})
	}
	c.fragment.Routes = append(routes, c.fragment.Routes...)
}

// defaultBackend serves what no path of the Ingress' hosts takes, or, if it has no rules,
// every host that nobody claims. It never becomes the fallback of hosts that it does not own.
func (c *converter) defaultBackend(b *networkingv1.IngressBackend, hosts []string, everywhere bool) {
	if b == nil {
		return
	}
	ref, ok := c.backend(b, "spec.defaultBackend")
	if !ok {
		return
	}
	if ref.Service != "" && c.set.Text(optionRewrite) != "" {
		ref.StripPath = "/"
	}
	if everywhere {
		hosts = []string{token.AnyHost}
	}
	for _, host := range hosts {
		c.add(Route{Host: host, Match: Default, Backend: ref, Origin: c.at("spec.defaultBackend")})
	}
}

// tls claims the certificates of hosts: those of each entry or, where it has none, those of
// the rules.
func (c *converter) tls(entries []networkingv1.IngressTLS, ruleHosts []string) {
	for i := range entries {
		entry := &entries[i]
		field := fmt.Sprintf("spec.tls[%d]", i)
		secret := snapshot.Key{}
		if entry.SecretName != "" {
			secret = snapshot.Key{Kind: snapshot.Secret, Namespace: c.key.Namespace, Name: entry.SecretName}
		}
		claimed := false
		for j, text := range entry.Hosts {
			host, err := token.RuleHost(text)
			if err == nil && host == token.AnyHost {
				err = fmt.Errorf("it is empty")
			}
			if err != nil {
				c.report(report.HostInvalid, fmt.Sprintf("%s.hosts[%d]", field, j), "host %.260q is not valid: %v", text, err)
				continue
			}
			c.fragment.TLS = append(c.fragment.TLS, TLS{Host: host, Secret: secret, Origin: c.at(field)})
		}
		if len(entry.Hosts) > 0 {
			continue
		}
		for _, host := range ruleHosts {
			if host == token.AnyHost && c.listener != nil {
				claimed = true // it is the certificate of the port
			}
			if host != token.AnyHost {
				c.fragment.TLS = append(c.fragment.TLS, TLS{Host: host, Secret: secret, Origin: c.at(field)})
				claimed = true
			}
		}
		if !claimed {
			c.report(report.ObjectInvalid, field, "neither the entry nor a rule names a host that the certificate is for")
		}
	}
}
