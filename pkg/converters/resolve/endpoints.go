package resolve

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/token"
)

// reasonDNS is why a backend with a DNS name among its servers is static: "add server"
// refuses the keyword "resolvers".
const reasonDNS = "a server is a DNS name, which HAProxy resolves only for servers of its configuration file"

// endpoints are the servers of one port of a Service.
type endpoints struct {
	servers  []model.Server // sorted by model.CompareServers, unique, with their states
	dns      bool           // one of them is a DNS name
	findings []report.Finding

	rules endpointRules
	hints []hint // of each server; nil where nobody asks for them
}

// endpointRules are options that matter to endpoints.
type endpointRules struct {
	podUID bool // a server's cookie is the UID of its pod, where the slice names it
	local  bool // loopback and link-local addresses are allowed
	place  Place
}

// endpointsOf resolves the port of a Service, nil where it does not exist.
func endpointsOf(v *snapshot.View, service *corev1.Service, ref BackendRef, rules endpointRules) endpoints {
	asker := ref.Origin
	if service == nil {
		return failed(report.ServiceMissing, asker, "Service %s/%s does not exist", ref.Namespace, ref.Service)
	}
	if service.Spec.Type == corev1.ServiceTypeExternalName {
		return external(service, ref, rules)
	}
	port := servicePort(service, ref.Port, ref.protocol())
	if port == nil {
		return portMissing(service, &ref)
	}
	list := v.Slices(ref.Namespace, ref.Service)
	e := endpoints{servers: make([]model.Server, 0, countEndpoints(list)), rules: rules}
	near := wantsNear(service) && rules.place != (Place{})
	if near {
		e.hints = make([]hint, 0, cap(e.servers))
	}
	for _, slice := range list {
		e.addSlice(slice, port, service.Spec.PublishNotReadyAddresses)
	}
	if near {
		e.keepNear()
	}
	e.settle()
	return e
}

func failed(code report.Code, object model.Origin, format string, args ...any) endpoints {
	return endpoints{findings: []report.Finding{report.New(code, object, format, args...)}}
}

func countEndpoints(list []*discoveryv1.EndpointSlice) int {
	n := 0
	for _, slice := range list {
		n += len(slice.Endpoints)
	}
	return n
}

// servicePort finds the port of the protocol that a route names, by number or by name. A number
// that no port can have is found nowhere, so that 70000 never becomes 4464.
func servicePort(service *corev1.Service, want string, protocol corev1.Protocol) *corev1.ServicePort {
	number, isNumber := portNumber(want)
	for i := range service.Spec.Ports {
		port := &service.Spec.Ports[i]
		if cmp.Or(port.Protocol, corev1.ProtocolTCP) != protocol {
			continue
		}
		if isNumber && port.Port == number || !isNumber && want != "" && port.Name == want {
			return port
		}
	}
	return nil
}

// portNumber reads a port that is written as a number. A port's name holds at least one
// letter (RFC 6335), so the two can't be mixed up.
func portNumber(text string) (number int32, isNumber bool) {
	n, err := strconv.ParseUint(text, 10, 31)
	return int32(n), err == nil
}

func validPort(number int32) bool { return number >= 1 && number <= 65535 }

func portMissing(service *corev1.Service, ref *BackendRef) endpoints {
	var has []string
	for _, port := range service.Spec.Ports {
		text := strconv.Itoa(int(port.Port))
		if port.Name != "" {
			text += " (" + port.Name + ")"
		}
		if port.Protocol != "" && port.Protocol != corev1.ProtocolTCP {
			text += "/" + string(port.Protocol)
		}
		has = append(has, text)
	}
	if len(has) == 0 {
		has = []string{"none"}
	}
	return failed(report.ServicePortMissing, ref.Origin, "Service %s/%s has no %s port %q; its ports: %s",
		service.Namespace, service.Name, ref.protocol(), ref.Port, strings.Join(has, ", "))
}

