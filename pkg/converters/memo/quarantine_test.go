package memo

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// refuse puts objects in quarantine and updates.
func (w *world) refuse(objects ...any) {
	var origins []model.Origin
	for _, object := range objects {
		origins = append(origins, keyOf(object).Origin())
	}
	w.memo.Planned()
	w.memo.Quarantine(origins, "bad word")
	w.put()
}

// served says what a key leads to: a status that all requests get, or the Service.
func (w *world) served(key string) string {
	b := w.backend(key)
	switch {
	case b == nil:
		return "nothing"
	case b.Profile.Shape.Deny != 0:
		return "denied"
	}
	return b.Origins[0].Name
}

func TestQuarantineOfAnIngress(t *testing.T) {
	const h, i = "h.example.com#/", "i.example.com#/"
	allow := "allowlist-source-range=10.0.0.0/8"
	cases := map[string]struct {
		good, bad any // good nil: none
		strikes   int
		want      map[string]string
	}{
		"its last good form is served":                         {ing("a", "h.example.com/>s1"), ing("a", "i.example.com/>s2"), 1, map[string]string{h: "s1", i: "nothing"}},
		"refused again, it is left out":                        {ing("a", "h.example.com/>s1"), ing("a", "i.example.com/>s2"), 2, map[string]string{h: "nothing", i: "nothing"}},
		"without a good form it is left out":                   {nil, ing("a", "i.example.com/>s2"), 1, map[string]string{i: "nothing"}},
		"a new protection is not opened by the old form":       {ing("a", "h.example.com/>s1"), ing("a", "i.example.com/>s2", allow), 1, map[string]string{h: "nothing", i: "denied"}},
		"another protection is not opened by the old form":     {ing("a", "h.example.com/>s1", "allowlist-source-range=0.0.0.0/0"), ing("a", "h.example.com/>s1", allow), 1, map[string]string{h: "denied"}},
		"an equal protection stays in force":                   {ing("a", "h.example.com/>s1", allow), ing("a", "h.example.com/>s2", allow), 1, map[string]string{h: "s1"}},
		"a protection that was to go stays":                    {ing("a", "h.example.com/>s1", allow), ing("a", "h.example.com/>s2"), 1, map[string]string{h: "s1"}},
		"without a good form, what it protects is denied":      {nil, ing("a", "h.example.com/>s1", allow), 1, map[string]string{h: "denied"}},
		"if even the denial is refused, it is left out":        {nil, ing("a", "h.example.com/>s1", allow), 2, map[string]string{h: "nothing"}},
		"what was good together with something else is no way": {ing("a", "h.example.com/>s1"), nil, 1, map[string]string{h: "nothing"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, service("s1"), service("s2"))
			bad := c.bad
			if c.good != nil {
				w.put(c.good)
				w.memo.Planned()
				w.memo.Applied()
			}
			if bad != nil {
				w.put(bad)
			} else {
				bad = c.good
			}
			for range c.strikes {
				w.refuse(bad)
			}
			for key, want := range c.want {
				if got := w.served(key); got != want {
					t.Errorf("%s is served by %s, want %s", key, got, want)
				}
			}
			if !w.has("Quarantined Ingress/a/a") || len(w.memo.Quarantined()) != 1 {
				t.Errorf("findings %v, in quarantine %v", w.codes(), w.memo.Quarantined())
			}
			w.put(ing("a", "h.example.com/>s2", "path-type=begin"))
			if got := w.served(h); got != "s2" || w.has("Quarantined") {
				t.Errorf("once changed, %s is served by %s; findings %v", h, got, w.codes())
			}
			w.equalsScratch()
		})
	}
}

