package ingress

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/resolve"
	"github.com/sluice-proxy/sluice/pkg/converters/settings"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

const (
	ours   = "sluice-proxy.github.io/controller"
	prefix = "sluice-proxy.github.io/"
)

var testClass = Class{Name: "sluice", Controller: ours, Namespace: "sluice"}

// convert runs Convert on Ingress a/x with a class "sluice" and the given other objects.
func convert(t *testing.T, class Class, spec networkingv1.IngressSpec, annotations map[string]string, others ...snapshot.Change) (Fragment, []snapshot.Key) {
	t.Helper()
	s := snapshot.New()
	key := snapshot.Key{Kind: snapshot.Ingress, Namespace: "a", Name: "x"}
	s.Apply(append([]snapshot.Change{
		{Key: key, Object: &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x", Annotations: annotations}, Spec: spec}},
		classChange("sluice", ours),
	}, others...))
	set, findings := settings.Globals(settings.Layer{})
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	v := s.View()
	return Convert(v, resolve.NewGlobals(set), class, key), v.Noted()
}

func classChange(name, controller string) snapshot.Change {
	return snapshot.Change{Key: snapshot.Key{Kind: snapshot.IngressClass, Name: name}, Object: &networkingv1.IngressClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.IngressClassSpec{Controller: controller},
	}}
}

func defaultClass(name, controller string) snapshot.Change {
	c := classChange(name, controller)
	c.Object.(*networkingv1.IngressClass).Annotations = map[string]string{networkingv1.AnnotationIsDefaultIngressClass: "true"}
	return c
}

func service(name string) networkingv1.IngressBackend {
	return networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: name, Port: networkingv1.ServiceBackendPort{Number: 80}}}
}

// rule is a rule of one path; an empty pathType stands for none.
func rule(host, path, pathType string, backend networkingv1.IngressBackend) networkingv1.IngressRule {
	p := networkingv1.HTTPIngressPath{Path: path, Backend: backend}
	if pathType != "" {
		p.PathType = new(networkingv1.PathType(pathType))
	}
	return networkingv1.IngressRule{Host: host, IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{p}}}}
}

// words are the routes ("exact KEY > SERVICE:PORT" or "prefix ..."), TLS hosts ("tls HOST = SECRET")
// and findings ("CODE FIELD") of a fragment.
func words(f Fragment) []string {
	var list []string
	for _, r := range f.Routes {
		key, exact := r.Key()
		table := "prefix "
		if exact {
			table = "exact "
		}
		to := r.Backend.Service + ":" + r.Backend.Port
		if r.Backend.Deny != 0 {
			to = "denied"
		} else if n := len(r.Backend.Layers); r.Backend.Service == "" {
			to = "redirect " + r.Backend.Layers[n-1].Raw["redirect-to"]
		}
		if r.Backend.StripPath != "" {
			to += " strip " + r.Backend.StripPath
		}
		list = append(list, table+key+" > "+to)
	}
	for _, tls := range f.TLS {
		list = append(list, "tls "+tls.Host+" = "+tls.Secret.Name)
	}
	for _, finding := range f.Findings {
		list = append(list, string(finding.Code)+" "+finding.Object.Field)
	}
	return list
}

type convertCase struct {
	spec        networkingv1.IngressSpec
	annotations map[string]string
	want        []string
}