// external is the one server of a Service of type ExternalName. EndpointSlices that are
// left over from another type of the Service do not count.
func external(service *corev1.Service, ref BackendRef, rules endpointRules) endpoints {
	want, asker := ref.Port, ref.Origin
	number, isNumber := portNumber(want)
	if len(service.Spec.Ports) > 0 {
		port := servicePort(service, want, ref.protocol())
		if port == nil {
			return portMissing(service, &ref)
		}
		number = port.Port
	} else if !isNumber {
		return portMissing(service, &ref)
	}
	if !validPort(number) {
		return failed(report.ServicePortMissing, asker, "%d is not a port; a port is 1 to 65535", number)
	}
	var e endpoints
	name := strings.TrimSuffix(service.Spec.ExternalName, ".")
	addr, err := netip.ParseAddr(name)
	if err == nil && rules.allow(addr) {
		e.servers = []model.Server{{Addr: netip.AddrPortFrom(addr.Unmap(), uint16(number))}}
		return e
	}
	host := strings.ToLower(name)
	if err == nil || !token.IsHostname(host) || host == "localhost" && !rules.local {
		object := snapshot.Key{Kind: snapshot.Service, Namespace: service.Namespace, Name: service.Name}.Origin()
		object.Field = "spec.externalName"
		return failed(report.EndpointInvalid, object, "%q is neither a DNS name nor an address that a server may have", service.Spec.ExternalName)
	}
	e.servers, e.dns = []model.Server{{Host: host, Port: uint16(number)}}, true
	return e
}

// addSlice adds the endpoints of a slice that serve the Service's port of that name. A
// slice's ports are those of the pods, so a named or a differing targetPort needs nothing
// else.
func (e *endpoints) addSlice(slice *discoveryv1.EndpointSlice, of *corev1.ServicePort, publishNotReady bool) {
	portName := of.Name
	port, ok := slicePort(slice, portName, cmp.Or(of.Protocol, corev1.ProtocolTCP))
	if !ok {
		return // these pods do not have the port (a targetPort by name that they lack)
	}
	if port.Port == nil || !validPort(*port.Port) {
		number := "no number"
		if port.Port != nil {
			number = fmt.Sprintf("the number %d", *port.Port)
		}
		e.blame(slice, "ports", "port %q has %s; its endpoints are left out", portName, number)
		return
	}
	bad, badAt := 0, 0
	for i := range slice.Endpoints {
		server, ok := e.rules.serverOf(slice, &slice.Endpoints[i], uint16(*port.Port))
		if !ok {
			if bad == 0 {
				badAt = i
			}
			bad++
			continue
		}
		server.State = stateOf(&slice.Endpoints[i].Conditions, publishNotReady)
		e.dns = e.dns || server.Host != ""
		if target := slice.Endpoints[i].TargetRef; e.rules.podUID && target != nil && isUID(string(target.UID)) {
			server.Cookie = string(target.UID)
		}
		e.servers = append(e.servers, server)
		if e.hints != nil {
			e.hints = append(e.hints, e.rules.place.hintOf(&slice.Endpoints[i]))
		}
	}
	if bad > 0 {
		// One finding for a slice: it may hold 1 000 endpoints.
		e.blame(slice, fmt.Sprintf("endpoints[%d].addresses", badAt),
			"%d of %d endpoints have no address that a server may have, the first one is %q%s",
			bad, len(slice.Endpoints), firstAddress(&slice.Endpoints[badAt]), e.rules.remedy(firstAddress(&slice.Endpoints[badAt])))
	}
}

// remedy is the flag with which servers may have an address; empty: there is none.
func (r endpointRules) remedy(address string) string {
	addr, err := netip.ParseAddr(address)
	r.local = true
	if err != nil || !r.allow(addr) {
		return ""
	}
	return ": it is one of this machine or link, which --allow-local-endpoints permits"
}