func TestQuarantineLeavesTheRestAlive(t *testing.T) {
	w := newWorld(t, service("s1"), endpoints("s1-x", "s1", "10.0.0.1"), ing("a", "h.example.com/>s1", "timeout-server=3s"))
	w.memo.Planned()
	w.memo.Applied()
	bad := ing("a", "h.example.com/>s1", "timeout-server=4s")
	w.put(bad)
	w.refuse(bad)
	w.put(endpoints("s1-x", "s1", "10.0.0.2"))
	b := w.backend("h.example.com#/")
	if len(b.Servers) != 1 || b.Servers[0].Name() != "10.0.0.2:8080" || b.Values[0].Text != "3000" {
		t.Errorf("the backend is %v", b)
	}
	w.memo.Planned()
	w.memo.Applied()
	again := ing("a", "h.example.com/>s1", "timeout-server=4s")
	again.ResourceVersion = "77"
	w.put(again)
	if len(w.memo.Quarantined()) != 1 {
		t.Error("a change that says nothing new releases the object")
	}
	if w.remove(bad); len(w.memo.Quarantined()) != 0 || w.served("h.example.com#/") != "nothing" {
		t.Error("the deleted object is still in quarantine, or served")
	}
}

func TestQuarantineOfOtherKinds(t *testing.T) {
	const h = "h.example.com#/"
	year := start.AddDate(1, 0, 0)
	users := func(text string) any { return secret("u", map[string]string{"auth": text}) }
	allow := "allowlist-source-range=10.0.0.0/8"
	cases := map[string]struct {
		ingress   *testIngress
		good, bad any
		check     func(*world) string
		want      string
	}{
		"a Service keeps its last good form": {
			good: service("s1", "timeout-server=3s"), bad: service("s1", "timeout-server=4s"),
			check: func(w *world) string { return w.backend(h).Values[0].Text }, want: "3000",
		},
		"a Service without a good form denies": {
			bad:   service("s1", "timeout-server=4s"),
			check: func(w *world) string { return w.served(h) }, want: "denied",
		},
		"a Service whose new form protects denies": {
			good: service("s1"), bad: service("s1", allow),
			check: func(w *world) string { return w.served(h) }, want: "denied",
		},
		"the global ConfigMap keeps its last good form": {
			good: configMap("global", "max-connections=5"), bad: configMap("global", "max-connections=6"),
			check: func(w *world) string { return string(rune('0' + w.model.Process.MaxConn)) }, want: "5",
		},
		"the global ConfigMap without a good form keeps what protects": {
			bad:   configMap("global", "max-connections=6", allow),
			check: func(w *world) string { return protectedBy(w.backend(h)) }, want: "10.0.0.0/8",
		},
		"the global ConfigMap with a good form takes over what protects": {
			good: configMap("global", "max-connections=5", "allowlist-source-range=0.0.0.0/0"), bad: configMap("global", "max-connections=6", allow),
			check: func(w *world) string { return protectedBy(w.backend(h)) }, want: "10.0.0.0/8",
		},
		"a certificate keeps its last good form": {
			ingress: &testIngress{"tls:h.example.com=t"},
			good:    secret("t", newPair(t, year, "h.example.com")), bad: secret("t", newPair(t, year, "*.example.com")),
			check: func(w *world) string { return w.model.CrtList[1].Hosts[0] + " " + w.model.Certificates[1].Origin.Name }, want: "h.example.com t",
		},
		"users that were refused let nobody in, not even the old ones": {
			ingress: &testIngress{"auth-secret=u"}, good: users("joe::secret"), bad: users("jim::secret"),
			check: func(w *world) string { return w.served(h) }, want: "denied",
		},
		"an object that nobody knows is ignored": {
			bad:   service("other"),
			check: func(w *world) string { return w.served(h) }, want: "s1",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			words := []string{"h.example.com/>s1"}
			if c.ingress != nil {
				words = append(words, *c.ingress...)
			}
			w := newWorld(t, service("s1"), ing("a", words...))
			if _, isService := c.bad.(*corev1.Service); isService && c.good == nil {
				w.remove(service("s1"))
				if c.want == "s1" {
					w.put(service("s1"))
				}
			}
			if c.good != nil {
				w.put(c.good)
			}
			w.memo.Planned()
			w.memo.Applied()
			w.put(c.bad)
			w.refuse(c.bad)
			if got := c.check(w); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			w.remove(c.bad)
			if len(w.memo.Quarantined()) != 0 {
				t.Error("it is still in quarantine")
			}
			w.equalsScratch()
		})
	}
}

