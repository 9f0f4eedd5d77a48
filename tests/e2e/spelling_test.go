package e2e

import (
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/tests/harness"
)

// No spelling of a path goes round a protection in a host of a Gateway, however the rule beside
// it is found: by a prefix, by conditions, by weights or by a regular expression.
func TestProtectedPathOfGatewayByOtherSpellings(t *testing.T) {
	beside := map[string]string{
		"prefix":     "{" + to("open") + "}",
		"conditions": "{matches: [{headers: [{name: x-none, value: a}]}], " + to("admin") + "}, {" + to("open") + "}",
		"weights":    "{" + to("open*1", "more*1") + "}",
		"pattern":    `{matches: [{path: {type: RegularExpression, value: "/(x|y).*"}}], ` + to("open") + "}, {" + to("open") + "}",
	}
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		address := harness.FreeAddress(t)
		admin, open, more := harness.NewPod(t, "admin"), harness.NewPod(t, "open"), harness.NewPod(t, "more")
		manifests := harness.Service("admin") + harness.Slice("admin", admin) + harness.Service("open") + harness.Slice("open", open) +
			harness.Service("more") + harness.Slice("more", more) + gatewayOf("{name: http, port: "+portOf(address)+", protocol: HTTP}")
		for name, rules := range beside {
			route := routeOf("admin-"+name, name+".example", "{matches: [{path: {value: /admin}}], "+to("admin")+"}")
			manifests += strings.Replace(route, "namespace: test,", `namespace: test, annotations: {sluice-proxy.github.io/allowlist-source-range: 192.0.2.0/24},`, 1)
			manifests += routeOf("open-"+name, name+".example", rules)
		}
		manifests += routeOf("free", "free.example", "{"+to("open")+"}")
		start(t, binary, map[string]string{"a.yaml": manifests}, "--gateway-addresses", "127.0.0.1")
		for name := range beside {
			for path, want := range spellings {
				if want == 0 {
					want = 403
				}
				gets(t, harness.Ask{Address: address, Host: name + ".example", Path: path}, want)
			}
			for _, path := range []string{"/x//y/./%7Ez/..?q=%2f", "/administrator", "/x/admin", "/"} {
				if seen := sees(t, harness.Ask{Address: address, Host: name + ".example", Path: path}); seen.Pod == "admin" || seen.Path != path {
					t.Errorf("%s: %s: the pod %s saw %s", name, path, seen.Pod, seen.Path)
				}
			}
			want := 200
			if name == "pattern" { // what an expression makes of an escape is not known
				want = 400
			}
			gets(t, harness.Ask{Address: address, Host: name + ".example", Path: "/%20a"}, want)
		}
		if admin.Hits() != 0 {
			t.Errorf("the protected pod got %d requests", admin.Hits())
		}
		for _, path := range []string{"/%61dmin", "//admin", "/admin%2fx", "/%5cadmin", "/admin%00", "/a;b"} { // Go refuses /%zz itself
			if seen := sees(t, harness.Ask{Address: address, Host: "free.example", Path: path}); seen.Path != path {
				t.Errorf("%s without protection: the pod saw %s", path, seen.Path)
			}
		}
	})
}
