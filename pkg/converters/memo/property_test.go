package memo

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// universe draws objects of a small world in which everything collides.
type universe struct {
	t     *rapid.T
	pairs []map[string]string
}

func newUniversePairs(t testing.TB) []map[string]string {
	return []map[string]string{
		newPair(t, start.AddDate(1, 0, 0), "a.example.com"),
		newPair(t, start.AddDate(1, 0, 0), "*.example.com"),
		newPair(t, start.Add(30*time.Minute), "a.example.com", "b.example.com"),
		newPair(t, start.Add(-time.Minute), "b.example.com"),
		{"tls.crt": "junk", "tls.key": "junk"},
		{},
	}
}

func (u *universe) pick(label string, from ...string) string {
	return rapid.SampledFrom(from).Draw(u.t, label)
}

func (u *universe) chance(label string, oneIn int) bool {
	return rapid.IntRange(1, oneIn).Draw(u.t, label) == 1
}

func (u *universe) meta(namespace string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: namespace, Name: u.pick("name", "x", "y", "z"), Annotations: map[string]string{},
		CreationTimestamp: metav1.NewTime(start.Add(time.Duration(rapid.IntRange(0, 2).Draw(u.t, "age")) * time.Second)),
	}
}

// annotate sets up to two options, some of them wrong.
func (u *universe) annotate(annotations map[string]string) {
	for range rapid.IntRange(0, 2).Draw(u.t, "annotations") {
		key := u.pick("key", "balance-algorithm=leastconn", "balance-algorithm=junk junk", "allowlist-source-range=10.0.0.0/8",
			"allowlist-source-range=10.0.0.0/8,192.168.0.0/16", "allowlist-source-range=junk", "auth-secret=u", "app-root=/app",
			"rewrite-target=/r", "initial-weight=2", "initial-weight=3", "timeout-server=7s", "affinity=cookie", "nonsense=1", "auth-url=http://x/",
			"response-set-headers=X-A: b", "path-type=exact", "ssl-redirect=false", "secure-verify-ca-secret=u", "backend-protocol=h1-ssl", "redirect-to=/there",
			"tcp-service-port=5432", "tcp-service-port=5433", "tcp-service-port=80", "tcp-service-port=junk", "tcp-service-proxy-protocol=true")
		name, text, _ := cut(key)
		prefix := u.pick("prefix", annotation, annotation, "haproxy-ingress.github.io/", "nginx.ingress.kubernetes.io/")
		annotations[prefix+name] = text
	}
}

func cut(s string) (string, string, bool) {
	i := slices.Index([]byte(s), '=')
	return s[:i], s[i+1:], true
}

func (u *universe) ingress() any {
	i := &networkingv1.Ingress{ObjectMeta: u.meta(u.pick("namespace", "a", "a", "b"))}
	u.annotate(i.Annotations)
	switch u.pick("class", "ours", "ours", "ours", "ours", "none", "other", "missing", "annotation") {
	case "ours":
		i.Spec.IngressClassName = new("sluice")
	case "other":
		i.Spec.IngressClassName = new("other")
	case "missing":
		i.Spec.IngressClassName = new("nowhere")
	case "annotation":
		i.Annotations["kubernetes.io/ingress.class"] = "sluice"
	}
	for range rapid.IntRange(0, 2).Draw(u.t, "rules") {
		i.Spec.Rules = append(i.Spec.Rules, u.rule())
	}
	if u.chance("default", 4) {
		i.Spec.DefaultBackend = u.backend()
	}
	for range rapid.IntRange(0, 2).Draw(u.t, "tls") {
		entry := networkingv1.IngressTLS{SecretName: u.pick("tls secret", "x", "y", "z", "")}
		if !u.chance("no hosts", 4) {
			entry.Hosts = []string{u.pick("tls host", "a.example.com", "b.example.com", "*.example.com", "bad..host")}
		}
		i.Spec.TLS = append(i.Spec.TLS, entry)
	}
	return i
}

func (u *universe) rule() networkingv1.IngressRule {
	r := networkingv1.IngressRule{Host: u.pick("host", "a.example.com", "A.example.com", "b.example.com", "*.example.com", "", "bad host")}
	if u.chance("no http", 8) {
		return r
	}
	r.HTTP = &networkingv1.HTTPIngressRuleValue{}
	for range rapid.IntRange(0, 2).Draw(u.t, "paths") {
		path := networkingv1.HTTPIngressPath{Path: u.pick("path", "/", "/foo", "/foo/", "/%66oo", "/x//y", "bad", ""), Backend: *u.backend()}
		if kind := u.pick("type", "Prefix", "Exact", "ImplementationSpecific", "", "Odd"); kind != "" {
			path.PathType = new(networkingv1.PathType(kind))
		}
		r.HTTP.Paths = append(r.HTTP.Paths, path)
	}
	return r
}

