package resolve

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/settings"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

var (
	httpName = new("http")
	p8080    = new(int32(8080))
	pod      = endpoint("10.0.0.1")
	udp      = corev1.ServicePort{Port: 53, Name: "dns", Protocol: corev1.ProtocolUDP}
)

func externalName(name string, ports ...corev1.ServicePort) *corev1.Service {
	s := service(ports...)
	s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeExternalName, name
	return s
}

func publishing(s *corev1.Service) *corev1.Service {
	s.Spec.PublishNotReadyAddresses = true
	return s
}

func ofType(s *discoveryv1.EndpointSlice, kind discoveryv1.AddressType) *discoveryv1.EndpointSlice {
	s.AddressType = kind
	return s
}

var endpointTests = map[string]struct {
	objects []any
	port    string
	want    string // servers and states
	codes   string
}{
	"a Service that does not exist": {nil, "80", "", "ServiceMissing"},
	"no slices":                     {[]any{service(port(80, "http"))}, "80", "", ""},
	"a slice without endpoints":     {[]any{service(port(80, "http")), slice("a", httpName, p8080)}, "80", "", ""},
	"the port by number": {
		[]any{service(port(80, "http")), slice("a", httpName, p8080, pod)}, "80", "10.0.0.1:8080 ready", ""},
	"the port by name": {
		[]any{service(port(80, "http")), slice("a", httpName, p8080, pod)}, "http", "10.0.0.1:8080 ready", ""},
	"a port that the Service lacks": {
		[]any{service(port(80, "http")), slice("a", httpName, p8080, pod)}, "81", "", "ServicePortMissing"},
	"a name that the Service lacks, though the slice has it": {
		[]any{service(port(80, "web")), slice("a", httpName, p8080, pod)}, "http", "", "ServicePortMissing"},
	"the pod's port number is no port of the Service": {
		[]any{service(port(80, "http")), slice("a", httpName, p8080, pod)}, "8080", "", "ServicePortMissing"},
	"port 70000 does not become 4464": {
		[]any{service(port(4464, "")), slice("a", nil, p8080, pod)}, "70000", "", "ServicePortMissing"},
	"a port beyond 32 bits": {
		[]any{service(port(80, "")), slice("a", nil, p8080, pod)}, "4294967376", "", "ServicePortMissing"},
	"no port at all": {
		[]any{service(port(80, "")), slice("a", nil, p8080, pod)}, "", "", "ServicePortMissing"},
	"a Service without ports": {[]any{service(), slice("a", httpName, p8080, pod)}, "80", "", "ServicePortMissing"},
	"a UDP port is no port":   {[]any{service(udp), slice("a", new("dns"), p8080, pod)}, "53", "", "ServicePortMissing"},
	"a slice without a port name serves the Service port without a name": {
		[]any{service(port(80, "")), slice("a", nil, p8080, pod)}, "80", "10.0.0.1:8080 ready", ""},
	"a slice port of another name is not taken": {
		[]any{service(port(80, "http")), slice("a", new("admin"), p8080, pod)}, "80", "", ""},
	"a slice port without a number costs its slice only": {
		[]any{service(port(80, "http")), slice("a", httpName, nil, pod), slice("b", httpName, p8080, endpoint("10.0.0.2"))},
		"80", "10.0.0.2:8080 ready", "EndpointInvalid"},
	"a slice port number out of range": {
		[]any{service(port(80, "http")), slice("a", httpName, new(int32(70000)), pod)}, "80", "", "EndpointInvalid"},
	"pods with differing numbers of a named target port": {
		[]any{service(port(80, "http")), slice("a", httpName, p8080, pod), slice("b", httpName, new(int32(9090)), endpoint("10.0.0.2"))},
		"80", "10.0.0.1:8080 ready, 10.0.0.2:9090 ready", ""},
	"IPv4 and IPv6": {
		[]any{service(port(80, "http")), ofType(slice("a", httpName, p8080, endpoint("fd00::1")), discoveryv1.AddressTypeIPv6), slice("b", httpName, p8080, pod)},
		"80", "10.0.0.1:8080 ready, fd00::1:8080 ready", ""},
	"an IPv4 address written as IPv6 is the same server": {
		[]any{service(port(80, "http")), ofType(slice("a", httpName, p8080, endpoint("::ffff:10.0.0.1")), discoveryv1.AddressTypeIPv6), slice("b", httpName, p8080, pod)},
		"80", "10.0.0.1:8080 ready", ""},
	"DNS names": {
		[]any{service(port(80, "http")), ofType(slice("a", httpName, p8080, endpoint("B.example.com."), endpoint("a b")), discoveryv1.AddressTypeFQDN)},
		"80", "b.example.com:8080 ready", "EndpointInvalid"},
	"loopback and link-local addresses are refused": {
		[]any{service(port(80, "http")), slice("a", httpName, p8080, endpoint("127.0.0.1"), endpoint("::1"), endpoint("169.254.169.254"))}, "80", "", "EndpointInvalid"},
	"addresses that no server can have": {
		[]any{service(port(80, "http")), slice("a", httpName, p8080, endpoint("0.0.0.0"), endpoint("::"), endpoint("224.0.0.1"),
			endpoint("fe80::1%eth0"), endpoint("10.0.0.256"), endpoint("10.0.0.1 check"), discoveryv1.Endpoint{}, endpoint("10.0.0.7"))},
		"80", "10.0.0.7:8080 ready", "EndpointInvalid"},
	"only the first address of an endpoint counts": {
		[]any{service(port(80, "http")), slice("a", httpName, p8080, discoveryv1.Endpoint{Addresses: []string{"10.0.0.1", "10.0.0.2"}})},
		"80", "10.0.0.1:8080 ready", ""},
	"ready in one slice and not in another": {
		[]any{service(port(80, "http")), slice("a", httpName, p8080, endpoint("10.0.0.1", "!ready")), slice("b", httpName, p8080, pod)},
		"80", "10.0.0.1:8080 ready", ""},
	"the same with the slices swapped": {
		[]any{service(port(80, "http")), slice("b", httpName, p8080, endpoint("10.0.0.1", "!ready")), slice("a", httpName, p8080, pod)},
		"80", "10.0.0.1:8080 ready", ""},
	"terminating and serving beside a ready one": {
		[]any{service(port(80, "http")), slice("a", httpName, p8080, pod, endpoint("10.0.0.2", "!ready", "serving", "terminating"))},
		"80", "10.0.0.1:8080 ready, 10.0.0.2:8080 drain", ""},
	"only terminating and serving ones are left": {
		[]any{service(port(80, "http")), slice("a", httpName, p8080, endpoint("10.0.0.1", "!ready", "!serving"), endpoint("10.0.0.2", "!ready", "serving", "terminating"))},
		"80", "10.0.0.1:8080 maint, 10.0.0.2:8080 ready", ""},
	"unready addresses that the Service publishes": {
		[]any{publishing(service(port(80, ""))), slice("a", nil, p8080, endpoint("10.0.0.1", "!ready", "!serving"))}, "80", "10.0.0.1:8080 ready", ""},
	"an external name with ports": {
		[]any{externalName("db.example.com", port(80, "http")), slice("a", httpName, p8080, pod)}, "http", "db.example.com:80 ready", ""},
	"an external name without ports": {[]any{externalName("Db.Example.com.")}, "80", "db.example.com:80 ready", ""},
	"an external name without ports, asked for a name": {
		[]any{externalName("db.example.com")}, "http", "", "ServicePortMissing"},
	"an external name asked for another port": {
		[]any{externalName("db.example.com", port(80, "http"))}, "81", "", "ServicePortMissing"},
	"an external name and a port out of range": {[]any{externalName("db.example.com")}, "70000", "", "ServicePortMissing"},
	"an external name that is an address":      {[]any{externalName("10.0.0.9")}, "80", "10.0.0.9:80 ready", ""},
	"an external name that is none":            {[]any{externalName("a b")}, "80", "", "EndpointInvalid"},
	"no external name":                         {[]any{externalName("")}, "80", "", "EndpointInvalid"},
}

