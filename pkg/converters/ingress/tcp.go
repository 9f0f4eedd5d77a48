package ingress

import (
	"strconv"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/token"
)

// isTCP tells whether the Ingress is a TCP service. One whose port can't be read is none for
// HTTP either: what it serves was not meant to be reached that way.
func (c *converter) isTCP() bool {
	for i := len(c.layers) - 1; i >= 0; i-- {
		text, set := c.layers[i].Raw[optionTCPPort]
		switch {
		case !set:
			continue
		case text == "0":
			return false
		case !c.set.IsSet(optionTCPPort):
			c.report(report.OptionInvalid, c.layers[i].Origin.Field+optionTCPPort, "%.30q is not a port from 1 to 65535; the Ingress is not served", text)
		default:
			c.listener = &Listener{Port: c.set.Int(optionTCPPort), AcceptProxy: c.set.Bool(optionTCPProxy)}
		}
		return true
	}
	return false
}

// tcp converts the Ingress to claims on connections to its port.
func (c *converter) tcp(spec *networkingv1.IngressSpec) {
	if c.listener == nil {
		return
	}
	c.listener.TLS = len(spec.TLS) > 0
	c.listener.Secret = c.secretOfAny(spec.TLS)
	var hosts []string
	for i := range spec.Rules {
		rule := &spec.Rules[i]
		field := "spec.rules[" + strconv.Itoa(i) + "]"
		host, err := token.RuleHost(rule.Host)
		switch {
		case err != nil:
			c.report(report.HostInvalid, field+".host", "host %.260q is not valid: %v", rule.Host, err)
			continue
		case rule.HTTP == nil || len(rule.HTTP.Paths) == 0:
			c.report(report.ObjectInvalid, field, "the rule names no backend; nothing is served")
			continue
		}
		hosts = append(hosts, host)
		for j := range rule.HTTP.Paths {
			path, field := &rule.HTTP.Paths[j], field+".http.paths["+strconv.Itoa(j)+"]"
			if path.Path != "" && path.Path != "/" {
				c.report(report.PathInvalid, field+".path", "a TCP service has no paths: write / in place of %.100q", path.Path)
				continue
			}
			c.connection(host, &path.Backend, field)
		}
	}
	if spec.DefaultBackend != nil {
		hosts = append(hosts, token.AnyHost)
		c.connection(token.AnyHost, spec.DefaultBackend, "spec.defaultBackend")
	}
	c.tls(spec.TLS, hosts)
}

func (c *converter) connection(host string, backend *networkingv1.IngressBackend, field string) {
	inside := field
	if field != "spec.defaultBackend" {
		inside += ".backend"
	}
	ref, ok := c.backend(backend, inside)
	if !ok {
		return
	}
	c.add(Route{Host: host, Match: Connection, Backend: ref, TCP: c.listener, Origin: c.at(field)})
}

// secretOfAny is the certificate for clients that ask for no known name: that of the first
// entry without hosts, else of the first one with a Secret.
func (c *converter) secretOfAny(entries []networkingv1.IngressTLS) snapshot.Key {
	name := ""
	for i := range entries {
		if entry := &entries[i]; entry.SecretName != "" && len(entry.Hosts) == 0 {
			name = entry.SecretName
			break
		} else if name == "" {
			name = entry.SecretName
		}
	}
	if name == "" {
		return snapshot.Key{}
	}
	return snapshot.Key{Kind: snapshot.Secret, Namespace: c.key.Namespace, Name: name}
}
