package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/tests/harness"
)

// settings is the global ConfigMap. The options come in pairs of name and value.
func settings(options ...string) string {
	text := "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: sluice, namespace: sluice-system}\ndata:\n  timeout-client: 50s\n"
	for i := 0; i+1 < len(options); i += 2 {
		text += fmt.Sprintf("  %s: %q\n", options[i], options[i+1])
	}
	return text
}

// web is a Service "web" with its pod, and the class.
func web(pods ...*harness.Pod) string {
	return harness.Class + harness.Service("web") + harness.Slice("web", pods...)
}

// The path that the pod sees.
func TestRewriteTarget(t *testing.T) {
	rewrites := map[string]struct {
		path, target string
		seen         map[string]string // asked -> seen
	}{
		"strip": {"/app", "/", map[string]string{"/app": "/", "/app/": "/", "/app/x?q=1&r=/app": "/x?q=1&r=/app", "/app/x/": "/x/", "/app?q": "/?q", "/app/app/": "/app/", "/app/%20x": "/%20x"}},
		"slash": {"/app/", "/", map[string]string{"/app": "/", "/app/": "/", "/app/x": "/x"}},
		"add":   {"/", "/app", map[string]string{"/": "/app/", "/x?q=1": "/app/x?q=1", "/x/": "/app/x/", "/app": "/app/app"}},
		"move":  {"/old", "/new/v1/", map[string]string{"/old": "/new/v1", "/old/": "/new/v1/", "/old/x": "/new/v1/x", "/old/x/?a=b": "/new/v1/x/?a=b"}},
		"same":  {"/app", "/app", map[string]string{"/app": "/app", "/app/": "/app/", "/app/x": "/app/x"}},
		"expr":  {"/app", "/%25x-$HOME", map[string]string{"/app/y": "/%25x-$HOME/y"}},
	}
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		manifests := web(harness.NewPod(t, "web-1"))
		for name, rewrite := range rewrites {
			manifests += harness.IngressPath(name, name+".example", rewrite.path, "web", "rewrite-target", rewrite.target)
		}
		c := start(t, binary, map[string]string{"a.yaml": manifests})
		for name, rewrite := range rewrites {
			for asked, want := range rewrite.seen {
				if seen := sees(t, harness.Ask{Address: c.HTTP, Host: name + ".example", Path: asked}); seen.Path != want {
					t.Errorf("%s -> %s: %s became %s, want %s", rewrite.path, rewrite.target, asked, seen.Path, want)
				}
			}
		}
	})
}

// Redirects, and what is exempt from them.
func TestRedirects(t *testing.T) {
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		ca := harness.NewAuthority(t, "ca")
		manifests := map[string]string{
			"a.yaml": web(harness.NewPod(t, "web-1")) + secured("tls", "tls.example") + ca.Issue(t, "tls.example").TLSSecret("tls") +
				secured("open", "open.example", "ssl-redirect", "false", "hsts", "false") + secured("junk", "junk.example", "ssl-redirect", "maybe") +
				secured("hsts", "hsts.example", "hsts-max-age", "60", "hsts-include-subdomains", "true", "hsts-preload", "true") +
				secured("wild", "*.wild.example") + harness.Ingress("below", "own.wild.example", "web") +
				harness.Ingress("plain", "plain.example", "web") +
				harness.IngressPath("url", "plain.example", "/url", "web", "redirect-to", "https://there.example/x?y=$HOME") +
				harness.IngressPath("path", "plain.example", "/path", "web", "redirect-to", "/there", "redirect-to-code", "308") +
				harness.Ingress("root", "root.example", "web", "app-root", "/start/here"),
			"global.yaml": settings(),
		}
		c := start(t, binary, manifests)
		location := func(host, path string, code int, want string) {
			t.Helper()
			answer := gets(t, harness.Ask{Address: c.HTTP, Host: host, Path: path}, code)
			if got := answer.Headers.Get("Location"); got != want {
				t.Errorf("http://%s%s leads to %q, want %q", host, path, got, want)
			}
			if got := answer.Headers.Get("Strict-Transport-Security"); got != "" {
				t.Errorf("http://%s%s has HSTS %q by http", host, path, got)
			}
		}
		check := func(code int, exempt, other string) {
			t.Helper()
			location("tls.example", "/x/%7Ey?a=b&c=%20", code, "https://tls.example/x/%7Ey?a=b&c=%20")
			location("TLS.example:80", "/", code, "https://tls.example/")
			location("junk.example", "/", code, "https://junk.example/")
			for _, host := range []string{"any.wild.example", "own.wild.example"} {
				location(host, "/x", code, "https://"+host+"/x")
				location(host, "/%78", code, "https://"+host+"/%78")
			}
			location("wild.example", "/", 404, "")
			location("open.example", "/", 200, "")
			location("plain.example", "/", 200, "")
			location("tls.example", exempt+"/token", 200, "")
			location("tls.example", exempt+"/../x", code, "https://tls.example"+exempt+"/../x")
			location("tls.example", "/x/.."+exempt, 200, "")
			location("tls.example", other, code, "https://tls.example"+other)
			location("tls.example", "/x"+exempt, code, "https://tls.example/x"+exempt)
		}
		check(302, "/.well-known/acme-challenge", "/health")
		location("plain.example", "/url/z", 302, "https://there.example/x?y=$HOME")
		location("plain.example", "/path", 308, "/there")
		location("root.example", "/", 302, "/start/here")
		location("root.example", "/?x", 302, "/start/here")
		location("root.example", "/start/here", 200, "")

		for host, want := range map[string]string{"tls.example": "max-age=15768000", "any.wild.example": "max-age=15768000", "open.example": "", "hsts.example": "max-age=60; includeSubDomains; preload"} {
			answer, _, err := c.GetTLS(host, "/")
			if got := answer.Headers.Get("Strict-Transport-Security"); err != nil || answer.Status != 200 || got != want {
				t.Errorf("%s: status %d, HSTS %q, want %q (%v)", host, answer.Status, got, want, err)
			}
		}
		change(t, c, map[string]string{"global.yaml": settings("ssl-redirect-code", "301", "no-tls-redirect-locations", "/health,/live")})
		check(301, "/health", "/.well-known/acme-challenge/token")
	})
}