// testIngress are more words for the Ingress of a case.
type testIngress []string

func protectedBy(b *model.Backend) string {
	if list := b.Profile.Shape.AllowList; list != nil && len(list.Entries) == 1 {
		return list.Entries[0]
	}
	return "nothing"
}

// TestARefusalIsOfTheUpdatedForm: the snapshot may be ahead of the last Update.
func TestARefusalIsOfTheUpdatedForm(t *testing.T) {
	w := newWorld(t, service("s1"), service("s2"))
	bad := ing("a", "h.example.com/>s1")
	w.put(bad)
	fixed := ing("a", "h.example.com/>s2")
	touched := w.snapshot.Apply([]snapshot.Change{{Key: keyOf(fixed), Object: fixed}})
	w.memo.Planned()
	w.memo.Quarantine([]model.Origin{keyOf(bad).Origin()}, "bad word")
	w.model = w.memo.Update(w.snapshot, touched, w.now)
	if diff := cmp.Diff([]model.Origin(nil), w.memo.Quarantined()); diff != "" || w.served("h.example.com#/") != "s2" {
		t.Errorf("served by %s, in quarantine %v", w.served("h.example.com#/"), w.memo.Quarantined())
	}
}

// TestWhoIsToBlame: several objects make a backend that HAProxy refuses.
func TestWhoIsToBlame(t *testing.T) {
	const h, i = "h.example.com#/", "i.example.com#/"
	first, second := ing("a", "h.example.com/>s1", "timeout-server=3s"), ing("b", "i.example.com/>s1", "timeout-server=4s")
	quarantined := func(w *world) (names []string) {
		for _, o := range w.memo.Quarantined() {
			names = append(names, o.String())
		}
		return names
	}
	cases := map[string]struct {
		step func(*world)
		want []string
		h, i string
	}{
		"the one that changed": {func(w *world) {
			w.put(service("s1"), first, second)
			w.memo.Planned()
			w.memo.Applied()
			w.put(service("s1", "timeout-queue=3s"))
			w.refuse(service("s1"), first, second)
		}, []string{"Service/a/s1"}, "s1", "s1"},
		"the Ingress rather than the Service that others use": {func(w *world) {
			w.put(service("s1"), first, second)
			w.refuse(service("s1"), first)
		}, []string{"Ingress/a/a"}, "nothing", "s1"},
		"the Service after all, if it is refused without the Ingress": {func(w *world) {
			w.put(service("s1"), first, second)
			w.refuse(service("s1"), first)
			w.refuse(service("s1"))
		}, []string{"Service/a/s1"}, "denied", "denied"},
		"a change of the Service gives the Ingress another chance": {func(w *world) {
			w.put(service("s1"), first, second)
			w.refuse(service("s1"), first)
			w.put(service("s1"))
			w.put(service("s1", "timeout-queue=3s"))
		}, nil, "s1", "s1"},
		"an object that did not change gives nobody another chance": {func(w *world) {
			w.put(service("s1"), first, second)
			w.refuse(service("s1"), first)
			w.put(service("s1"), first, second)
		}, []string{"Ingress/a/a"}, "nothing", "s1"},
		"a slice is left out": {func(w *world) {
			w.put(service("s1"), first, second, endpoints("e", "s1", "10.0.0.1"))
			w.refuse(endpoints("e", "s1"))
			if n := len(w.backend(h).Servers); n != 0 {
				w.t.Errorf("%d servers", n)
			}
		}, []string{"EndpointSlice/a/e"}, "s1", "s1"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c.step(w)
			if diff := cmp.Diff(c.want, quarantined(w)); diff != "" {
				t.Errorf("in quarantine (-want +got)\n%s", diff)
			}
			if w.served(h) != c.h || w.served(i) != c.i {
				t.Errorf("served by %s and %s, want %s and %s", w.served(h), w.served(i), c.h, c.i)
			}
		})
	}
}