func testConvert(t *testing.T, cases map[string]convertCase) {
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.spec.IngressClassName = new("sluice")
			f, _ := convert(t, testClass, c.spec, c.annotations)
			if diff := cmp.Diff(c.want, words(f)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func rules(rules ...networkingv1.IngressRule) networkingv1.IngressSpec {
	return networkingv1.IngressSpec{Rules: rules}
}

func TestPaths(t *testing.T) {
	s := service("s")
	testConvert(t, map[string]convertCase{
		"an exact path is a key of its own": {
			spec: rules(rule("h.example.com", "/foo/", "Exact", s)), want: []string{"exact h.example.com#/foo/ > s:80"},
		},
		"a prefix with and without a slash at its end is the same": {
			spec: rules(rule("h.example.com", "/foo", "Prefix", s), rule("i.example.com", "/foo/", "Prefix", s)),
			want: []string{"prefix h.example.com#/foo/ > s:80", "prefix i.example.com#/foo/ > s:80"},
		},
		"a path without a type begins like the request's path": {
			spec: rules(rule("h.example.com", "/foo", "", s), rule("h.example.com", "/bar/", "ImplementationSpecific", s)),
			want: []string{"prefix h.example.com#/foo > s:80", "prefix h.example.com#/bar/ > s:80"},
		},
		"the option path-type says what an unspecific path is": {
			spec: rules(rule("h.example.com", "/foo", "", s)), annotations: map[string]string{prefix + "path-type": "prefix"},
			want: []string{"prefix h.example.com#/foo/ > s:80"},
		},
		"an annotation of another prefix is nobody's": {
			spec: rules(rule("h.example.com", "/foo", "", s)), annotations: map[string]string{"example.com/path-type": "prefix"},
			want: []string{"prefix h.example.com#/foo > s:80"},
		},
		"an empty path is the root": {
			spec: rules(rule("h.example.com", "", "Prefix", s)), want: []string{"prefix h.example.com#/ > s:80"},
		},
		"a path that no request can have is refused, the others are served": {
			spec: rules(rule("", "foo", "Prefix", s), rule("", "/a b", "Prefix", s), rule("", "/a#b", "Exact", s), rule("", "/a?b", "Exact", s), rule("", "/a\nb", "Exact", s), rule("", "/ok", "Exact", s)),
			want: []string{"exact *#/ok > s:80", "PathInvalid spec.rules[0].http.paths[0].path", "PathInvalid spec.rules[1].http.paths[0].path", "PathInvalid spec.rules[2].http.paths[0].path", "PathInvalid spec.rules[3].http.paths[0].path", "PathInvalid spec.rules[4].http.paths[0].path"},
		},
		"app-root redirects the root of each host, before a path of the Ingress": {
			spec: rules(rule("h.example.com", "/", "Exact", s), rule("h.example.com", "/a", "Exact", s), rule("i.example.com", "/", "Prefix", s)), annotations: map[string]string{prefix + "app-root": "/web"},
			want: []string{"exact h.example.com#/ > redirect /web", "exact i.example.com#/ > redirect /web", "exact h.example.com#/ > s:80", "exact h.example.com#/a > s:80", "prefix i.example.com#/ > s:80"},
		},
		"a rewritten path is a part of what the backend is asked for": {
			spec: rules(rule("h.example.com", "/foo/", "Prefix", s), rule("h.example.com", "/", "Prefix", s)), annotations: map[string]string{"haproxy-ingress.github.io/rewrite-target": "/"},
			want: []string{"prefix h.example.com#/foo/ > s:80 strip /foo", "prefix h.example.com#/ > s:80 strip /"},
		},
	})
}

func TestHostsAndBackends(t *testing.T) {
	s := service("s")
	resource := networkingv1.IngressBackend{Resource: &corev1.TypedLocalObjectReference{Kind: "Bucket", Name: "b"}}
	testConvert(t, map[string]convertCase{
		"hosts are written in lower case, wildcards and missing hosts stand for themselves": {
			spec: rules(rule("H.Example.COM", "/", "Prefix", s), rule("*.example.com", "/", "Prefix", s), rule("", "/", "Prefix", s)),
			want: []string{"prefix h.example.com#/ > s:80", "prefix *.example.com#/ > s:80", "prefix *#/ > s:80"},
		},
		"a host that is no DNS name is refused": {
			spec: rules(rule("a b", "/", "Prefix", s), rule("*", "/", "Prefix", s), rule("a.*.com", "/", "Prefix", s), rule("10.0.0.1", "/", "Prefix", s), rule("-a.com", "/", "Prefix", s), rule("a..com", "/", "Prefix", s)),
			want: []string{"HostInvalid spec.rules[0].host", "HostInvalid spec.rules[1].host", "HostInvalid spec.rules[2].host", "HostInvalid spec.rules[3].host", "HostInvalid spec.rules[4].host", "HostInvalid spec.rules[5].host"},
		},
		"missing optional fields cost nothing else": {
			spec: rules(networkingv1.IngressRule{Host: "h.example.com"}, rule("h.example.com", "/a", "Odd", s), rule("h.example.com", "/b", "Exact", networkingv1.IngressBackend{}),
				rule("h.example.com", "/c", "Exact", networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "s"}}),
				rule("h.example.com", "/d", "Exact", networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{}})),
			want: []string{"ObjectInvalid spec.rules[0]", "ObjectInvalid spec.rules[1].http.paths[0].pathType", "ObjectInvalid spec.rules[2].http.paths[0].backend",
				"ObjectInvalid spec.rules[3].http.paths[0].backend.service.port", "ObjectInvalid spec.rules[4].http.paths[0].backend.service.name"},
		},
		"a resource can't be a backend": {
			spec: rules(rule("h.example.com", "/", "Prefix", resource)), want: []string{"prefix h.example.com#/ > denied", "ResourceBackend spec.rules[0].http.paths[0].backend.resource"},
		},
		"the default backend beside rules serves their hosts only": {
			spec: networkingv1.IngressSpec{DefaultBackend: new(service("d")), Rules: []networkingv1.IngressRule{rule("h.example.com", "/a", "Prefix", s), {Host: "i.example.com"}}},
			want: []string{"prefix h.example.com#/a/ > s:80", "prefix h.example.com# > d:80", "prefix i.example.com# > d:80"},
		},
		"the default backend without rules serves every host": {
			spec: networkingv1.IngressSpec{DefaultBackend: new(service("d"))}, want: []string{"prefix *# > d:80"},
		},
		"the default backend beside rules of which none is valid serves nothing": {
			spec: networkingv1.IngressSpec{DefaultBackend: new(service("d")), Rules: []networkingv1.IngressRule{rule("a b", "/", "Prefix", s)}}, want: []string{"HostInvalid spec.rules[0].host"},
		},
		"TLS hosts are those of the entry or else those of the rules": {
			spec: networkingv1.IngressSpec{
				Rules: []networkingv1.IngressRule{rule("H.example.com", "/", "Prefix", s), rule("", "/", "Prefix", s)},
				TLS:   []networkingv1.IngressTLS{{Hosts: []string{"A.example.com", "bad host", "*.b.example.com"}, SecretName: "t"}, {SecretName: "u"}, {}},
			},
			want: []string{"prefix h.example.com#/ > s:80", "prefix *#/ > s:80", "tls a.example.com = t", "tls *.b.example.com = t", "tls h.example.com = u", "tls h.example.com = ", "HostInvalid spec.tls[0].hosts[1]"},
		},
		"a TLS entry that is for no host says so": {
			spec: networkingv1.IngressSpec{DefaultBackend: &s, TLS: []networkingv1.IngressTLS{{SecretName: "t"}}}, want: []string{"prefix *# > s:80", "ObjectInvalid spec.tls[0]"},
		},
	})
}

