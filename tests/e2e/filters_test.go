package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/tests/harness"
)

// What the filters of a rule do with requests and answers; another text is no reload.
func TestFilters(t *testing.T) {
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		address := harness.FreeAddress(t)
		port := portOf(address)
		rule := func(path, filters string) string {
			return "{matches: [{path: {type: PathPrefix, value: " + path + "}}], filters: [" + filters + "], " + to("web") + "}"
		}
		redirect := func(path, to string) string {
			return "{matches: [{path: {type: PathPrefix, value: " + path + "}}], filters: [{type: RequestRedirect, requestRedirect: {" + to + "}}]}"
		}
		prefix := func(to string) string {
			return "{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: " + to + "}}}"
		}
		rules := []string{
			rule("/headers", "{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: X-Set, value: '50%[src] \"q\"'}], add: [{name: X-Add, value: b}], remove: [X-Gone]}},"+
				"{type: ResponseHeaderModifier, responseHeaderModifier: {set: [{name: X-Answer, value: VALUE}]}}"),
			rule("/foo", prefix("/")), rule("/bar", prefix("/x")), rule("/slash", prefix("/y/")),
			rule("/full", "{type: URLRewrite, urlRewrite: {hostname: inner.example, path: {type: ReplaceFullPath, replaceFullPath: /one/two}}}"),
			redirect("/secure", "scheme: https"), redirect("/there", "hostname: other.example, statusCode: 301"),
			redirect("/port", "port: 8443, statusCode: 307"),
			redirect("/old", "path: {type: ReplacePrefixMatch, replacePrefixMatch: /new}, statusCode: 308"),
			redirect("/gone", "path: {type: ReplaceFullPath, replaceFullPath: /x}, statusCode: 303"),
		}
		manifest := routeOf("filters", "f.example.com", strings.Join(rules, ","))
		c := start(t, binary, map[string]string{
			"services.yaml": servicesOf(t, "web"),
			"gateway.yaml":  gatewayOf("{name: http, port: " + port + ", protocol: HTTP}"),
			"route.yaml":    strings.ReplaceAll(manifest, "VALUE", "first"),
		}, "--gateway-addresses", "127.0.0.1")
		ask := func(path string, headers ...string) (harness.Answer, harness.Seen) {
			answer, err := harness.Request(address, "GET", "f.example.com", path, headers...)
			if err != nil {
				t.Fatal(err)
			}
			var seen harness.Seen
			if answer.Status == 200 {
				if seen, err = answer.Read(); err != nil {
					t.Fatal(err)
				}
			}
			return answer, seen
		}
		answer, seen := ask("/headers", "X-Set", "old", "X-Add", "a", "X-Gone", "x")
		got := fmt.Sprint(seen.Headers.Values("X-Set"), seen.Headers.Values("X-Add"), seen.Headers.Values("X-Gone"), answer.Headers.Values("X-Answer"))
		if want := `[50%[src] "q"] [a b] [] [first]`; got != want {
			t.Errorf("headers: %s, want %s", got, want)
		}
		for path, want := range map[string]string{
			"/foo": "/", "/foo/bar": "/bar", "/foo/?q=1": "/?q=1", "/bar": "/x", "/bar/y": "/x/y", "/slash/z": "/y/z", "/full/x?q": "/one/two?q",
		} {
			if _, seen := ask(path); seen.Path != want {
				t.Errorf("%s reaches the pod as %s, want %s", path, seen.Path, want)
			}
		}
		if _, seen := ask("/full"); seen.Host != "inner.example" {
			t.Errorf("the pod sees host %s", seen.Host)
		}
		for path, want := range map[string]string{
			"/secure/x?q=1": "302 https://f.example.com/secure/x?q=1",
			"/there":        "301 http://other.example:" + port + "/there",
			"/port":         "307 http://f.example.com:8443/port",
			"/old/x?q=1":    "308 http://f.example.com:" + port + "/new/x?q=1",
			"/gone/x?q=1":   "303 http://f.example.com:" + port + "/x?q=1",
		} {
			if answer, _ := ask(path); fmt.Sprint(answer.Status, " ", answer.Headers.Get("Location")) != want {
				t.Errorf("%s: %d %s, want %s", path, answer.Status, answer.Headers.Get("Location"), want)
			}
		}
		reloads := c.Metric("sluice_reloads_total", "")
		change(t, c, map[string]string{"route.yaml": strings.ReplaceAll(manifest, "VALUE", "second")})
		if answer, _ := ask("/headers"); answer.Headers.Get("X-Answer") != "second" {
			t.Errorf("after the change: %v", answer.Headers)
		}
		if got := c.Metric("sluice_reloads_total", ""); strings.Contains(binary, "3.4") && got != reloads {
			t.Errorf("%v reloads for a text: %v", got-reloads, c.State().Reloads)
		}
	})
}
