package property

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/tests/harness"
)

const (
	controller = "sluice-proxy.github.io/controller"
	prefix     = "sluice-proxy.github.io/"
	own        = "sluice-system"
)

// event is an object's new form in words that a person can read in a failing sequence.
type event struct {
	kind  snapshot.Kind
	name  string
	words []string
	gone  bool
}

func (e event) String() string {
	if e.gone {
		return fmt.Sprintf("-%s %s", e.kind, e.name)
	}
	return fmt.Sprintf("+%s %s %q", e.kind, e.name, e.words)
}

func (e event) key() snapshot.Key {
	key := snapshot.Key{Kind: e.kind, Namespace: "a", Name: e.name}
	switch e.kind {
	case snapshot.IngressClass:
		key.Namespace = ""
	case snapshot.ConfigMap:
		key.Namespace = own
	}
	return key
}

// universe draws events of a small world in which everything collides.
type universe struct {
	t   *rapid.T
	dns bool // servers may have DNS names
}

func (u universe) pick(label string, from ...string) string {
	return rapid.SampledFrom(from).Draw(u.t, label)
}

func (u universe) chance(label string, oneIn int) bool {
	return rapid.IntRange(1, oneIn).Draw(u.t, label) == oneIn
}

var options = []string{
	"balance-algorithm=leastconn", "initial-weight=2", "initial-weight=7", "affinity=cookie", "timeout-server=7s", "timeout-connect=3s",
	"rewrite-target=/r", "allowlist-source-range=10.0.0.0/8", "allowlist-source-range=10.0.0.0/8,!10.1.0.0/16", "allowlist-source-range=junk",
	"denylist-source-range=192.0.2.0/24", "auth-secret=u", "auth-secret=nowhere", "auth-realm=some where", "cors-enable=true",
	"cors-allow-origin=https://x.example", "app-root=/app", "redirect-to=/there", "backend-protocol=h1-ssl", "backend-protocol=grpc",
	"secure-verify-ca-secret=c", "secure-crt-secret=x", "health-check-uri=/health", "ssl-redirect=false", "proxy-body-size=1m",
	"proxy-body-size=junk", "request-set-headers=X-A: b", "response-set-headers=X-A: c", "path-type=exact", "proxy-protocol=v2",
	"maxconn-server=9", "nonsense=1", "balance-algorithm=junk junk", "hsts=false",
}

var globals = []string{
	"timeout-client=8s", "timeout-client=9s", "timeout-server=9s", "timeout-connect=2s", "max-connections=77", "backend-shards=3",
	"backend-shards=8", "backend-shards=64", "ssl-redirect-code=301", "strict-host=true", "trusted-proxies=10.0.0.0/8",
	"trusted-proxies=10.0.0.0/9", "allowlist-source-range=10.9.0.0/16", "initial-weight=3", "forwardfor=ignore", "hsts=false",
	"dns-hold-valid=9s", "nonsense=1", "auth-secret=a/u", "app-root=/global", "path-type=prefix", "backend-protocol=h1-ssl",
}

func (u universe) some(label string, from []string, most int) []string {
	var words []string
	for range rapid.IntRange(0, most).Draw(u.t, label) {
		words = append(words, u.pick(label, from...))
	}
	return words
}

func (u universe) event() event {
	e := event{kind: snapshot.Kind(u.pick("kind", "Ingress", "Ingress", "Ingress", "Service", "Service", "EndpointSlice", "EndpointSlice",
		"Secret", "ConfigMap", "IngressClass"))}
	e.gone = u.chance("gone", 4)
	e.name = u.pick("name", "x", "y", "z")
	switch e.kind {
	case snapshot.Ingress:
		e.words = u.ingress()
	case snapshot.Service:
		e.words = append(u.some("options", options, 2), u.pick("port", "port:80", "port:80", "port:http", "port:81"))
		if u.dns && u.chance("external", 6) {
			e.words = append(e.words, "external")
		}
	case snapshot.EndpointSlice:
		e.name = u.pick("slice", "x", "x2", "y", "z")
		e.words = []string{"of:" + e.name[:1], u.pick("target", "port:8080", "port:8080", "port:8081")}
		for range rapid.IntRange(0, 3).Draw(u.t, "endpoints") {
			e.words = append(e.words, u.pick("endpoint", "127.1.0.1", "127.1.0.2", "127.1.0.3", "127.1.0.1 unready", "127.1.0.2 leaving", "127.1.0.4", "junk"))
		}
	case snapshot.Secret:
		e.name = u.pick("secret", "x", "y", "d", "u", "c")
		e.words = []string{u.pick("data", "pair:0", "pair:1", "pair:2", "junk", "none")}
		switch e.name {
		case "u":
			e.words = []string{u.pick("users", "users:joe::secret", "users:joe::other", "users:")}
		case "c":
			e.words = []string{u.pick("authority", "ca:0", "ca:1", "junk")}
		}
	case snapshot.ConfigMap:
		e.name, e.words = "sluice", u.some("globals", globals, 3)
	case snapshot.IngressClass:
		e.name = u.pick("class", "sluice", "sluice", "other")
		e.words = []string{u.pick("controller", controller, controller, "example.com/other"), u.pick("default", "", "default")}
	}
	if e.gone {
		e.words = nil
	}
	return e
}

