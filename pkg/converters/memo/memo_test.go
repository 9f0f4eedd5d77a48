package memo

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/settings"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// conversions are what a step ran.
func (w *world) conversions(step func()) map[string]int {
	before := w.memo.Conversions()
	step()
	after := w.memo.Conversions()
	for kind, count := range before {
		if after[kind] -= count; after[kind] == 0 {
			delete(after, kind)
		}
	}
	return after
}

// TestWhichEventConvertsWhat is the table of what depends on what: nothing more is run.
func TestWhichEventConvertsWhat(t *testing.T) {
	pair := newPair(t, start.AddDate(1, 0, 0), "one.example.com")
	build := func() *world {
		parametrised := class("sluice", controller)
		parametrised.Spec.Parameters = &networkingv1.IngressClassParametersReference{Kind: "ConfigMap", Name: "parameters"}
		return newWorld(t,
			parametrised, configMap("parameters", "timeout-queue=4s"), configMap("global"),
			ing("one", "one.example.com/>s1", "one.example.com/x>s2", "tls:one.example.com=t"), ing("two", "two.example.com/>s2", "auth-secret=u"), ing("three", "three.example.com/>missing"),
			service("s1"), service("s2"), endpoints("s1-x", "s1", "10.0.0.1"), endpoints("s2-x", "s2", "10.0.0.2"),
			secret("t", pair), secret("u", map[string]string{"auth": "joe::secret"}),
		)
	}
	foreign := ing("foreign", "one.example.com/>s1")
	foreign.Spec.IngressClassName = new("other")
	renamed := class("sluice", controller)
	cases := map[string]struct {
		step func(*world)
		want map[string]int
	}{
		"an EndpointSlice: its Service's backend":                    {func(w *world) { w.put(endpoints("s1-x", "s1", "10.0.0.9")) }, map[string]int{"backend": 1}},
		"an EndpointSlice of two backends: both":                     {func(w *world) { w.put(endpoints("s2-x", "s2", "10.0.0.9")) }, map[string]int{"backend": 2}},
		"an EndpointSlice of nobody: nothing":                        {func(w *world) { w.put(endpoints("s9-x", "s9", "10.0.0.9")) }, map[string]int{}},
		"a Service: its backend":                                     {func(w *world) { w.put(service("s1", "balance-algorithm=leastconn")) }, map[string]int{"backend": 1}},
		"a Service that was missing: its backend, no Ingress":        {func(w *world) { w.put(service("missing")) }, map[string]int{"backend": 1}},
		"a Service that goes: its backend":                           {func(w *world) { w.remove(service("s1")) }, map[string]int{"backend": 1}},
		"the Secret of a certificate: that":                          {func(w *world) { w.put(secret("t", pair)) }, map[string]int{"certificate": 1}},
		"the Secret of users: the backend with them":                 {func(w *world) { w.put(secret("u", nil)) }, map[string]int{"backend": 1}},
		"a Secret that nobody names: nothing":                        {func(w *world) { w.put(secret("other", nil)) }, map[string]int{}},
		"an Ingress as it was, but for its status: nothing":          {func(w *world) { w.put(ing("two", "two.example.com/>s2", "auth-secret=u")) }, map[string]int{}},
		"an Ingress that was created anew: that alone":               {func(w *world) { w.put(ing("two", "two.example.com/>s2", "auth-secret=u", "age:1")) }, map[string]int{"ingress": 1}},
		"an Ingress with another option: that and its backend":       {func(w *world) { w.put(ing("two", "two.example.com/>s2", "timeout-server=3s")) }, map[string]int{"ingress": 1, "backend": 1}},
		"an Ingress that goes: that":                                 {func(w *world) { w.remove(ing("two")) }, map[string]int{"ingress": 1}},
		"an Ingress for a backend that is there: that":               {func(w *world) { w.put(ing("four", "four.example.com/>missing", "tls:one.example.com=t")) }, map[string]int{"ingress": 1}},
		"an Ingress that loses its only path: that, not its backend": {func(w *world) { w.put(ing("zzz", "one.example.com/>s9")) }, map[string]int{"ingress": 1}},
		"an Ingress of a foreign class: nothing":                     {func(w *world) { w.put(foreign) }, map[string]int{}},
		"a foreign class: nothing":                                   {func(w *world) { w.put(class("other", "example.com/x")) }, map[string]int{}},
		"our class without its parameters: what belongs to it":       {func(w *world) { w.put(renamed) }, map[string]int{"ingress": 3, "backend": 4}},
		"our class goes: what belonged to it":                        {func(w *world) { w.remove(renamed) }, map[string]int{"ingress": 3}},
		"parameters of the class: what belongs to it":                {func(w *world) { w.put(configMap("parameters", "timeout-queue=9s")) }, map[string]int{"ingress": 3, "backend": 4}},
		"a global setting of the process: that":                      {func(w *world) { w.put(configMap("global", "max-connections=9")) }, map[string]int{"global": 1}},
		"a global setting of a listener: that":                       {func(w *world) { w.put(configMap("global", "timeout-client=9s")) }, map[string]int{"global": 1}},
		"a global setting of backends: that and all backends":        {func(w *world) { w.put(configMap("global", "timeout-server=9s")) }, map[string]int{"global": 1, "backend": 4}},
		"a global setting that backends read, too":                   {func(w *world) { w.put(configMap("global", "cookie-key=salt")) }, map[string]int{"global": 1, "backend": 4}},
		"a global setting of paths that Ingresses read: everything":  {func(w *world) { w.put(configMap("global", "path-type=exact")) }, map[string]int{"global": 1, "ingress": 3, "backend": 4}},
		"another ConfigMap: nothing":                                 {func(w *world) { w.put(configMap("other", "timeout-server=9s")) }, map[string]int{}},
		"time: nothing":                                              {func(w *world) { w.now = w.now.AddDate(0, 6, 0); w.put() }, map[string]int{}},
		"the end of a certificate: that":                             {func(w *world) { w.now = w.now.AddDate(2, 0, 0); w.put() }, map[string]int{"certificate": 1}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := build()
			if diff := cmp.Diff(c.want, w.conversions(func() { c.step(w) })); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			w.equalsScratch()
		})
	}
}