// Values of headers are literal text.
func TestHeaders(t *testing.T) {
	values := []string{"%[env(HOME)]", "$HOME", "%{+Q}o %ci", `a "quoted" 'b' \ c # d`, "100%", "%%", "}{ if TRUE", "é;,=|"}
	var set strings.Builder
	for i, value := range values {
		fmt.Fprintf(&set, "X-Text-%d: %s\n", i, value)
	}
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		c := start(t, binary, map[string]string{"a.yaml": web(harness.NewPod(t, "web-1")) + harness.Ingress("web", "web.example", "web",
			"request-set-headers", set.String()+"X-Set: new\nHost: other.example", "request-add-headers", "X-Add: more", "request-del-headers", "X-Del",
			"response-set-headers", set.String(), "response-add-headers", "X-Add: more\nX-Add: again", "response-del-headers", "Date")})
		answer := gets(t, harness.Ask{Address: c.HTTP, Host: "web.example", Path: "/", Headers: []string{"X-Set", "old", "X-Add", "first", "X-Del", "x"}}, 200)
		seen, err := answer.Read()
		if err != nil {
			t.Fatal(err)
		}
		for i, value := range values {
			name := fmt.Sprintf("X-Text-%d", i)
			if at, back := seen.Headers.Get(name), answer.Headers.Get(name); at != value || back != value {
				t.Errorf("%q became %q at the pod, %q at the client", value, at, back)
			}
		}
		if seen.Host != "other.example" || seen.Headers.Get("X-Set") != "new" || !slices.Equal(seen.Headers.Values("X-Add"), []string{"first", "more"}) || len(seen.Headers["X-Del"]) > 0 {
			t.Errorf("the pod saw host %s and %v", seen.Host, seen.Headers)
		}
		if !slices.Equal(answer.Headers.Values("X-Add"), []string{"more", "again"}) || answer.Headers.Get("Date") != "" {
			t.Errorf("the client saw %v", answer.Headers)
		}
	})
}