func TestEndpoints(t *testing.T) {
	for name, test := range endpointTests {
		t.Run(name, func(t *testing.T) {
			ref := BackendRef{Namespace: "default", Service: "web", Port: test.port}
			v := view(t, test.objects...)
			got := endpointsOf(v, v.Service("default", "web"), ref, endpointRules{})
			if s := states(got.servers); s != test.want {
				t.Errorf("servers %q, want %q", s, test.want)
			}
			if c := codes(got.findings); c != test.codes {
				t.Errorf("findings %q, want %q: %v", c, test.codes, got.findings)
			}
			if !slices.IsSortedFunc(got.servers, model.CompareServers) {
				t.Error("not sorted")
			}
			dns := slices.ContainsFunc(got.servers, func(s model.Server) bool { return s.Host != "" })
			if dns != got.dns {
				t.Errorf("dns = %v, want %v", got.dns, dns)
			}
		})
	}
}

// TestState walks the whole table of conditions, nil included.
func TestState(t *testing.T) {
	tests := map[string]struct {
		conditions []string
		want       model.ServerState
	}{
		"nothing said":                              {nil, model.Ready},
		"ready":                                     {[]string{"ready"}, model.Ready},
		"ready and serving":                         {[]string{"ready", "serving", "!terminating"}, model.Ready},
		"not ready":                                 {[]string{"!ready"}, model.Maint},
		"not ready, nothing said of serving":        {[]string{"!ready", "terminating"}, model.Maint},
		"terminating and serving":                   {[]string{"!ready", "serving", "terminating"}, model.Drain},
		"terminating and not serving":               {[]string{"!ready", "!serving", "terminating"}, model.Maint},
		"not ready and not serving":                 {[]string{"!ready", "!serving", "!terminating"}, model.Maint},
		"serving, but not ready nor terminating":    {[]string{"!ready", "serving", "!terminating"}, model.Maint},
		"ready although terminating (published so)": {[]string{"ready", "serving", "terminating"}, model.Ready},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			e := endpoint("10.0.0.1", test.conditions...)
			if got := stateOf(&e.Conditions, false); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			if got := stateOf(&e.Conditions, true); got != model.Ready {
				t.Errorf("with publishNotReadyAddresses: got %s, want ready", got)
			}
		})
	}
}