// TestGlobalsOfBackends: no other option of the process makes a difference to a backend.
func TestGlobalsOfBackends(t *testing.T) {
	plain := []any{service("s"), service("t", "affinity=cookie", "session-cookie-strategy=rewrite"), endpoints("s-x", "s", "10.0.0.1"), endpoints("t-x", "t", "10.0.0.1"),
		ing("a", "h.example.com/>s"), ing("b", "h.example.com/b>t", "redirect-to=/there", "cors-enable=true", "rewrite-target=/", "health-check-uri=/", "backend-protocol=h2-ssl")}
	digest := func(setting string) []string {
		w := newWorld(t, append(plain, configMap("global", setting))...)
		if w.has("Option") {
			return nil
		}
		var list []string
		for b := range w.model.Backends.All {
			list = append(list, b.Digest.String(), b.Profile.Shape.Digest().String())
		}
		return list
	}
	want, tried := digest("max-connections=7"), 0
	for _, option := range settings.Options() {
		if option.Scope&scopesOfBackends != 0 || slices.Contains(globalsOfBackends(), option.Name) {
			continue
		}
		for _, text := range append(slices.Clone(option.Values), "true", "false", "7", "77s", "301", "308", "10.0.0.0/8", "10.0.0.1:53", "n=10.0.0.1:53", "word", "/word", "h2") {
			if got := digest(option.Name + "=" + text); got != nil {
				tried++
				if !slices.Equal(got, want) {
					t.Errorf("%s=%s changes backends: it belongs into globalsOfBackends", option.Name, text)
				}
			}
		}
	}
	if tried < 30 {
		t.Errorf("only %d values could be read", tried)
	}
}