var hosts = []string{"a.example", "b.example", "*.example", "c.example", ""}

func (u universe) ingress() []string {
	words := u.some("options", options, 2)
	words = append(words, u.pick("class", "class:sluice", "class:sluice", "class:sluice", "class:other", "class:"), u.pick("age", "age:1", "age:2"))
	for range rapid.IntRange(0, 3).Draw(u.t, "rules") {
		words = append(words, fmt.Sprintf("rule:%s %s %s %s", u.pick("host", hosts...), u.pick("path", "/", "/foo", "/foo/bar", "/%66oo"),
			u.pick("type", "Prefix", "Exact", "ImplementationSpecific"), u.pick("service", "x", "y", "z", "missing", "x:http")))
	}
	if u.chance("default", 6) {
		words = append(words, "default:"+u.pick("service", "x", "y"))
	}
	for range rapid.IntRange(0, 1).Draw(u.t, "tls") {
		words = append(words, "tls:"+u.pick("host", hosts...)+"="+u.pick("secret", "x", "y", "nowhere"))
	}
	return words
}

func (u universe) events(least, most int) []event {
	var list []event
	for range rapid.IntRange(least, most).Draw(u.t, "events") {
		list = append(list, u.event())
	}
	return list
}

// population is what there is at the beginning: a working site of each kind.
func population() []event {
	list := []event{{kind: snapshot.IngressClass, name: "sluice", words: []string{controller, "default"}}}
	for _, name := range []string{"x", "y", "z"} {
		list = append(list,
			event{kind: snapshot.Service, name: name, words: []string{"port:80"}},
			event{kind: snapshot.EndpointSlice, name: name, words: []string{"of:" + name, "port:8080", "127.1.0.1", "127.1.0.2"}},
			event{kind: snapshot.Ingress, name: name, words: []string{"class:sluice", "age:1", "rule:" + name + ".example / Prefix " + name, "tls:" + name + ".example=" + name}})
	}
	return append(list, event{kind: snapshot.Secret, name: "x", words: []string{"pair:0"}})
}

// secrets are the certificates that events name.
type secrets struct {
	pairs, authorities []*harness.Pair
}

func newSecrets(t testing.TB) *secrets {
	s := &secrets{authorities: []*harness.Pair{harness.NewAuthority(t, "one"), harness.NewAuthority(t, "two")}}
	for _, hosts := range [][]string{{"a.example", "x.example"}, {"*.example"}, {"b.example", "y.example"}} {
		s.pairs = append(s.pairs, s.authorities[0].Issue(t, hosts...))
	}
	return s
}

// object is what the event leaves; nil where that is nothing.
func (s *secrets) object(e event) any {
	if e.gone {
		return nil
	}
	meta := metav1.ObjectMeta{Namespace: e.key().Namespace, Name: e.name, Annotations: map[string]string{}}
	var words []string // without options
	for _, word := range e.words {
		switch name, value, found := strings.Cut(word, "="); {
		case found && e.kind != snapshot.ConfigMap && !strings.Contains(name, ":"):
			meta.Annotations[prefix+name] = value
		case strings.HasPrefix(word, "age:"):
			n, _ := strconv.Atoi(word[4:])
			meta.CreationTimestamp = metav1.NewTime(time.Unix(int64(1_700_000_000+n), 0))
		default:
			words = append(words, word)
		}
	}
	switch e.kind {
	case snapshot.Ingress:
		return &networkingv1.Ingress{ObjectMeta: meta, Spec: ingressSpec(words)}
	case snapshot.Service:
		return service(meta, words)
	case snapshot.EndpointSlice:
		return slice(meta, words)
	case snapshot.Secret:
		return s.secret(words[0])
	case snapshot.ConfigMap:
		data := map[string]string{}
		for _, word := range words {
			name, value, _ := strings.Cut(word, "=")
			data[name] = value
		}
		return &corev1.ConfigMap{ObjectMeta: meta, Data: data}
	}
	if words[1] != "" {
		meta.Annotations[networkingv1.AnnotationIsDefaultIngressClass] = "true"
	}
	return &networkingv1.IngressClass{ObjectMeta: meta, Spec: networkingv1.IngressClassSpec{Controller: words[0]}}
}