// cluster has n Services svc-0 ... of ten endpoints each.
func cluster(b *testing.B, n int) []any {
	var objects []any
	for i := range n {
		s := service(port(80, "http"))
		s.Name = fmt.Sprintf("svc-%d", i)
		endpoints := slice(s.Name+"-x", new("http"), new(int32(8080)))
		endpoints.Labels[discoveryv1.LabelServiceName] = s.Name
		for j := range 10 {
			endpoints.Endpoints = append(endpoints.Endpoints, endpoint(fmt.Sprintf("10.%d.%d.%d", i/250, i%250, 250-j*7), "ready", "serving", "!terminating"))
		}
		objects = append(objects, s, endpoints)
	}
	return objects
}

// BenchmarkBackends10000x10 is a start from scratch of 10 000 backends.
func BenchmarkBackends10000x10(b *testing.B) {
	s := snap(b, cluster(b, 10000)...)
	set, _ := settings.Globals(settings.Layer{})
	g := NewGlobals(set)
	var names []string
	for i := range 10000 {
		names = append(names, fmt.Sprintf("svc-%d", i))
	}
	b.ReportAllocs()
	for b.Loop() {
		v := s.View()
		for i := range 10000 {
			f := Backend(v, g, BackendRef{Namespace: "default", Service: names[i], Port: "80"})
			if len(f.Backend.Servers) != 10 || f.Backend.Name != "default_"+names[i]+"_80" {
				b.Fatal(f.Backend)
			}
		}
	}
}