func (u *universe) backend() *networkingv1.IngressBackend {
	switch u.pick("backend", "service", "service", "service", "service", "name", "resource", "nothing") {
	case "name":
		return &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: u.pick("service", "x", "y", "z"), Port: networkingv1.ServiceBackendPort{Name: "http"}}}
	case "resource":
		return &networkingv1.IngressBackend{Resource: &corev1.TypedLocalObjectReference{Kind: "Bucket", Name: "b"}}
	case "nothing":
		return &networkingv1.IngressBackend{}
	}
	return backendOf(u.pick("service", "x", "y", "z"))
}

func (u *universe) object() any {
	switch u.pick("kind", "Ingress", "Ingress", "Ingress", "Service", "EndpointSlice", "Secret", "ConfigMap", "IngressClass") {
	case "Ingress":
		return u.ingress()
	case "Service":
		s := service("")
		s.ObjectMeta = u.meta(u.pick("namespace", "a", "b"))
		u.annotate(s.Annotations)
		if u.chance("external", 6) {
			s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeExternalName, "far.example.net"
		}
		if u.chance("no ports", 8) {
			s.Spec.Ports = nil
		}
		return s
	case "EndpointSlice":
		slice := endpoints("", u.pick("of", "x", "y", "z"), u.pick("address", "10.1.0.1", "10.1.0.2", "junk"), "10.1.0.3")
		labels := slice.Labels
		slice.ObjectMeta = u.meta(u.pick("namespace", "a", "b"))
		slice.Labels = labels
		return slice
	case "Secret":
		name := u.pick("secret", "x", "y", "z", "u")
		if name == "u" {
			return secret("u", map[string]string{"auth": u.pick("users", "joe::secret", "joe::other", "")})
		}
		return secret(name, rapid.SampledFrom(u.pairs).Draw(u.t, "pair"))
	case "ConfigMap":
		if u.chance("tcp", 3) {
			return configMap("tcp", u.pick("entry", "5432=a/x:80", "5432=a/y:http:PROXY:PROXY-V1", "5433=a/z:80:::a/x", "5433=b/x:80::::3s", "443=a/x:80", "5432=junk"))
		}
		return configMap(u.pick("map", "global", "parameters"), u.pick("data", "timeout-server=9s", "timeout-client=8s", "strict-host=true", "max-connections=7",
			"allowlist-source-range=10.9.0.0/16", "path-type=prefix", "app-root=/global", "nonsense=1", "ssl-redirect-code=301", "auth-secret=a/u", "bind-ip-addr-tcp=10.0.0.1"))
	}
	c := class(u.pick("class", "sluice", "sluice", "other"), controller)
	if c.Name == "other" {
		c.Spec.Controller = "example.com/other"
	}
	if u.chance("default", 2) {
		c.Annotations = map[string]string{networkingv1.AnnotationIsDefaultIngressClass: "true"}
	}
	if u.chance("parameters", 2) {
		c.Spec.Parameters = &networkingv1.IngressClassParametersReference{Kind: u.pick("parameters", "ConfigMap", "ConfigMap", "Odd"), Name: "parameters"}
	}
	return c
}

// batch draws up to four changes.
func (u *universe) batch(s *snapshot.Snapshot) []snapshot.Change {
	var changes []snapshot.Change
	for range rapid.IntRange(1, 4).Draw(u.t, "changes") {
		object := u.object()
		change := snapshot.Change{Key: keyOf(object), Object: bare(object)}
		if u.chance("delete", 3) {
			change.Object = nil
		}
		changes = append(changes, change)
	}
	return changes
}

func TestIncrementalEqualsFromScratch(t *testing.T) {
	pairs := newUniversePairs(t)
	rapid.Check(t, func(t *rapid.T) {
		u := &universe{t: t, pairs: pairs}
		w := &world{options: options(), snapshot: snapshot.New(), now: start}
		w.options.Class.WatchWithout = u.chance("watch without class", 2)
		if u.chance("default service", 2) {
			w.options.DefaultBackendService = snapshot.Key{Kind: snapshot.Service, Namespace: "a", Name: "z"}
		}
		if u.chance("default certificate", 2) {
			w.options.DefaultCertificateSecret = snapshot.Key{Kind: snapshot.Secret, Namespace: "a", Name: "y"}
		}
		if u.chance("tcp services", 2) {
			w.options.TCPServices = snapshot.Key{Kind: snapshot.ConfigMap, Namespace: ownNamespace, Name: "tcp"}
		}
		w.memo = New(w.options)
		if !u.chance("no class", 4) {
			w.snapshot.Apply([]snapshot.Change{{Key: snapshot.Key{Kind: snapshot.IngressClass, Name: "sluice"}, Object: class("sluice", controller)}})
		}
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			w.now = w.now.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "minutes")) * time.Minute)
			touched := w.snapshot.Apply(u.batch(w.snapshot))
			before := w.model
			w.model = w.memo.Update(w.snapshot, touched, w.now)
			if u.chance("applied", 2) {
				w.memo.Planned()
				w.memo.Applied()
			}
			fresh, findings := w.scratch()
			if diff := same(fresh, w.model); diff != "" {
				t.Fatalf("the model differs from that from scratch (-scratch +incremental):\n%s", diff)
			}
			if diff := cmp.Diff(findings, w.memo.Report(), cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("the report differs from that from scratch (-scratch +incremental):\n%s", diff)
			}
			settings := slices.Contains(touched, w.options.ConfigMap) // may give an equal default profile anew
			if before != nil && before != w.model && !settings && same(before, w.model) == "" {
				t.Fatal("nothing changed, but the model is another one")
			}
			if broken := inconsistency(w.model); broken != "" {
				t.Fatal(broken)
			}
		}
	})
}

