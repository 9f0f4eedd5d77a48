package status

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

func serviceKey() snapshot.Key {
	return snapshot.Key{Kind: snapshot.Service, Namespace: "sluice", Name: "lb"}
}

func ingressKey(name string) snapshot.Key {
	return snapshot.Key{Kind: snapshot.Ingress, Namespace: "a", Name: name}
}

// words are addresses in short.
func words(addresses []Address) string {
	var list []string
	for _, a := range addresses {
		word := a.IP + a.Hostname
		for _, port := range a.Ports {
			word += " port " + *port.Error
		}
		list = append(list, word)
	}
	return strings.Join(list, ", ")
}

func TestAddresses(t *testing.T) {
	balanced := func(list ...corev1.LoadBalancerIngress) *corev1.Service {
		s := &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, ClusterIP: "10.96.0.1"}}
		s.Status.LoadBalancer.Ingress = list
		return s
	}
	external := balanced(corev1.LoadBalancerIngress{IP: "192.0.2.9"})
	external.Spec.ExternalIPs = []string{"192.0.2.1", "192.0.2.9"}
	of := func(kind corev1.ServiceType, ips ...string) *corev1.Service {
		return &corev1.Service{Spec: corev1.ServiceSpec{Type: kind, ClusterIP: "10.96.0.1", ClusterIPs: []string{"10.96.0.1", "fd00::1"}, ExternalIPs: ips}}
	}
	cases := map[string]struct {
		service   *corev1.Service
		addresses []string
		want      string
	}{
		"IPs and names that are given, sorted":       {nil, []string{"192.0.2.2", "lb.example", "192.0.2.1", "192.0.2.2", "2001:DB8::1"}, "192.0.2.1, 192.0.2.2, 2001:db8::1, lb.example"},
		"nothing is given":                           {nil, nil, ""},
		"a load balancer's, and the external ones":   {external, nil, "192.0.2.1, 192.0.2.9"},
		"a load balancer's name":                     {balanced(corev1.LoadBalancerIngress{Hostname: "lb.example"}), nil, "lb.example"},
		"a load balancer without an address yet":     {balanced(), nil, ""},
		"a load balancer's port only with its error": {balanced(corev1.LoadBalancerIngress{IP: "192.0.2.1", Ports: []corev1.PortStatus{{Port: 80}, {Port: 443, Error: new("Broken")}}}), nil, "192.0.2.1 port Broken"},
		"a Service of the cluster":                   {of(corev1.ServiceTypeClusterIP), nil, "10.96.0.1, fd00::1"},
		"external addresses before those inside":     {of(corev1.ServiceTypeNodePort, "192.0.2.1"), nil, "192.0.2.1"},
		"a headless Service":                         {&corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: "None", ClusterIPs: []string{"None"}}}, nil, ""},
		"a Service that has only the old field":      {&corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.2"}}, nil, "10.96.0.2"},
		"another name":                               {&corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "far.example"}}, nil, "far.example"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s, publish := snapshot.New(), Publish{Addresses: c.addresses}
			if c.service != nil {
				publish.Service = serviceKey()
				s.Apply([]snapshot.Change{{Key: serviceKey(), Object: c.service}})
			}
			if got := words(publish.Resolve(s)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	if got := (Publish{Service: serviceKey(), Addresses: []string{"192.0.2.1"}}).Resolve(snapshot.New()); got != nil {
		t.Errorf("a Service that does not exist gives %v", got)
	}
}

// desk is a Ledger with its snapshot.
type desk struct {
	t         *testing.T
	snapshot  *snapshot.Snapshot
	ledger    *Ledger
	addresses []Address
}

func newDesk(t *testing.T, addresses ...string) *desk {
	return &desk{t, snapshot.New(), NewLedger(controller), addressesOf(addresses)}
}

// put tells of an Ingress with an address in its status.
func (d *desk) put(name, present string, ours bool) []Item {
	ingress := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}}
	ingress.Status.LoadBalancer.Ingress = addressesOf([]string{present})
	d.snapshot.Apply([]snapshot.Change{{Key: ingressKey(name), Object: ingress}})
	return d.ledger.Update(d.snapshot, map[snapshot.Key]bool{ingressKey(name): ours}, d.addresses)
}

// wants fails unless exactly these items changed: "name: address, differs".
func (d *desk) wants(sentence string, items []Item, want ...string) {
	d.t.Helper()
	var got []string
	for _, item := range items {
		word := item.Object.Name + ":"
		switch {
		case item.Wanted.IsZero():
			word += " nothing"
		case item.Wanted.Withdraws():
			word += " none of ours"
		default:
			word += " " + words(item.Wanted.LoadBalancer.Ingress)
		}
		if item.Differs() {
			word += ", to be written"
		}
		got = append(got, word)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		d.t.Errorf("%s (-want +got):\n%s", sentence, diff)
	}
}

func TestLedger(t *testing.T) {
	d := newDesk(t, "192.0.2.1")
	d.wants("an Ingress of ours gets the addresses", d.put("x", "", true), "x: 192.0.2.1, to be written")
	d.wants("what stands there already is not written", d.put("x", "192.0.2.1", true), "x: 192.0.2.1")
	d.wants("what did not change is not told again", d.put("x", "192.0.2.1", true))
	d.wants("what somebody else wrote is put right", d.put("x", "198.51.100.7", true), "x: 192.0.2.1, to be written")
	d.wants("somebody else's Ingress is left alone", d.put("y", "198.51.100.7", false))
	d.wants("an Ingress that left us loses our addresses", d.put("y", "192.0.2.1", false), "y: none of ours, to be written")
	d.wants("and then is left alone", d.put("y", "", false), "y: nothing")

	d.addresses = addressesOf([]string{"192.0.2.2"})
	d.wants("other addresses go to everybody", d.ledger.Update(d.snapshot, nil, d.addresses), "x: 192.0.2.2, to be written")
	d.addresses = nil
	d.wants("lost addresses change nothing", d.ledger.Update(d.snapshot, nil, nil), "x: nothing")
	d.wants("nobody gets what is not known", d.put("z", "", true))
	d.addresses = addressesOf([]string{"192.0.2.2"})
	d.wants("until it is known again", d.ledger.Update(d.snapshot, nil, d.addresses), "x: 192.0.2.2, to be written", "z: 192.0.2.2, to be written")

	d.snapshot.Apply([]snapshot.Change{{Key: ingressKey("x")}})
	d.wants("an Ingress that is gone is gone here, too", d.ledger.Update(d.snapshot, map[snapshot.Key]bool{ingressKey("x"): false}, d.addresses), "x: nothing")
	d.wants("all that is left", d.ledger.Items(), "z: 192.0.2.2, to be written")
}

func TestNotices(t *testing.T) {
	s := snapshot.New()
	s.Apply([]snapshot.Change{{Key: ingressKey("x"), Object: &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x", UID: "1-2-3"}}}})
	of := func(kind, name string) report.Finding {
		return report.New(report.ObjectInvalid, model.Origin{Kind: kind, Namespace: "a", Name: name}, "bad")
	}
	findings := []report.Finding{of("Ingress", "x"), of("Ingress", "gone"), of("Secret", "s"), of("", "x.yaml")}
	want := []Notice{
		{findings[0], "networking.k8s.io/v1", "1-2-3"}, {findings[1], "networking.k8s.io/v1", ""}, {findings[2], "v1", ""}, {findings[3], "", ""},
	}
	if diff := cmp.Diff(want, Notices(s, findings)); diff != "" {
		t.Error(diff)
	}
}