// TestUnchangedPartsAreShared: what did not change is the same memory in the next Model.
func TestUnchangedPartsAreShared(t *testing.T) {
	w := newWorld(t, ing("one", "one.example.com/>s1", "timeout-server=3s"), service("s1"), endpoints("s1-x", "s1", "10.0.0.1"), configMap("global"))
	before := w.model
	w.put(endpoints("s1-x", "s1", "10.0.0.2"))
	after := w.model
	if before == after || before.Backends == after.Backends {
		t.Fatal("the endpoint is not in the model")
	}
	if !model.Same(before.Tables, after.Tables) || !model.Same(before.Profiles, after.Profiles) || !model.Same(before.Certificates, after.Certificates) ||
		!model.Same(before.CrtList, after.CrtList) || !model.Same(before.Frontends, after.Frontends) {
		t.Error("something else than the backends is not shared")
	}
	w.put(endpoints("s1-x", "s1", "10.0.0.2"), configMap("global"), service("s1"), ing("one", "one.example.com/>s1", "timeout-server=3s"))
	if w.model != after {
		t.Error("the same objects again give another model")
	}
	w.put(configMap("global", "max-connections=9"))
	if w.model.Backends != after.Backends || !model.Same(w.model.Tables, after.Tables) || w.model.Process.MaxConn != 9 {
		t.Error("a setting of the process changes backends or tables")
	}
}

func TestRoutes(t *testing.T) {
	older, younger := "age:1", "age:22"
	cases := map[string]struct {
		objects []any
		routes  map[string]string // key -> Service
		flags   map[string]string
		tls     map[string]string
		codes   []string
	}{
		"the older object gets the path, the younger one hears of it": {
			objects: []any{service("s1"), service("s2"), ing("a", younger, "h.example.com/x>s1"), ing("b", older, "h.example.com/x>s2")},
			routes:  map[string]string{"h.example.com#/x/": "s2"}, flags: map[string]string{"h.example.com": "-"},
			codes: []string{"PathConflict Ingress/a/a spec.rules[0].http.paths[0]"},
		},
		"of one age, the name decides": {
			objects: []any{service("s1"), service("s2"), ing("b", "h.example.com/x>s2"), ing("a", "h.example.com/x>s1")},
			routes:  map[string]string{"h.example.com#/x/": "s1"},
			codes:   []string{"PathConflict Ingress/a/b spec.rules[0].http.paths[0]"},
		},
		"two that ask for the same have no conflict": {
			objects: []any{service("s1"), ing("b", "h.example.com/x>s1"), ing("a", "h.example.com/x>s1", "h.example.com/x/>s1")},
			routes:  map[string]string{"h.example.com#/x/": "s1"},
		},
		"paths of one host from several objects": {
			objects: []any{service("s1"), service("s2"), ing("a", "h.example.com/x>s1"), ing("b", "h.example.com/y>s2")},
			routes:  map[string]string{"h.example.com#/x/": "s1", "h.example.com#/y/": "s2"},
		},
		"a missing Service answers 503, which the object that names it hears of": {
			objects: []any{ing("a", "h.example.com/>gone", "*.example.com/>gone"), ing("b", "i.example.com/>gone")},
			routes:  map[string]string{"h.example.com#/": "gone"}, flags: map[string]string{"h.example.com": "a_gone_80"},
			codes: []string{
				"ServiceMissing Ingress/a/a spec.rules[0].http.paths[0]", "ServiceMissing Ingress/a/a spec.rules[1].http.paths[0]", "ServiceMissing Ingress/a/b spec.rules[0].http.paths[0]",
			},
		},
		"a path-scoped protection guards its host": {
			objects: []any{service("s1"), ing("a", "h.example.com/>s1"), ing("b", "h.example.com/admin>s1", "allowlist-source-range=10.0.0.0/8")},
			flags:   map[string]string{"h.example.com": "g"},
		},
		"a protection of the whole host needs no guard": {
			objects: []any{service("s1"), ing("a", "h.example.com/>s1", "h.example.com/admin>s1", "allowlist-source-range=10.0.0.0/8")},
			flags:   map[string]string{"h.example.com": "-"},
		},
		"TLS is a fact about hosts with rules, the wildcard's counts for those below it": {
			objects: []any{service("s1"), ing("a", "h.example.com/>s1", "*.example.org/>s1", "x.example.org/>s1", "a.b.example.org/>s1", "tls:h.example.com=", "tls:*.example.org=", "tls:lone.example.net=")},
			flags:   map[string]string{"h.example.com": "a_s1_80", "x.example.org": "a_s1_80", "a.b.example.org": "a_s1_80", "lone.example.net": ""},
			tls: map[string]string{
				"h.example.com": "t", "*.example.org": "t", "x.example.org": "t", "a.b.example.org": "", "lone.example.net": "",
			},
		},
		"one wrong option is said once for each object that has it": {
			objects: []any{service("s1"), ing("a", "h.example.com/>s1", "h.example.com/y>s1", "nonsense=1"), ing("b", "i.example.com/>s1", "nonsense=1")},
			codes:   []string{"OptionUnknown Ingress/a/a " + annotation + "nonsense", "OptionUnknown Ingress/a/b " + annotation + "nonsense"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.objects...)
			for key, service := range c.routes {
				if b := w.backend(key); b == nil || !strings.HasPrefix(b.Name, "a_"+service+"_80") {
					t.Errorf("%s leads to %v, not to %s", key, b, service)
				}
			}
			for host, want := range c.flags {
				if got, _ := w.model.Tables[tableHosts].Lookup(host); got != want {
					t.Errorf("flags of %s are %q, want %q", host, got, want)
				}
			}
			for host, want := range c.tls {
				if got, _ := w.model.Tables[tableTLS].Lookup(host); got != want {
					t.Errorf("TLS of %s is %q, want %q", host, got, want)
				}
			}
			if diff := cmp.Diff(c.codes, w.codes()); diff != "" {
				t.Errorf("findings (-want +got)\n%s", diff)
			}
		})
	}
}