// TestQuarantineLeavesNothingBehind: whatever was refused, once it is gone from quarantine
// the Model is that from scratch; meanwhile it is at least sound.
func TestQuarantineLeavesNothingBehind(t *testing.T) {
	pairs := newUniversePairs(t)
	rapid.Check(t, func(t *rapid.T) {
		u := &universe{t: t, pairs: pairs}
		w := &world{options: options(), snapshot: snapshot.New(), now: start}
		w.memo = New(w.options)
		touched := w.snapshot.Apply([]snapshot.Change{{Key: snapshot.Key{Kind: snapshot.IngressClass, Name: "sluice"}, Object: class("sluice", controller)}})
		for range rapid.IntRange(1, 15).Draw(t, "steps") {
			w.model = w.memo.Update(w.snapshot, append(touched, w.snapshot.Apply(u.batch(w.snapshot))...), w.now)
			touched = nil
			if u.chance("applied", 2) {
				w.memo.Planned()
				w.memo.Applied()
			}
			if broken := inconsistency(w.model); broken != "" {
				t.Fatal(broken)
			}
			if all := everything(w.snapshot); u.chance("refused", 2) && len(all) > 0 {
				var origins []model.Origin
				for range rapid.IntRange(1, 3).Draw(t, "origins") {
					origins = append(origins, rapid.SampledFrom(all).Draw(t, "origin").Origin())
				}
				w.memo.Planned()
				w.memo.Quarantine(origins, "bad word")
			}
		}
		for _, origin := range w.memo.Quarantined() {
			key := snapshot.Key{Kind: snapshot.Kind(origin.Kind), Namespace: origin.Namespace, Name: origin.Name}
			touched = append(touched, w.snapshot.Apply([]snapshot.Change{{Key: key}})...)
		}
		w.model = w.memo.Update(w.snapshot, touched, w.now)
		fresh, findings := w.scratch()
		if diff := same(fresh, w.model) + cmp.Diff(findings, w.memo.Report(), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("something stays (-scratch +incremental):\n%s", diff)
		}
	})
}

// inconsistency says what in a model refers to something that is not in it, or is not
// referred to by anything.
func inconsistency(m *model.Model) string {
	used, profiles, values, lists := map[string]bool{}, map[string]bool{model.DefaultProfile: true}, 0, map[string]bool{}
	for _, table := range []int{tableExact, tablePrefix, tableTCP, tableHosts} {
		for entry := range m.Tables[table].All {
			for _, name := range model.LeadsTo(m.Tables[table].Name, entry.Value) {
				used[name] = true
				if m.Backends.Lookup(name) == nil {
					return entry.Key + " leads to no backend"
				}
			}
		}
	}
	for b := range m.Backends.All {
		if !used[b.Name] {
			return "no route leads to " + b.Name
		}
		profiles[b.Profile.Name] = true
		values += len(b.Values)
	}
	if len(profiles) != len(m.Profiles) || values != m.Tables[tableValues].Len() {
		return fmt.Sprintf("%d profiles and %d values are used, the model has %d and %d", len(profiles), values, len(m.Profiles), m.Tables[tableValues].Len())
	}
	for _, p := range m.Profiles {
		for _, list := range p.Shape.Lists() {
			lists[list.Name] = true
			if !slices.ContainsFunc(m.Lists, func(l *model.List) bool { return cmp.Equal(l, list) }) {
				return "list " + list.Name + " of profile " + p.Name + " is not in the model as it is"
			}
		}
	}
	certificates := map[string]bool{}
	for _, c := range m.Certificates {
		if certificates[c.Name] {
			return "certificate " + c.Name + " stands twice in the model"
		}
		certificates[c.Name] = true
	}
	for _, f := range m.TCP {
		if f.Certificate != "" && !certificates[f.Certificate] {
			return f.Name() + " has a certificate that is not in the model"
		}
	}
	if (len(m.TCP) > 0) != (m.Tables[tableTCP].Len() > 0) {
		return fmt.Sprintf("%d frontends of TCP services and %d entries of their table", len(m.TCP), m.Tables[tableTCP].Len())
	}
	for i, line := range m.CrtList {
		if !certificates[line.Certificate] || (i == 0) != (len(line.Hosts) == 0) {
			return fmt.Sprintf("line %d of the crt-list is wrong: %v", i, line)
		}
	}
	return ""
}