func ingressSpec(words []string) (spec networkingv1.IngressSpec) {
	for _, word := range words {
		kind, rest, _ := strings.Cut(word, ":")
		switch kind {
		case "class":
			if rest != "" {
				spec.IngressClassName = &rest
			}
		case "rule":
			parts := strings.Split(rest, " ")
			spec.Rules = append(spec.Rules, networkingv1.IngressRule{Host: parts[0], IngressRuleValue: networkingv1.IngressRuleValue{
				HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{
					{Path: parts[1], PathType: (*networkingv1.PathType)(&parts[2]), Backend: *backend(parts[3])},
				}},
			}})
		case "default":
			spec.DefaultBackend = backend(rest)
		case "tls":
			host, secret, _ := strings.Cut(rest, "=")
			entry := networkingv1.IngressTLS{SecretName: secret}
			if host != "" {
				entry.Hosts = []string{host}
			}
			spec.TLS = append(spec.TLS, entry)
		}
	}
	return spec
}

func backend(word string) *networkingv1.IngressBackend {
	name, port, named := strings.Cut(word, ":")
	to := &networkingv1.IngressServiceBackend{Name: name, Port: networkingv1.ServiceBackendPort{Number: 80}}
	if named {
		to.Port = networkingv1.ServiceBackendPort{Name: port}
	}
	return &networkingv1.IngressBackend{Service: to}
}

func service(meta metav1.ObjectMeta, words []string) *corev1.Service {
	s := &corev1.Service{ObjectMeta: meta}
	port := corev1.ServicePort{Port: 80}
	switch words[0] {
	case "port:http":
		port.Name = "http"
	case "port:81":
		port.Port = 81
	}
	s.Spec.Ports = []corev1.ServicePort{port}
	if slices.Contains(words, "external") {
		s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeExternalName, "far.example"
	}
	return s
}

func slice(meta metav1.ObjectMeta, words []string) *discoveryv1.EndpointSlice {
	meta.Labels = map[string]string{discoveryv1.LabelServiceName: words[0][len("of:"):]}
	port, _ := strconv.Atoi(words[1][len("port:"):])
	s := &discoveryv1.EndpointSlice{ObjectMeta: meta, AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{
		{Name: new(""), Port: new(int32(port))}, {Name: new("http"), Port: new(int32(port))},
	}}
	for _, word := range words[2:] {
		address, state, _ := strings.Cut(word, " ")
		e := discoveryv1.Endpoint{Addresses: []string{address}}
		switch state {
		case "unready":
			e.Conditions.Ready = new(false)
		case "leaving":
			e.Conditions = discoveryv1.EndpointConditions{Ready: new(false), Serving: new(true), Terminating: new(true)}
		}
		s.Endpoints = append(s.Endpoints, e)
	}
	return s
}

func (s *secrets) secret(word string) *snapshot.SecretData {
	data := map[string]string{}
	kind, rest, _ := strings.Cut(word, ":")
	n, _ := strconv.Atoi(rest)
	switch kind {
	case "pair":
		data["tls.crt"], data["tls.key"] = s.pairs[n].Certificate, s.pairs[n].Key
	case "ca":
		data["ca.crt"] = s.authorities[n].Certificate
	case "users":
		data["auth"] = rest
	case "junk":
		data["tls.crt"], data["tls.key"], data["ca.crt"] = "junk", "junk", "junk"
	}
	object := &snapshot.SecretData{Data: map[string]model.Secret{}}
	for key, text := range data {
		object.Data[key] = model.NewSecret([]byte(text))
	}
	return object
}
