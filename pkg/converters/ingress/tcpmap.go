package ingress

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/resolve"
	"github.com/sluice-proxy/sluice/pkg/converters/settings"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/token"
)

// TCPServices turns the ConfigMap of TCP services into a fragment: each key is a port, each
// value namespace/service:port and up to five fields, see entry. Nothing but a finding if there is
// no such ConfigMap.
func TCPServices(v *snapshot.View, key snapshot.Key) Fragment {
	object := v.ConfigMap(key.Namespace, key.Name)
	if object == nil {
		return Fragment{Findings: []report.Finding{report.New(report.ConfigMapMissing, key.Origin(), "the ConfigMap of TCP services does not exist: no port is opened for it")}}
	}
	c := converter{key: key, origin: key.Origin(), fragment: Fragment{Mine: true, Created: object.CreationTimestamp.Time}}
	for _, port := range slices.Sorted(maps.Keys(object.Data)) {
		c.entry(port, object.Data[port])
	}
	return c.fragment
}

// Fields of an entry, as haproxy-ingress has them. Those of ingress-nginx are its first four,
// with PROXY for the fourth; kubernetes-ingress of HAProxy Technologies writes ssl as the third.
const (
	fieldService = iota
	fieldPort
	fieldAccept      // PROXY: clients speak the PROXY protocol
	fieldSend        // PROXY-V1 or PROXY-V2: so does the proxy with the servers
	fieldCertificate // Secret: TLS ends at the port
	fieldCheck       // time between two checks of a server; - or nothing: no checks
	fieldAuthority   // Secret: who may sign the certificates of clients
	fieldCount
)

// entry converts one line of the ConfigMap.
func (c *converter) entry(name, text string) {
	at := "data." + name
	invalid := func(format string, args ...any) { c.report(report.ObjectInvalid, at, format, args...) }
	port, err := strconv.ParseUint(name, 10, 16)
	if err != nil || port == 0 {
		invalid("%.30q is not a port from 1 to 65535", name)
		return
	}
	fields := strings.Split(strings.TrimSpace(text), ":")
	if len(fields) < 2 || len(fields) > fieldCount {
		invalid("write namespace/service:port in place of %.100q", text)
		return
	}
	fields = append(fields, make([]string, fieldCount-len(fields))...)
	namespace, service, ok := strings.Cut(fields[fieldService], "/")
	if !ok || !token.IsLabel(namespace) || !token.IsLabel(service) {
		invalid("%.100q is not namespace/service", fields[fieldService])
		return
	}
	if number, err := strconv.ParseUint(fields[fieldPort], 10, 16); !token.IsLabel(fields[fieldPort]) || err == nil && number == 0 {
		invalid("%.70q is no port of a Service", fields[fieldPort])
		return
	}
	listener := &Listener{Port: int(port)}
	ref := resolve.BackendRef{Namespace: namespace, Service: service, Port: fields[fieldPort], Origin: c.at(at), TCP: true}
	raw := map[string]string{}
	if !c.options(fields, listener, raw, at) {
		ref = resolve.BackendRef{Namespace: namespace, Deny: resolve.StatusDenied, TCP: true}
	} else if len(raw) > 0 {
		ref.Layers = []settings.Layer{{Origin: c.at(at + " as "), Raw: raw}}
	}
	c.add(Route{Host: token.AnyHost, Match: Connection, Backend: ref, TCP: listener, Origin: c.at(at)})
}

// options reads the fields behind the Service. False: the port would be open to more than was
// meant, so it is closed.
func (c *converter) options(fields []string, listener *Listener, raw map[string]string, at string) bool {
	switch accept := fields[fieldAccept]; strings.ToLower(accept) {
	case "":
	case "proxy":
		listener.AcceptProxy = true
	case "ssl":
		listener.TLS = true
	default:
		c.report(report.ObjectInvalid, at, "%.30q stands where PROXY or nothing may stand; it is ignored", accept)
	}
	switch send := fields[fieldSend]; strings.ToUpper(send) {
	case "":
	case "PROXY", "PROXY-V1":
		raw["proxy-protocol"] = "v1"
	case "PROXY-V2":
		raw["proxy-protocol"] = "v2"
	default:
		c.report(report.ObjectInvalid, at, "%.30q stands where PROXY-V1, PROXY-V2 or nothing may stand; it is ignored", send)
	}
	if interval := fields[fieldCheck]; interval != "" && interval != "-" {
		raw["health-check-interval"] = interval
	}
	if secret := fields[fieldCertificate]; secret != "" {
		namespace, name, ok := strings.Cut(secret, "/")
		if !ok {
			namespace, _, _ = strings.Cut(fields[fieldService], "/")
			name = secret
		}
		listener.TLS = true
		listener.Secret = snapshot.Key{Kind: snapshot.Secret, Namespace: namespace, Name: name}
	}
	if fields[fieldAuthority] != "" {
		c.report(report.ProtectionDenied, at, "connections are closed, since client certificates are not offered yet; remove the Secret of the authority, or let the server ask for them")
		return false
	}
	return true
}