func TestClass(t *testing.T) {
	legacy := func(name string) map[string]string { return map[string]string{classAnnotation: name} }
	cases := map[string]struct {
		field       *string
		annotations map[string]string
		class       Class
		others      []snapshot.Change
		mine        bool
		findings    []string
	}{
		"a class of ours":                                         {field: new("sluice"), mine: true},
		"a class of another controller":                           {field: new("other"), others: []snapshot.Change{classChange("other", "example.com/x")}},
		"a class of ours under another name":                      {field: new("other"), others: []snapshot.Change{classChange("other", ours)}, mine: true},
		"a class that does not exist":                             {field: new("nowhere"), findings: []string{"ClassMissing spec.ingressClassName"}},
		"the annotation names our class":                          {annotations: legacy("sluice"), mine: true},
		"the annotation names our class, which has no object":     {annotations: legacy("own"), class: Class{Name: "own"}, mine: true},
		"the annotation names a class of another controller":      {annotations: legacy("nginx")},
		"our class belongs to another controller":                 {annotations: legacy("sluice"), others: []snapshot.Change{classChange("sluice", "example.com/x")}},
		"the annotation wins over the field":                      {field: new("sluice"), annotations: legacy("nginx")},
		"an empty annotation says nothing":                        {field: new("sluice"), annotations: legacy(""), mine: true},
		"no class and no default class":                           {findings: []string{"ClassNone "}},
		"no class, but those without are watched":                 {class: Class{WatchWithout: true}, mine: true},
		"no class, and the default class is ours":                 {others: []snapshot.Change{defaultClass("d", ours)}, mine: true},
		"no class, and the default class is another controller's": {others: []snapshot.Change{defaultClass("d", "example.com/x")}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			class := testClass
			class.WatchWithout = c.class.WatchWithout
			if c.class.Name != "" {
				class.Name = c.class.Name
			}
			f, noted := convert(t, class, networkingv1.IngressSpec{IngressClassName: c.field, DefaultBackend: new(service("s"))}, c.annotations, c.others...)
			if f.Mine != c.mine || (len(f.Routes) > 0) != c.mine {
				t.Errorf("mine is %v, with %d routes", f.Mine, len(f.Routes))
			}
			if !c.mine {
				if diff := cmp.Diff(c.findings, words(f)); diff != "" {
					t.Errorf("(-want +got)\n%s", diff)
				}
			}
			for _, key := range noted {
				if !slices.Contains([]snapshot.Kind{snapshot.Ingress, snapshot.IngressClass, snapshot.DefaultClass}, key.Kind) {
					t.Errorf("%s was looked up", key)
				}
			}
		})
	}
}