// A client stays with its pod; the cookie of a pod is the same on every replica.
func TestSessionCookie(t *testing.T) {
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		one, two, three := harness.NewPod(t, "web-1"), harness.NewPod(t, "web-2"), harness.NewPod(t, "web-3")
		manifests := map[string]string{
			"pods.yaml": web(one, two),
			"a.yaml": harness.Ingress("web", "web.example", "web", "affinity", "cookie", "session-cookie-name", "STICK", "session-cookie-same-site", "Lax") +
				harness.Ingress("free", "free.example", "web"),
		}
		replicas := []*harness.Controller{start(t, binary, manifests), start(t, binary, manifests)}
		cookies := map[string]string{} // of each pod
		for _, c := range replicas {
			for range 6 {
				answer := gets(t, harness.Ask{Address: c.HTTP, Host: "web.example", Path: "/"}, 200)
				seen, err := answer.Read()
				if err != nil {
					t.Fatal(err)
				}
				got, err := http.ParseSetCookie(answer.Headers.Get("Set-Cookie"))
				if err != nil || got.Name != "STICK" || got.Value == "" || !got.HttpOnly || got.SameSite != http.SameSiteLaxMode {
					t.Fatalf("Set-Cookie: %q: %v", answer.Headers.Get("Set-Cookie"), err)
				}
				if known := cookies[seen.Pod]; known != "" && known != got.Value {
					t.Errorf("%s has the cookies %s and %s", seen.Pod, known, got.Value)
				}
				cookies[seen.Pod] = got.Value
			}
		}
		if len(cookies) != 2 || cookies["web-1"] == cookies["web-2"] {
			t.Fatalf("cookies: %v", cookies)
		}
		stay := func(pod string) {
			t.Helper()
			for _, c := range replicas {
				for range 4 {
					ask := harness.Ask{Address: c.HTTP, Host: "web.example", Path: "/", Headers: []string{"Cookie", "STICK=" + cookies[pod]}}
					if seen := sees(t, ask); seen.Pod != pod || seen.Headers.Get("Cookie") != "" {
						t.Errorf("the client of %s was answered by %s, which saw the cookie %q", pod, seen.Pod, seen.Headers.Get("Cookie"))
					}
				}
			}
		}
		stay("web-1")
		stay("web-2")
		for _, c := range replicas {
			change(t, c, map[string]string{"pods.yaml": web(three, one, two)})
		}
		stay("web-1")
		stay("web-2")
		if answer := gets(t, harness.Ask{Address: replicas[0].HTTP, Host: "free.example", Path: "/"}, 200); answer.Headers.Get("Set-Cookie") != "" {
			t.Errorf("a route without affinity sets %q", answer.Headers.Get("Set-Cookie"))
		}
	})
}

func TestBodySize(t *testing.T) {
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		c := start(t, binary, map[string]string{"a.yaml": web(harness.NewPod(t, "web-1")) + harness.Ingress("small", "small.example", "web", "proxy-body-size", "10") +
			harness.Ingress("large", "large.example", "web", "proxy-body-size", "1m") + harness.Ingress("free", "free.example", "web") +
			harness.Ingress("junk", "junk.example", "web", "proxy-body-size", "ten")})
		for _, k := range []struct {
			host         string
			size, status int
		}{{"small", 0, 200}, {"small", 10, 200}, {"small", 11, 413}, {"small", 2 << 20, 413}, {"large", 1 << 20, 200}, {"large", 1<<20 + 1, 413}, {"free", 2 << 20, 200}, {"junk", 1, 503}} {
			// A body that is refused is not read to its end: 100-continue would hide that.
			ask := harness.Ask{Address: c.HTTP, Method: "POST", Host: k.host + ".example", Path: "/", Body: strings.Repeat("x", k.size)}
			if k.status == 413 {
				ask.Headers, ask.Body = []string{"Content-Length", fmt.Sprint(k.size)}, ""
			}
			answer := gets(t, ask, k.status)
			if seen, err := answer.Read(); k.status == 200 && (err != nil || seen.Body != int64(k.size)) {
				t.Errorf("%s: the pod got %d of %d bytes (%v)", k.host, seen.Body, k.size, err)
			}
		}
	})
}

// The protocol that was asked for reaches the pod.
func TestBackendProtocols(t *testing.T) {
	protocols := map[string]struct {
		proto string
		tls   bool
	}{
		"h1": {"HTTP/1.1", false}, "h2": {"HTTP/2.0", false}, "grpc": {"HTTP/2.0", false},
		"h1-ssl": {"HTTP/1.1", true}, "h2-ssl": {"HTTP/2.0", true}, "grpcs": {"HTTP/2.0", true},
	}
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		manifests := harness.Class
		for name, want := range protocols {
			pod := harness.NewPodWith(t, name, harness.PodOptions{TLS: want.tls})
			manifests += harness.Service(name) + harness.Slice(name, pod) + harness.Ingress(name, name+".example", name, "backend-protocol", name)
		}
		plain := harness.NewPod(t, "plain")
		manifests += harness.Service("plain") + harness.Slice("plain", plain) + harness.Ingress("plain", "plain.example", "plain", "backend-protocol", "h1-ssl") +
			harness.Ingress("junk", "junk.example", "plain", "backend-protocol", "h3")
		c := start(t, binary, map[string]string{"a.yaml": manifests})
		for name, want := range protocols {
			if seen := sees(t, harness.Ask{Address: c.HTTP, Host: name + ".example", Path: "/"}); seen.Pod != name || seen.Proto != want.proto || seen.TLS != want.tls {
				t.Errorf("%s: the pod %s saw %s, TLS %t", name, seen.Pod, seen.Proto, seen.TLS)
			}
		}
		gets(t, harness.Ask{Address: c.HTTP, Host: "plain.example", Path: "/"}, 503)
		gets(t, harness.Ask{Address: c.HTTP, Host: "junk.example", Path: "/"}, 503)
		if plain.Hits() != 0 {
			t.Error("a pod that was to be spoken to by TLS got plain text")
		}
	})
}
