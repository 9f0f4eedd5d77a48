package resolve

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// secret is a *SecretData with the name that it lacks itself.
type secret struct {
	name string
	data map[string]string
}

// snap is a snapshot that holds the given objects.
func snap(t testing.TB, objects ...any) *snapshot.Snapshot {
	t.Helper()
	var changes []snapshot.Change
	for _, object := range objects {
		switch o := object.(type) {
		case *corev1.Service:
			changes = append(changes, snapshot.Change{Key: snapshot.Key{Kind: snapshot.Service, Namespace: o.Namespace, Name: o.Name}, Object: o})
		case *discoveryv1.EndpointSlice:
			changes = append(changes, snapshot.Change{Key: snapshot.Key{Kind: snapshot.EndpointSlice, Namespace: o.Namespace, Name: o.Name}, Object: o})
		case *corev1.ConfigMap:
			changes = append(changes, snapshot.Change{Key: snapshot.Key{Kind: snapshot.ConfigMap, Namespace: o.Namespace, Name: o.Name}, Object: o})
		case *gatewayv1.BackendTLSPolicy:
			changes = append(changes, snapshot.Change{Key: snapshot.Key{Kind: snapshot.BackendTLSPolicy, Namespace: o.Namespace, Name: o.Name}, Object: o})
		case secret:
			data := map[string]model.Secret{}
			for key, text := range o.data {
				data[key] = model.NewSecret([]byte(text))
			}
			changes = append(changes, snapshot.Change{Key: secretKey(o.name), Object: &snapshot.SecretData{Data: data}})
		default:
			t.Fatalf("no object of type %T in this test", object)
		}
	}
	s := snapshot.New()
	s.Apply(changes)
	return s
}

func view(t testing.TB, objects ...any) *snapshot.View {
	t.Helper()
	return snap(t, objects...).View()
}

func secretKey(name string) snapshot.Key {
	namespace := "default"
	if ns, n, ok := strings.Cut(name, "/"); ok {
		namespace, name = ns, n
	}
	return snapshot.Key{Kind: snapshot.Secret, Namespace: namespace, Name: name}
}

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "default", Name: name}
}

// service is a Service "web" with the given ports.
func service(ports ...corev1.ServicePort) *corev1.Service {
	return &corev1.Service{ObjectMeta: meta("web"), Spec: corev1.ServiceSpec{Ports: ports}}
}

func port(number int32, name string) corev1.ServicePort {
	return corev1.ServicePort{Port: number, Name: name}
}

// slice is an EndpointSlice of Service "web" with one port.
func slice(name string, portName *string, number *int32, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	m := meta(name)
	m.Labels = map[string]string{discoveryv1.LabelServiceName: "web"}
	return &discoveryv1.EndpointSlice{
		ObjectMeta: m, AddressType: discoveryv1.AddressTypeIPv4, Endpoints: endpoints,
		Ports: []discoveryv1.EndpointPort{{Name: portName, Port: number}},
	}
}

func endpoint(address string, conditions ...string) discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{Addresses: []string{address}}
	for _, c := range conditions {
		name, on := strings.TrimPrefix(c, "!"), new(!strings.HasPrefix(c, "!"))
		switch name {
		case "ready":
			e.Conditions.Ready = on
		case "serving":
			e.Conditions.Serving = on
		case "terminating":
			e.Conditions.Terminating = on
		default:
			panic("no condition " + c)
		}
	}
	return e
}

// states are the servers with their states, in order.
func states(servers []model.Server) string {
	var text []string
	for _, s := range servers {
		text = append(text, s.Name()+" "+s.State.String())
	}
	return strings.Join(text, ", ")
}

// codes are the codes of findings, in order.
func codes(findings []report.Finding) string {
	var text []string
	for _, f := range findings {
		if _, known := report.Catalogue[f.Code]; !known {
			panic(fmt.Sprintf("%s is not in the catalogue", f.Code))
		}
		text = append(text, string(f.Code))
	}
	return strings.Join(text, " ")
}