// TestANewNameMovesItsRoutesOnly: a Service's annotation gives its backend another name.
func TestANewNameMovesItsRoutesOnly(t *testing.T) {
	w := newWorld(t, service("s1"), service("s2"), ing("a", "h.example.com/>s1", "h.example.com/x>s2"))
	hosts := w.model.Tables[tableHosts]
	w.put(service("s1", "timeout-server=3s"))
	b := w.backend("h.example.com#/")
	if b.Name == "a_s1_80" || w.model.Backends.Lookup("a_s1_80") != nil || w.model.Backends.Len() != 2 {
		t.Errorf("the backend is %s, of %d", b.Name, w.model.Backends.Len())
	}
	if text, _ := w.model.Tables[tableValues].Lookup(b.Name + "/" + model.SlotTimeoutServer); text != "3000" {
		t.Errorf("the time-out is %q", text)
	}
	if w.model.Tables[tableHosts] != hosts {
		t.Error("the table of hosts changed")
	}
	w.put(service("s1"))
	if w.model.Tables[tableValues].Len() != 0 || len(w.model.Profiles) != 1 {
		t.Error("something of the option stays")
	}
}

func TestCertificates(t *testing.T) {
	year := start.AddDate(1, 0, 0)
	one, both, short := newPair(t, year, "one.example.com"), newPair(t, year, "*.example.com"), newPair(t, start.Add(time.Hour), "one.example.com")
	const own = "0default.pem"
	w := newWorld(t, service("s"), secret("one", one), secret("both", both), secret("short", short))
	lines := func() map[string]string { // host -> "own", or the Secret
		found := map[string]string{}
		for i, line := range w.model.CrtList {
			if i == 0 && (line.Certificate != own || len(line.Hosts) != 0) {
				t.Fatalf("the first line is %v", line)
			}
			for _, host := range line.Hosts {
				found[host] = "own"
				for _, c := range w.model.Certificates {
					if c.Name == line.Certificate && c.Name != own {
						found[host] = c.Origin.Name
					}
				}
			}
		}
		return found
	}
	steps := []struct {
		says  string
		step  func()
		lines map[string]string
		codes []string
	}{
		{"one certificate", func() { w.put(ing("a", "tls:one.example.com=one")) }, map[string]string{"one.example.com": "one"}, nil},
		{"a younger claim to the host loses, to another it wins",
			func() { w.put(ing("b", "tls:one.example.com=both", "tls:two.example.com=both")) },
			map[string]string{"one.example.com": "one", "two.example.com": "both"}, []string{"TLSConflict Ingress/a/b spec.tls[0]"}},
		{"a missing Secret leaves the host to the default certificate",
			func() { w.remove(secret("one", nil)) },
			map[string]string{"one.example.com": "own", "two.example.com": "both"},
			[]string{"SecretMissing Ingress/a/a spec.tls[0]", "TLSConflict Ingress/a/b spec.tls[0]"}},
		{"it heals", func() { w.put(secret("one", one)) }, map[string]string{"one.example.com": "one", "two.example.com": "both"}, []string{"TLSConflict Ingress/a/b spec.tls[0]"}},
		{"a certificate for another host is served all the same",
			func() { w.remove(ing("b")); w.put(ing("a", "tls:three.example.org=one")) },
			map[string]string{"three.example.org": "one"}, []string{"CertificateHost Ingress/a/a spec.tls[0]"}},
		{"no Secret asks for the default certificate", func() { w.put(ing("a", "tls:one.example.com=")) }, map[string]string{"one.example.com": "own"}, nil},
		{"a certificate that ends soon", func() { w.put(ing("a", "tls:one.example.com=short")) }, map[string]string{"one.example.com": "short"}, nil},
		{"time makes it unusable", func() { w.now = w.now.Add(2 * time.Hour); w.put() }, map[string]string{"one.example.com": "own"},
			[]string{"CertificateExpired Ingress/a/a spec.tls[0]", "CertificateExpired Secret/a/short data.tls.crt"}},
		{"nobody asks any more", func() { w.remove(ing("a")) }, map[string]string{}, nil},
	}
	for _, step := range steps {
		step.step()
		if diff := cmp.Diff(step.lines, lines()); diff != "" {
			t.Fatalf("%s: (-want +got)\n%s", step.says, diff)
		}
		if diff := cmp.Diff(step.codes, w.codes()); diff != "" {
			t.Fatalf("%s: findings (-want +got)\n%s", step.says, diff)
		}
	}
	if len(w.model.Certificates) != 1 {
		t.Errorf("%d certificates are left", len(w.model.Certificates))
	}
}

