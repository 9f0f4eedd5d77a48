package resolve

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/settings"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// raw are options by name.
type raw = map[string]string

// ask is one backend to resolve: the options of the global ConfigMap, of an Ingress
// "default/site" and of the Service "default/web" with one pod, and further objects.
type ask struct {
	global, ingress, service raw
	strip                    string
	objects                  []any
	anyNamespace             bool
}

func globals(t testing.TB, options raw) *Globals {
	t.Helper()
	set, _ := settings.Globals(settings.Layer{
		Origin: model.Origin{Kind: "ConfigMap", Namespace: "sluice", Name: "sluice", Field: "data."}, Raw: options,
	})
	return NewGlobals(set)
}

func (a ask) ref() BackendRef {
	origin := model.Origin{Kind: "Ingress", Namespace: "default", Name: "site", Field: "sluice-proxy.github.io/"}
	ref := BackendRef{Namespace: "default", Service: "web", Port: "80", StripPath: a.strip}
	if a.ingress != nil {
		ref.Layers = []settings.Layer{{Origin: origin, Raw: a.ingress}}
	}
	return ref
}

func (a ask) resolve(t testing.TB) BackendFragment {
	t.Helper()
	s := service(port(80, "http"))
	s.Annotations = map[string]string{"unrelated.example.com/balance-algorithm": "leastconn"}
	for name, text := range a.service {
		s.Annotations["sluice-proxy.github.io/"+name] = text
	}
	objects := append([]any{s, slice("web-x", new("http"), new(int32(8080)), endpoint("10.0.0.1"))}, a.objects...)
	g := globals(t, a.global)
	g.AnyNamespace = a.anyNamespace
	return Backend(view(t, objects...), g, a.ref())
}

// noNames compares lists by whether they are there and by their content.
var noNames = cmp.Options{cmpopts.IgnoreFields(model.List{}, "Name", "Origin"), cmpopts.IgnoreFields(model.Userlist{}, "Name", "Origin"), cmp.AllowUnexported(model.Secret{})}

const goodHash = "$6$abcdefgh$ltjgWl6579NluT/Vi1nwEvcil.G5Nbc4NiXZaNGStk8PSwGfQv72N2CKPPrVACtLtip/cZ/1GM/O6IND4WQhG."