func TestClassParameters(t *testing.T) {
	parameters := func(p networkingv1.IngressClassParametersReference) snapshot.Change {
		c := classChange("sluice", ours)
		c.Object.(*networkingv1.IngressClass).Spec.Parameters = &p
		return c
	}
	object := func(namespace string) snapshot.Change {
		return snapshot.Change{Key: snapshot.Key{Kind: snapshot.ConfigMap, Namespace: namespace, Name: "p"}, Object: &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p"}, Data: map[string]string{"path-type": "exact", "timeout-server": "5s"},
		}}
	}
	cases := map[string]struct {
		others   []snapshot.Change
		layers   int
		key      string
		findings []string
	}{
		"in the controller's namespace": {
			others: []snapshot.Change{parameters(networkingv1.IngressClassParametersReference{Kind: "ConfigMap", Name: "p"}), object("sluice")},
			layers: 2, key: "exact h.example.com#/a > s:80",
		},
		"in the namespace that they name": {
			others: []snapshot.Change{parameters(networkingv1.IngressClassParametersReference{Kind: "ConfigMap", Name: "p", Scope: new("Namespace"), Namespace: new("b")}), object("b")},
			layers: 2, key: "exact h.example.com#/a > s:80",
		},
		"a ConfigMap that does not exist": {
			others: []snapshot.Change{parameters(networkingv1.IngressClassParametersReference{Kind: "ConfigMap", Name: "p"})},
			layers: 1, key: "prefix h.example.com#/a > s:80", findings: []string{"ClassParameters spec.parameters"},
		},
		"of another kind": {
			others: []snapshot.Change{parameters(networkingv1.IngressClassParametersReference{Kind: "Thing", APIGroup: new("example.com"), Name: "p"})},
			layers: 1, key: "prefix h.example.com#/a > s:80", findings: []string{"ClassParameters spec.parameters"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			spec := networkingv1.IngressSpec{IngressClassName: new("sluice"), Rules: []networkingv1.IngressRule{rule("h.example.com", "/a", "", service("s"))}}
			f, _ := convert(t, testClass, spec, map[string]string{prefix + "timeout-server": "6s"}, c.others...)
			if diff := cmp.Diff(append([]string{c.key}, c.findings...), words(f)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			layers := f.Routes[0].Backend.Layers
			if len(layers) != c.layers || layers[len(layers)-1].Raw["timeout-server"] != "6s" {
				t.Errorf("layers %v", layers)
			}
		})
	}
}

func TestProtection(t *testing.T) {
	cases := map[string]struct {
		key, text string
		want      bool
	}{
		"an allow list":                          {"allowlist-source-range", "10.0.0.0/8", true},
		"an allow list under its other name":     {"whitelist-source-range", "10.0.0.0/8", true},
		"an allow list that can't be read":       {"allowlist-source-range", "junk", true},
		"authentication":                         {"auth-secret", "users", true},
		"a protection that sluice does not have": {"auth-url", "http://x/", true},
		"TLS to the servers":                     {"backend-protocol", "h1-ssl", true},
		"a redirect":                             {"ssl-redirect", "false", false},
		"a client certificate":                   {"secure-crt-secret", "mine", false},
		"a time-out":                             {"timeout-server", "1s", false},
		"a key that nobody knows":                {"nonsense", "1", false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			annotations := map[string]string{prefix + c.key: c.text}
			protection := Protection(resolve.AnnotationLayers(model.Origin{}, annotations))
			if got := protection != (model.Digest{}); got != c.want {
				t.Errorf("it protects: %v", got)
			}
			f, _ := convert(t, testClass, networkingv1.IngressSpec{IngressClassName: new("sluice"), DefaultBackend: new(service("s"))}, annotations)
			if denied := f.Denied(503); denied.Routes[0].Backend.Deny != 503 || denied.Routes[0].Backend.Layers != nil || f.Routes[0].Backend.Deny != 0 {
				t.Error("Denied does not deny, or changes the fragment itself")
			}
		})
	}
}

func TestAnIngressThatDoesNotExistIsAnEmptyFragment(t *testing.T) {
	s := snapshot.New()
	set, _ := settings.Globals(settings.Layer{})
	key := snapshot.Key{Kind: snapshot.Ingress, Namespace: "a", Name: "x"}
	v := s.View()
	if f := Convert(v, resolve.NewGlobals(set), testClass, key); !cmp.Equal(f, Fragment{}) {
		t.Errorf("%v", f)
	}
	if !slices.Equal(v.Noted(), []snapshot.Key{key}) {
		t.Errorf("noted %v", v.Noted())
	}
}