func TestDefaultCertificateOfASecret(t *testing.T) {
	pair := newPair(t, start.AddDate(1, 0, 0), "h.example.com")
	w := &world{t: t, options: options(), snapshot: snapshot.New(), now: start}
	w.options.DefaultCertificateSecret = snapshot.Key{Kind: snapshot.Secret, Namespace: "a", Name: "d"}
	w.memo = New(w.options)
	w.put(class("sluice", controller), ing("x", "tls:h.example.com=", "tls:i.example.com=d"))
	if w.model.Certificates[0].Name != "0default.pem" || !w.has("SecretMissing Secret/a/d") {
		t.Errorf("the default certificate is %v, findings %v", w.model.Certificates[0], w.codes())
	}
	w.put(secret("d", pair))
	if len(w.model.Certificates) != 2 || w.model.Certificates[1].Origin.Name != "d" || len(w.model.CrtList) != 2 || len(w.model.CrtList[1].Hosts) != 2 {
		t.Errorf("certificates %v, crt-list %v", w.model.Certificates, w.model.CrtList)
	}
	if line := w.model.CrtList[0]; line.Certificate != "0default.pem" || len(line.Hosts) != 0 {
		t.Errorf("the first line is %v: it can't be changed at run time, so it is the controller's own", line)
	}
}