var profileTests = map[string]struct {
	ask
	shape   func(*model.Shape) // what differs from the default one
	values  raw
	options model.ServerOptions
}{
	"an algorithm on the Ingress":           {ask: ask{ingress: raw{"balance-algorithm": "leastconn"}}, shape: func(s *model.Shape) { s.Balance = "leastconn" }},
	"the Service wins over the Ingress":     {ask: ask{ingress: raw{"balance-algorithm": "leastconn"}, service: raw{"balance-algorithm": "source"}}, shape: func(s *model.Shape) { s.Balance = "source" }},
	"the Ingress wins over the ConfigMap":   {ask: ask{global: raw{"balance-algorithm": "leastconn"}, ingress: raw{"balance-algorithm": "source"}}, shape: func(s *model.Shape) { s.Balance = "source" }},
	"a timeout of the server is a value":    {ask: ask{ingress: raw{"timeout-server": "7s"}}, shape: func(s *model.Shape) { s.TimeoutServer = true }, values: raw{"timeout-server": "7000"}},
	"a timeout of the tunnel is a value":    {ask: ask{ingress: raw{"timeout-tunnel": "2h"}}, shape: func(s *model.Shape) { s.TimeoutTunnel = true }, values: raw{"timeout-tunnel": "7200000"}},
	"a timeout to connect is a literal":     {ask: ask{ingress: raw{"timeout-connect": "500ms"}}, shape: func(s *model.Shape) { s.TimeoutConnect = 500 * time.Millisecond }},
	"a timeout of the queue is a literal":   {ask: ask{ingress: raw{"timeout-queue": "3s"}}, shape: func(s *model.Shape) { s.TimeoutQueue = 3 * time.Second }},
	"no redirect to https":                  {ask: ask{ingress: raw{"ssl-redirect": "false"}}, shape: func(s *model.Shape) { s.SSLRedirect = 0 }},
	"a boolean that can't be read stays on": {ask: ask{ingress: raw{"ssl-redirect": "maybe"}}, shape: func(*model.Shape) {}},
	"no HSTS":                               {ask: ask{ingress: raw{"hsts": "false"}}, shape: func(s *model.Shape) { s.HSTS = "" }},
	"HSTS in full": {ask: ask{ingress: raw{"hsts-max-age": "60", "hsts-include-subdomains": "true", "hsts-preload": "true"}},
		shape: func(s *model.Shape) { s.HSTS = "max-age=60; includeSubDomains; preload" }},
	"a redirect": {ask: ask{ingress: raw{"redirect-to": "https://example.com/x", "redirect-to-code": "301"}},
		shape: func(s *model.Shape) { s.Redirect = 301 }, values: raw{"redirect": "https://example.com/x"}},
	"a bounded body": {ask: ask{ingress: raw{"proxy-body-size": "2k"}}, shape: func(s *model.Shape) { s.LimitBody = true }, values: raw{"body-size": "2048"}},
	"a rewritten path": {ask: ask{ingress: raw{"rewrite-target": "/api/"}, strip: "/foo/"},
		shape: func(s *model.Shape) { s.Rewrite = true }, values: raw{"rewrite": "/api", "strip": "4"}},
	"a path that is taken away": {ask: ask{ingress: raw{"rewrite-target": "/"}, strip: "/foo"},
		shape: func(s *model.Shape) { s.Rewrite = true }, values: raw{"rewrite": "/", "strip": "4"}},
	"a prefix that is put before everything": {ask: ask{ingress: raw{"rewrite-target": "/api"}, strip: "/"},
		shape: func(s *model.Shape) { s.Rewrite = true }, values: raw{"rewrite": "/api", "strip": "0"}},
	"a target without a matched path": {ask: ask{ingress: raw{"rewrite-target": "/api"}}, shape: func(*model.Shape) {}},
	"headers, in the order del, set, add": {
		ask: ask{ingress: raw{"request-set-headers": "X-A: %[env(HOME)]\nX-B: b", "request-add-headers": "X-A: 2", "request-del-headers": "X-A, X-C", "response-set-headers": "X-D: $d"}},
		shape: func(s *model.Shape) {
			s.RequestHeaders = []model.Header{{Op: model.DelHeader, Name: "X-A"}, {Op: model.DelHeader, Name: "X-C"},
				{Op: model.SetHeader, Name: "X-A"}, {Op: model.SetHeader, Name: "X-B"}, {Op: model.AddHeader, Name: "X-A"}}
			s.ResponseHeaders = []model.Header{{Op: model.SetHeader, Name: "X-D"}}
		},
		values: raw{"request/2": "%[env(HOME)]", "request/3": "b", "request/4": "2", "response/0": "$d"}},
	"CORS for some origins": {
		ask:   ask{ingress: raw{"cors-enable": "true", "cors-allow-origin": "https://A.example, https://b.example", "cors-allow-methods": "GET, PUT", "cors-allow-headers": "X-A", "cors-expose-headers": "X-B", "cors-max-age": "5"}},
		shape: func(s *model.Shape) { s.CORS = &model.CORS{Credentials: true, Expose: true} },
		values: raw{"origin/https://a.example": "1", "origin/https://b.example": "1", "cors-methods": "GET, PUT",
			"cors-headers": "X-A", "cors-expose": "X-B", "cors-max-age": "5"}},
	"CORS for all origins": {
		ask:    ask{ingress: raw{"cors-enable": "true", "cors-allow-methods": "GET", "cors-allow-headers": "X-A", "cors-allow-credentials": "false"}},
		shape:  func(s *model.Shape) { s.CORS = &model.CORS{AnyOrigin: true} },
		values: raw{"cors-methods": "GET", "cors-headers": "X-A", "cors-max-age": "86400"}},
	"CORS with a list that can't be read allows nobody": {
		ask:    ask{ingress: raw{"cors-enable": "true", "cors-allow-origin": "https://a.example, (junk", "cors-allow-methods": "GET", "cors-allow-headers": "X-A"}},
		shape:  func(s *model.Shape) { s.CORS = &model.CORS{Credentials: true} },
		values: raw{"cors-methods": "GET", "cors-headers": "X-A", "cors-max-age": "86400"}},
	"an allow list with an exception": {
		ask: ask{ingress: raw{"allowlist-source-range": "10.1.2.3/8, fd00::1,!10.9.9.9"}},
		shape: func(s *model.Shape) {
			s.AllowList, s.AllowExcept = &model.List{Entries: []string{"10.0.0.0/8", "fd00::1"}}, &model.List{Entries: []string{"10.9.9.9"}}
		}},
	"a deny list, by its other place": {
		ask:   ask{service: raw{"denylist-source-range": "192.0.2.0/24"}},
		shape: func(s *model.Shape) { s.DenyList = &model.List{Entries: []string{"192.0.2.0/24"}} }},
	"users": {
		ask: ask{ingress: raw{"auth-secret": "users", "auth-realm": "a b"}, objects: []any{secret{"users", raw{"auth": "u:" + goodHash + "\np::plain\n"}}}},
		shape: func(s *model.Shape) {
			s.BasicAuth = &model.Auth{Realm: "a b", Users: &model.Userlist{Users: []model.User{newUser("p", "plain", true), newUser("u", goodHash, false)}}}
		}},
	"the persistence cookie": {ask: ask{ingress: raw{"affinity": "cookie"}}, shape: func(s *model.Shape) {
		s.Cookie = &model.Cookie{Name: "INGRESSCOOKIE", Strategy: "insert", Keywords: []string{"indirect", "nocache", "httponly"}}
	}},
	"a cookie with everything": {
		ask: ask{ingress: raw{"affinity": "cookie", "session-cookie-name": "C", "session-cookie-domain": ".example.com", "session-cookie-same-site": "true", "session-cookie-preserve": "true"}},
		shape: func(s *model.Shape) {
			s.Cookie = &model.Cookie{Name: "C", Strategy: "insert", Domain: ".example.com", SameSite: "None",
				Keywords: []string{"indirect", "nocache", "httponly", "preserve", "secure"}}
		}},
	"a rewritten cookie goes without the keywords that HAProxy refuses": {
		ask: ask{ingress: raw{"affinity": "cookie", "session-cookie-strategy": "rewrite", "session-cookie-preserve": "true"}},
		shape: func(s *model.Shape) {
			s.Cookie = &model.Cookie{Name: "INGRESSCOOKIE", Strategy: "rewrite", Keywords: []string{"nocache", "httponly"}}
		}},
	"a check": {
		ask:     ask{ingress: raw{"health-check-uri": "/up", "health-check-port": "81", "health-check-addr": "10.0.0.9", "health-check-interval": "5s", "health-check-rise-count": "4", "health-check-fall-count": "5"}},
		shape:   func(s *model.Shape) { s.HTTPCheck = &model.HTTPCheck{URI: "/up"} },
		options: model.ServerOptions{Check: model.Check{On: true, Interval: 5 * time.Second, Rise: 4, Fall: 5, Port: 81, Addr: "10.0.0.9"}}},
	"limits and the PROXY protocol": {
		ask:     ask{ingress: raw{"maxconn-server": "9", "maxqueue-server": "8", "proxy-protocol": "v2-ssl"}},
		options: model.ServerOptions{MaxConn: 9, MaxQueue: 8, SendProxy: "send-proxy-v2-ssl"}},
	"HTTP/2":              {ask: ask{ingress: raw{"backend-protocol": "h2"}}, options: model.ServerOptions{Proto: "h2"}},
	"gRPC":                {ask: ask{ingress: raw{"backend-protocol": "GRPC"}}, options: model.ServerOptions{Proto: "h2"}},
	"TLS":                 {ask: ask{ingress: raw{"backend-protocol": "h1-ssl"}}, options: model.ServerOptions{SSL: true, SNI: noSNI}},
	"TLS by the old word": {ask: ask{ingress: raw{"secure-backends": "true"}}, options: model.ServerOptions{SSL: true, SNI: noSNI}},
	"HTTP/2 over TLS":     {ask: ask{ingress: raw{"backend-protocol": "h2-ssl"}}, options: model.ServerOptions{SSL: true, ALPN: "h2", SNI: noSNI}},
	"gRPC over TLS":       {ask: ask{ingress: raw{"backend-protocol": "grpcs"}}, options: model.ServerOptions{SSL: true, ALPN: "h2", SNI: noSNI}},
	"the name of the host is sent": {ask: ask{ingress: raw{"backend-protocol": "h1-ssl", "secure-sni": "host"}},
		options: model.ServerOptions{SSL: true, SNI: "req.hdr(host),host_only"}},
	"a fixed name is sent": {ask: ask{ingress: raw{"backend-protocol": "h1-ssl", "secure-sni": "Pod.example"}},
		options: model.ServerOptions{SSL: true, SNI: "str(pod.example)"}},
}