// isUID tells whether a text looks like the UID of an object: it becomes a word of a server
// line.
func isUID(text string) bool {
	return len(text) > 0 && len(text) <= 64 && strings.Trim(text, "0123456789abcdefABCDEF-") == ""
}

func (e *endpoints) blame(slice *discoveryv1.EndpointSlice, field, format string, args ...any) {
	object := snapshot.Key{Kind: snapshot.EndpointSlice, Namespace: slice.Namespace, Name: slice.Name}.Origin()
	object.Field = field
	e.findings = append(e.findings, report.New(report.EndpointInvalid, object, format, args...))
}

// slicePort finds the slice's port by the name and protocol of the Service's; no name is the
// empty name.
func slicePort(slice *discoveryv1.EndpointSlice, name string, protocol corev1.Protocol) (discoveryv1.EndpointPort, bool) {
	for _, port := range slice.Ports {
		if port.Protocol == nil && protocol != corev1.ProtocolTCP || port.Protocol != nil && *port.Protocol != protocol {
			continue
		}
		if port.Name == nil && name == "" || port.Name != nil && *port.Name == name {
			return port, true
		}
	}
	return discoveryv1.EndpointPort{}, false
}

func firstAddress(endpoint *discoveryv1.Endpoint) string {
	if len(endpoint.Addresses) == 0 {
		return ""
	}
	return endpoint.Addresses[0]
}

// serverOf is the server of an endpoint. Only the first address counts: the API gives no
// meaning to further ones.
func (r endpointRules) serverOf(slice *discoveryv1.EndpointSlice, endpoint *discoveryv1.Endpoint, port uint16) (model.Server, bool) {
	text := firstAddress(endpoint)
	if slice.AddressType == discoveryv1.AddressTypeFQDN {
		host := strings.ToLower(strings.TrimSuffix(text, "."))
		return model.Server{Host: host, Port: port}, token.IsHostname(host) && (host != "localhost" || r.local)
	}
	addr, err := netip.ParseAddr(text)
	if err != nil || !r.allow(addr) {
		return model.Server{}, false
	}
	return model.Server{Addr: netip.AddrPortFrom(addr.Unmap(), port)}, true
}

// allow tells whether a server may have the address. To HAProxy 0.0.0.0 and :: mean "the
// address that the client connected to", that is, the proxy itself; loopback addresses are
// those of what runs beside it, link-local ones often those of a cloud's metadata.
func (r endpointRules) allow(addr netip.Addr) bool {
	addr = addr.Unmap()
	if !r.local && (addr.IsLoopback() || addr.IsLinkLocalUnicast()) {
		return false
	}
	return !addr.IsUnspecified() && !addr.IsMulticast() && addr.Zone() == ""
}

// stateOf is the state of one endpoint, without regard to the others. Nil conditions mean
// what the API says: ready, serving as ready, not terminating.
func stateOf(c *discoveryv1.EndpointConditions, publishNotReady bool) model.ServerState {
	ready := c.Ready == nil || *c.Ready
	serving := c.Serving == nil && ready || c.Serving != nil && *c.Serving
	terminating := c.Terminating != nil && *c.Terminating
	switch {
	case ready || publishNotReady:
		return model.Ready
	case serving && terminating:
		return model.Drain
	}
	return model.Maint
}

// settle sorts the servers, keeps one of each address in its best state, and lets the
// terminating ones serve where no other is left.
func (e *endpoints) settle() {
	slices.SortFunc(e.servers, func(a, b model.Server) int {
		return cmp.Or(model.CompareServers(a, b), cmp.Compare(a.State, b.State))
	})
	e.servers = slices.CompactFunc(e.servers, func(a, b model.Server) bool {
		return a.Addr == b.Addr && a.Port == b.Port && a.Host == b.Host
	})
	ready := slices.ContainsFunc(e.servers, func(s model.Server) bool { return s.State == model.Ready })
	if ready {
		return
	}
	for i := range e.servers {
		if e.servers[i].State == model.Drain {
			e.servers[i].State = model.Ready
		}
	}
}