func TestDefaultBackendService(t *testing.T) {
	w := &world{t: t, options: options(), snapshot: snapshot.New(), now: start}
	w.options.DefaultBackendService = snapshot.Key{Kind: snapshot.Service, Namespace: "a", Name: "d"}
	w.memo = New(w.options)
	w.put(class("sluice", controller))
	if b := w.backend("*#"); b == nil || len(b.Servers) != 0 || !w.has("ServiceMissing Service/a/d") {
		t.Fatalf("without the Service, the default is %v, findings %v", b, w.codes())
	}
	w.put(service("d"), endpoints("d-x", "d", "10.0.0.1"))
	if b := w.backend("*#"); b.Name != "a_d_80" || len(b.Servers) != 1 {
		t.Errorf("the default is %v", b)
	}
	late := service("d")
	late.Spec.Ports = []corev1.ServicePort{{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP}, {Name: "http", Port: 81}}
	w.put(late)
	if b := w.backend("*#"); b.Name != "a_d_81" {
		t.Errorf("the default is %v, not the first TCP port", b)
	}
	own := ing("x")
	own.Spec.DefaultBackend = backendOf("s")
	w.put(own, service("s"))
	if b := w.backend("*#"); b.Name != "a_s_80" || len(w.codes()) != 0 {
		t.Errorf("an Ingress' own default gives way: %v, findings %v", b, w.codes())
	}
}

// TestLongCrtLists: one more host changes one line, and no line is too long.
func TestLongCrtLists(t *testing.T) {
	var hosts []string
	for i := range 1000 {
		hosts = append(hosts, strings.Repeat("a", 1+i%7)+strings.Repeat("b", i/100)+string(rune('a'+i%26))+strings.Repeat("c", i%100/7)+".example.com")
	}
	slices.Sort(hosts)
	hosts = slices.Compact(hosts)
	before := linesOf("x.pem", hosts)
	after := linesOf("x.pem", slices.Insert(slices.Clone(hosts), 100, hosts[99]+".x"))
	var all []string
	for _, line := range before {
		if len(line.Hosts) > maxHosts || len(line.Hosts) == 0 {
			t.Errorf("a line of %d hosts", len(line.Hosts))
		}
		all = append(all, line.Hosts...)
	}
	if !slices.Equal(all, hosts) {
		t.Error("hosts are lost or in another order")
	}
	fresh := 0
	for _, line := range after {
		if !slices.ContainsFunc(before, func(old model.CrtLine) bool { return slices.Equal(old.Hosts, line.Hosts) }) {
			fresh++
		}
	}
	if fresh > 3 {
		t.Errorf("%d of %d lines differ", fresh, len(after))
	}
}

func TestWantedFollowsTheLookUps(t *testing.T) {
	w := newWorld(t)
	keys := func(list []snapshot.Key) string {
		var names []string
		for _, key := range list {
			names = append(names, key.String())
		}
		return strings.Join(names, " ")
	}
	check := func(wanted, unwanted string) {
		t.Helper()
		more, less := w.memo.Wanted()
		if keys(more) != wanted || keys(less) != unwanted {
			t.Errorf("wanted %q, no longer %q; want %q and %q", keys(more), keys(less), wanted, unwanted)
		}
	}
	global := w.options.ConfigMap.String()
	w.put(service("web"), ing("one", "a.example/>web", "tls:a.example=one"), ing("two", "b.example/>web", "tls:b.example=one"))
	check(global+" Secret/a/one", "")
	w.put(ing("one", "a.example/>web", "tls:a.example=two"))
	check("Secret/a/two", "")
	w.put(ing("two", "b.example/>web"), secret("two", nil))
	check("", "Secret/a/one")
	w.put(ing("two", "b.example/>web", "tls:b.example=three"))
	w.put(ing("two", "b.example/>web"))
	check("", "")
}