func TestProfile(t *testing.T) {
	base := globals(t, nil).Web.Shape
	for name, test := range profileTests {
		t.Run(name, func(t *testing.T) {
			f := test.resolve(t)
			want := base
			if test.shape != nil {
				test.shape(&want)
			}
			if diff := cmp.Diff(want, f.Backend.Profile.Shape, noNames); diff != "" {
				t.Errorf("shape (-want +got):\n%s\n%v", diff, f.Findings)
			}
			got := raw{}
			for _, v := range f.Backend.Values {
				got[v.Slot] = v.Text
			}
			if diff := cmp.Diff(test.values, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("values (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.options, f.Backend.Options); diff != "" {
				t.Errorf("options (-want +got):\n%s", diff)
			}
			if s := states(f.Backend.Servers); s != "10.0.0.1:8080 ready" {
				t.Errorf("servers %q", s)
			}
			isWeb := cmp.Equal(base, want, noNames)
			if isWeb != (f.Backend.Profile.Name == model.DefaultProfile) {
				t.Errorf("profile %s", f.Backend.Profile.Name)
			}
			plain := isWeb && test.options == model.ServerOptions{}
			if plain != (f.Backend.Name == "default_web_80") || !strings.HasPrefix(f.Backend.Name, "default_web_80") {
				t.Errorf("name %s", f.Backend.Name)
			}
		})
	}
}

func TestGlobalSettingsAreTheDefaultProfile(t *testing.T) {
	global := raw{"proxy-body-size": "1k", "hsts": "false", "timeout-server": "9s", "timeout-connect": "700ms", "denylist-source-range": "192.0.2.1"}
	a := ask{global: global}
	f := a.resolve(t)
	if f.Backend.Name != "default_web_80" || f.Backend.Profile.Name != model.DefaultProfile || f.Backend.Values != nil {
		t.Errorf("%s of %s with values %v", f.Backend.Name, f.Backend.Profile.Name, f.Backend.Values)
	}
	web := globals(t, global).Web
	if diff := cmp.Diff([]model.Value{{Slot: "body-size", Text: "1024"}}, web.Literals); diff != "" {
		t.Error(diff)
	}
	if web.Shape.TimeoutConnect != 0 || web.Shape.TimeoutServer {
		t.Error("the base section has the global timeouts, the profile must not repeat them")
	}
	// An option with the global value changes nothing, one with another value has all of it.
	a.ingress = raw{"proxy-body-size": "1024", "timeout-server": "9000"}
	if f := a.resolve(t); f.Backend.Profile.Name != model.DefaultProfile || f.Backend.Name != "default_web_80" {
		t.Errorf("the global value again: %s of %s", f.Backend.Name, f.Backend.Profile.Name)
	}
	a.ingress = raw{"hsts": "true"}
	if f := a.resolve(t); f.Backend.Profile.Name == model.DefaultProfile || len(f.Backend.Values) != 1 || f.Backend.Profile.Shape.DenyList == nil {
		t.Errorf("another value: %+v", f.Backend)
	}
}

func TestGlobalUsersGuardEveryBackend(t *testing.T) {
	users := secret{"sluice/users", raw{"auth": "u:" + goodHash}}
	for _, named := range []string{"users", "sluice/users"} {
		a := ask{global: raw{"auth-secret": named}, objects: []any{users}}
		if f := a.resolve(t); f.Backend.Profile.Shape.BasicAuth == nil || f.Backend.Profile.Name == model.DefaultProfile {
			t.Errorf("%s: %+v", named, f.Backend.Profile)
		}
		a.objects = nil
		if f := a.resolve(t); f.Backend.Profile.Shape.Deny != 503 {
			t.Errorf("%s, without the Secret: %+v", named, f.Backend.Profile)
		}
		if web := globals(t, a.global).Web; web.Shape.Deny != 503 {
			t.Errorf("%s: the default profile is open", named)
		}
	}
}

func TestListsKeepTheirNames(t *testing.T) {
	get := func(a ask) *model.Backend { return a.resolve(t).Backend }
	one := get(ask{ingress: raw{"allowlist-source-range": "10.0.0.1"}})
	two := get(ask{ingress: raw{"allowlist-source-range": "10.0.0.2"}})
	if one.Name != two.Name || one.Profile.Name != two.Profile.Name || one.Profile.Shape.AllowList.Name != two.Profile.Shape.AllowList.Name {
		t.Error("another entry made another backend, it can be changed at run time")
	}
	both := get(ask{ingress: raw{"allowlist-source-range": "10.0.0.1", "denylist-source-range": "10.0.0.1"}}).Profile.Shape
	if both.AllowList.Name == both.DenyList.Name {
		t.Error("the two lists of an object have one name")
	}
	onService := get(ask{service: raw{"allowlist-source-range": "10.0.0.1"}})
	if onService.Profile.Shape.AllowList.Name == one.Profile.Shape.AllowList.Name {
		t.Error("the lists of two objects have one name")
	}
	a := ask{ingress: raw{"allowlist-source-range": "10.0.0.1"}}.ref()
	b := ask{ingress: raw{"allowlist-source-range": "10.0.0.1"}}.ref()
	b.Layers[0].Origin.Name = "other"
	if a.Key() == b.Key() {
		t.Error("two objects with lists share a backend, though either may change its list")
	}
}

func TestKey(t *testing.T) {
	base := BackendRef{Namespace: "a", Service: "b", Port: "80", Layers: []settings.Layer{{Raw: raw{"hsts": "false"}}}}
	edits := map[string]func(*BackendRef){
		"namespace": func(r *BackendRef) { r.Namespace = "x" },
		"service":   func(r *BackendRef) { r.Service = "x" },
		"port":      func(r *BackendRef) { r.Port = "x" },
		"options":   func(r *BackendRef) { r.Layers = []settings.Layer{{Raw: raw{"hsts": "true"}}} },
		"layers":    func(r *BackendRef) { r.Layers = append(r.Layers, settings.Layer{Raw: raw{"hsts": "false"}}) },
		"strip":     func(r *BackendRef) { r.StripPath = "/" },
		"deny":      func(r *BackendRef) { r.Deny = 503 },
		"object with the options": func(r *BackendRef) {
			r.Layers = []settings.Layer{{Origin: model.Origin{Kind: "Ingress", Name: "i"}, Raw: raw{"hsts": "false"}}}
		},
	}
	keys := map[string]string{base.Key(): "none"}
	for name, edit := range edits {
		ref := base
		edit(&ref)
		if other, double := keys[ref.Key()]; double {
			t.Errorf("an edit of %s has the key of an edit of %s", name, other)
		}
		keys[ref.Key()] = name
	}
	same := base
	same.Origin = model.Origin{Kind: "Ingress", Name: "i"}
	same.Layers = []settings.Layer{{Raw: maps.Clone(base.Layers[0].Raw)}}
	if same.Key() != base.Key() {
		t.Error("the key depends on the object that asks")
	}
}

func TestServerValues(t *testing.T) {
	pods := slice("web-y", new("http"), new(int32(8080)), endpoint("10.0.0.2"))
	pods.Endpoints[0].TargetRef = &corev1.ObjectReference{Kind: "Pod", UID: "0a1b-2c"}
	server := func(a ask, i int) model.Server {
		a.objects = append(a.objects, pods)
		return a.resolve(t).Backend.Servers[i]
	}

	if s := server(ask{}, 0); s.Weight != 1 || s.Cookie != "" {
		t.Errorf("by default: %+v", s)
	}
	first := server(ask{ingress: raw{"affinity": "cookie"}}, 0)
	if again := server(ask{ingress: raw{"affinity": "cookie"}, service: raw{"initial-weight": "7"}}, 0); first.Cookie == "" || again.Cookie != first.Cookie || again.Weight != 7 {
		t.Errorf("%+v, then %+v", first, again)
	}
	if first.Cookie != "09515e8357074ca4" { // printf 10.0.0.1:8080Ingress | sha256sum
		t.Errorf("cookie %q", first.Cookie)
	}
	if other := server(ask{ingress: raw{"affinity": "cookie"}}, 1); other.Cookie == first.Cookie {
		t.Error("two servers have one cookie")
	}
	if salted := server(ask{global: raw{"cookie-key": "s3cret"}, ingress: raw{"affinity": "cookie"}}, 0); salted.Cookie == first.Cookie {
		t.Error("the salt has no effect")
	}
	byUID := raw{"affinity": "cookie", "session-cookie-dynamic": "false", "session-cookie-value-strategy": "pod-uid"}
	if s := server(ask{ingress: byUID}, 1); s.Cookie != "0a1b-2c" {
		t.Errorf("cookie %q of a pod with a UID", s.Cookie)
	}
	if s := server(ask{ingress: byUID}, 0); s.Cookie != first.Cookie {
		t.Errorf("cookie %q of a server without a UID", s.Cookie)
	}
	plain, weighted := ask{}.resolve(t).Backend, ask{ingress: raw{"initial-weight": "7"}}.resolve(t).Backend
	if plain.Name == weighted.Name {
		t.Error("two backends with other servers have one name")
	}
	if global := (ask{global: raw{"initial-weight": "7"}}).resolve(t).Backend; global.Name != plain.Name || global.Servers[0].Weight != 7 {
		t.Errorf("a global weight: %s %+v", global.Name, global.Servers)
	}
}
