package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/tests/harness"
)

// What CORS filters answer to preflights and say with answers, by origin.
func TestCORSFilter(t *testing.T) {
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		address := harness.FreeAddress(t)
		rule := func(path, cors string) string {
			return "{matches: [{path: {type: PathPrefix, value: " + path + "}}], filters: [{type: CORS, cors: {" + cors + "}}], " + to("web") + "}"
		}
		start(t, binary, map[string]string{
			"services.yaml": servicesOf(t, "web"),
			"gateway.yaml":  gatewayOf("{name: http, port: " + portOf(address) + ", protocol: HTTP}"),
			"route.yaml": routeOf("cors", "c.example", strings.Join([]string{
				rule("/named", `allowOrigins: ["https://a.example", "https://*.b.example", "http://*.x.b.example:8080"], allowMethods: [GET, PUT], allowHeaders: [X-A, X-B], exposeHeaders: [X-C], maxAge: 60`),
				rule("/all", `allowOrigins: ["*"], allowMethods: ["*"], allowHeaders: ["*"]`),
				rule("/echo", `allowOrigins: ["*"], allowMethods: ["*"], allowHeaders: ["*"], exposeHeaders: ["*"], allowCredentials: true`),
				rule("/scheme", `allowOrigins: ["https://*"], allowMethods: [GET]`),
			}, ",")),
		}, "--gateway-addresses", "127.0.0.1")
		for _, c := range []struct{ path, origin, method, want string }{
			{"/named", "https://a.example", "PUT", "204 https://a.example [GET, PUT] [X-A, X-B] [X-C] [60] []"},
			{"/named", "https://A.example", "PUT", "204 https://A.example [GET, PUT] [X-A, X-B] [X-C] [60] []"},
			{"/named", "https://q.b.example", "PUT", "204 https://q.b.example [GET, PUT] [X-A, X-B] [X-C] [60] []"},
			{"/named", "https://p.q.r.b.example", "PUT", "204 https://p.q.r.b.example [GET, PUT] [X-A, X-B] [X-C] [60] []"},
			{"/named", "http://q.x.b.example:8080", "PUT", "204 http://q.x.b.example:8080 [GET, PUT] [X-A, X-B] [X-C] [60] []"},
			{"/named", "https://b.example", "PUT", "403  [] [] [] [] []"},
			{"/named", "https://qb.example", "PUT", "403  [] [] [] [] []"},
			{"/named", "https://q.b.example:8443", "PUT", "403  [] [] [] [] []"},
			{"/named", "http://q.b.example", "PUT", "403  [] [] [] [] []"},
			{"/named", "https://q.b.example.evil", "PUT", "403  [] [] [] [] []"},
			{"/named", "https://*.b.example", "", "200 https://*.b.example [] [] [X-C] [] []"}, // no browser has that name
			{"/named", "https://a.example", "", "200 https://a.example [] [] [X-C] [] []"},
			{"/named", "https://other.example", "", "200  [] [] [] [] []"},
			{"/named", "null", "PUT", "403  [] [] [] [] []"},
			{"/all", "https://any.example:99", "PATCH", "204 * [*] [*] [] [5] []"},
			{"/all", "https://any.example", "", "200 * [] [] [] [] []"},
			{"/echo", "https://any.example", "PATCH", "204 https://any.example [PATCH] [x-1, x-2] [] [5] [true]"},
			{"/echo", "https://any.example", "", "200 https://any.example [] [] [] [] [true]"},
			{"/scheme", "https://any.example", "GET", "204 https://any.example [GET] [] [] [5] []"},
			{"/scheme", "http://any.example", "GET", "403  [] [] [] [] []"},
			{"/scheme", "https://any.example:444", "GET", "403  [] [] [] [] []"},
		} {
			method, headers := "GET", []string{"Origin", c.origin}
			if c.method != "" {
				method = "OPTIONS"
				headers = append(headers, "Access-Control-Request-Method", c.method, "Access-Control-Request-Headers", "x-1, x-2")
			}
			answer, err := harness.Request(address, method, "c.example", c.path, headers...)
			if err != nil {
				t.Fatal(err)
			}
			says := func(name string) []string { return answer.Headers.Values("Access-Control-" + name) }
			got := fmt.Sprint(answer.Status, " ", answer.Headers.Get("Access-Control-Allow-Origin"), " ", says("Allow-Methods"), " ", says("Allow-Headers"), " ",
				says("Expose-Headers"), " ", says("Max-Age"), " ", says("Allow-Credentials"))
			if got != c.want {
				t.Errorf("%s from %s %s:\n  got %s\n want %s", c.path, c.origin, c.method, got, c.want)
			}
		}
		for _, path := range []string{"/echo", "/scheme"} { // where there is nothing to say, the header is left out
			answer, err := harness.Request(address, "OPTIONS", "c.example", path, "Origin", "https://any.example", "Access-Control-Request-Method", "PUT")
			if _, said := answer.Headers["Access-Control-Allow-Headers"]; err != nil || answer.Status != 204 || said {
				t.Errorf("%s: %d %v %v", path, answer.Status, answer.Headers, err)
			}
		}
	})
}
