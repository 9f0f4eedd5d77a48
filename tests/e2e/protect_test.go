package e2e

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/tests/harness"
)

// plainUsers is a Secret with the user zoe, whose password is secret.
var plainUsers = harness.Secret("users", map[string]string{"auth": "zoe::secret\n"})

func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// within waits until a condition holds and fails the test if that takes longer than limit.
// Tests with a limit run one after the other.
func within(t *testing.T, limit time.Duration, what string, condition func() error) {
	t.Helper()
	start := time.Now()
	harness.Eventually(t, what, condition)
	if took := time.Since(start); took > limit {
		t.Errorf("%s: took %s, more than %s", what, took, limit)
	}
}

// status asks for something until the answer has a status, and returns the answer.
func status(ask harness.Ask, want int, into *harness.Answer) func() error {
	return func() error {
		answer, err := ask.Do()
		if err == nil && answer.Status != want {
			err = fmt.Errorf("status %d, want %d: %s", answer.Status, want, answer.Body)
		}
		if into != nil {
			*into = answer
		}
		return err
	}
}

// gets is the answer to a request that must have a status.
func gets(t *testing.T, ask harness.Ask, want int) harness.Answer {
	t.Helper()
	var answer harness.Answer
	if err := status(ask, want, &answer)(); err != nil {
		t.Errorf("%s http://%s%s from %q: %v", ask.Method, ask.Host, ask.Path, ask.Source, err)
	}
	return answer
}

// sees is what a pod says of a request that must reach one.
func sees(t *testing.T, ask harness.Ask) harness.Seen {
	t.Helper()
	seen, err := gets(t, ask, 200).Read()
	if err != nil {
		t.Errorf("http://%s%s: %v", ask.Host, ask.Path, err)
	}
	return seen
}

func hasFinding(c *harness.Controller, code, text string) func() error {
	return func() error {
		findings := c.State().Findings
		for _, f := range findings {
			if f.Code == code && strings.Contains(f.Message, text) {
				return nil
			}
		}
		return fmt.Errorf("no finding %s with %q in %v", code, text, findings)
	}
}

// spellings are ways to write a path that some server would read as one below /admin, with
// the status that a host answers that protects it; 0: that of the protection.
var spellings = map[string]int{
	"/admin": 0, "/admin/": 0, "/admin/x": 0, "/admin?x=1": 0, "/%61dmin": 0, "/%61%64%6d%69%6E": 0, "//admin": 0, "///admin/x": 0,
	"/./admin": 0, "/.//./admin": 0, "/x/../admin": 0, "/x/../../admin": 0, "/x/%2e%2e/admin": 0, "/x/.%2E/admin": 0, "/%2e/admin": 0,
	"/%2E%2E/admin": 0, "/admin;x=1": 400, "/admin;/x": 400, "/x/..;/admin": 400, "/;/admin": 400, "/adm%69n%3b": 400, "/x;y/%2e%2e/admin": 0, "/admin/../admin": 0, "/x/y/../..//%61dmin/": 0,
	"/admin%2fx": 400, "/%2fadmin": 400, "/x/..%2fadmin": 400, "/x%2F..%2Fadmin": 400, "/%5cadmin": 400, "/x/..%5Cadmin": 400, `/\admin`: 400, `/x/..\admin`: 400,
	"/admin%00": 400, "/%00/admin": 400, "/%zz": 400, "/admin%": 400, "/admin%2": 400, "/%u0061dmin": 400, "/%c0%afadmin%zz": 400,
}

// No spelling of a path goes round its protection, whatever kind of host it belongs to.
func TestProtectedPathByOtherSpellings(t *testing.T) {
	hosts := map[string][2]string{ // host of the rule -> host of the request
		"exact": {"exact.example", "exact.example"}, "wildcard": {"*.wild.example", "x.wild.example"}, "none": {"", "nobody.example"},
	}
	protections := map[string][]string{
		"allow": {"allowlist-source-range", "192.0.2.0/24"}, "auth": {"auth-secret", "users"},
	}
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		for protection, annotations := range protections {
			t.Run(protection, func(t *testing.T) {
				t.Parallel()
				admin, open := harness.NewPod(t, "admin"), harness.NewPod(t, "open")
				manifests := harness.Class + plainUsers + harness.Service("admin") + harness.Slice("admin", admin) + harness.Service("open") + harness.Slice("open", open)
				for kind, host := range hosts {
					manifests += harness.IngressPath("admin-"+kind, host[0], "/admin", "admin", annotations...) + harness.Ingress("open-"+kind, host[0], "open") +
						harness.IngressPath("at-"+kind, host[0], "/@rpc:x", "admin", annotations...)
				}
				manifests += harness.Ingress("free", "free.example", "open")
				c := start(t, binary, map[string]string{"a.yaml": manifests})
				denied := map[string]int{"allow": 403, "auth": 401}[protection]
				for kind, host := range hosts {
					for path, want := range spellings {
						if want == 0 {
							want = denied
						}
						gets(t, harness.Ask{Address: c.HTTP, Host: host[1], Path: path}, want)
					}
					for _, path := range []string{"/@rpc:x", "/%40rpc%3ax", "/%40rpc:x/%2e", "/y/../%40rpc%3Ax/z"} {
						gets(t, harness.Ask{Address: c.HTTP, Host: host[1], Path: path}, denied)
					}
					gets(t, harness.Ask{Address: c.HTTP, Host: host[1], Path: "/%40rpc%3ax/%25"}, 400)
					for _, path := range []string{"http://" + host[1] + "/admin", "http://" + host[1] + "//%61dmin"} {
						gets(t, harness.Ask{Address: c.HTTP, Host: host[1], Path: path}, denied)
					}
					for _, path := range []string{"/x//y/./%7Ez/..?q=%2f", "/administrator", "/x/admin", "/%20a", "/"} {
						if seen := sees(t, harness.Ask{Address: c.HTTP, Host: host[1], Path: path}); seen.Pod != "open" || seen.Path != path {
							t.Errorf("%s: %s at %s: the pod %s saw %s", kind, path, host[1], seen.Pod, seen.Path)
						}
					}
				}
				if admin.Hits() != 0 {
					t.Errorf("the protected pod got %d requests", admin.Hits())
				}
				for _, path := range []string{"/%61dmin", "//admin", "/./admin", "/x/../admin", "/x/%2e%2e/admin", "/admin%2fx", "/%5cadmin", "/admin%00"} { // Go refuses /%zz itself
					if seen := sees(t, harness.Ask{Address: c.HTTP, Host: "free.example", Path: path}); seen.Path != path {
						t.Errorf("%s without protection: the pod saw %s", path, seen.Path)
					}
				}
			})
		}
	})
}

func TestAddressLists(t *testing.T) {
	lists := map[string]struct {
		option, text string
		from         map[string]int // address of the client -> status
	}{
		"allow":       {"allowlist-source-range", "127.0.0.2", map[string]int{"127.0.0.1": 403, "127.0.0.2": 200}},
		"except":      {"allowlist-source-range", "127.0.0.0/24,!127.0.0.3", map[string]int{"127.0.0.2": 200, "127.0.0.3": 403, "127.0.1.1": 403}},
		"deny":        {"denylist-source-range", "127.0.0.2", map[string]int{"127.0.0.1": 200, "127.0.0.2": 403}},
		"deny-except": {"denylist-source-range", "127.0.0.0/24,!127.0.0.3", map[string]int{"127.0.0.2": 403, "127.0.0.3": 200, "127.0.1.1": 200}},
		"junk":        {"allowlist-source-range", "127.0.0.0/8,junk", map[string]int{"127.0.0.1": 503, "127.0.0.2": 503}},
		"empty":       {"allowlist-source-range", "", map[string]int{"127.0.0.1": 503}},
		"junk-deny":   {"denylist-source-range", "junk", map[string]int{"127.0.0.1": 503}},
	}
	harness.EachVersion(t, func(t *testing.T, binary string) {
		pod := harness.NewPod(t, "web-1")
		manifests := map[string]string{"a.yaml": harness.Class + harness.Service("web") + harness.Slice("web", pod)}
		for name, list := range lists {
			manifests[name+".yaml"] = harness.Ingress(name, name+".example", "web", list.option, list.text)
		}
		c := start(t, binary, manifests)
		for name, list := range lists {
			for source, want := range list.from {
				gets(t, harness.Ask{Address: c.HTTP, Source: source, Host: name + ".example", Path: "/", Headers: []string{"X-Forwarded-For", "127.0.0.2"}}, want)
			}
		}
		harness.Eventually(t, "a finding", hasFinding(c, "ProtectionDenied", "allowlist-source-range"))

		// The content of a list changes at run time.
		reloads := c.Metric("sluice_reloads_total", "")
		ask := harness.Ask{Address: c.HTTP, Source: "127.0.0.1", Host: "allow.example", Path: "/"}
		for range 2 {
			c.Write("allow.yaml", harness.Ingress("allow", "allow.example", "web", "allowlist-source-range", "127.0.0.1,10.0.0.0/8"))
			within(t, time.Second, "the client is let in", status(ask, 200, nil))
			c.Write("allow.yaml", harness.Ingress("allow", "allow.example", "web", "allowlist-source-range", "127.0.0.2,10.0.0.0/8"))
			within(t, time.Second, "the client is kept out", status(ask, 403, nil))
		}
		ask.Source = "127.0.0.7"
		ask.Host = "deny.example"
		c.Write("deny.yaml", harness.Ingress("deny", "deny.example", "web", "denylist-source-range", "127.0.0.2,127.0.0.7"))
		within(t, time.Second, "another client is kept out", status(ask, 403, nil))
		if got := c.Metric("sluice_reloads_total", ""); got != reloads {
			t.Errorf("%v reloads", got-reloads)
		}
	})
}

// What a route names may be missing, empty, late or gone again: the path is denied until it
// is there, and no event on the route is needed.
func TestBasicAuth(t *testing.T) {
	const hash = "$6$saltsalt$TVLlQcbpFVof5W3Yz4DTP6gRstiNuHwwTt6GLc1E5n0U0aDehy0S5knV8wiOQSpT0Y77vwPZN.Pq.H91p5hVO1" // of "secret"
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		pod := harness.NewPod(t, "web-1")
		c := start(t, binary, map[string]string{
			"a.yaml": harness.Class + harness.Service("web") + harness.Slice("web", pod) + harness.Ingress("open", "open.example", "web") +
				harness.Ingress("auth", "auth.example", "web", "auth-secret", "users", "auth-realm", "Staff only") +
				harness.IngressPath("part", "open.example", "/auth", "web", "auth-secret", "users"),
		})
		ingresses := c.Metric("sluice_conversions_total", `unit="ingress"`)
		ask := func(host, path string, headers ...string) harness.Ask {
			return harness.Ask{Address: c.HTTP, Host: host, Path: path, Headers: headers}
		}
		good := []string{"Authorization", basic("zoe", "secret")}
		denied := func(why string) {
			t.Helper()
			harness.Eventually(t, why, status(ask("auth.example", "/", good...), 503, nil))
			gets(t, ask("auth.example", "/x"), 503)
			gets(t, ask("open.example", "/auth/x", good...), 503)
			gets(t, ask("open.example", "/"), 200)
			harness.Eventually(t, why, hasFinding(c, "ProtectionDenied", "auth-secret"))
		}
		denied("the Secret is missing")
		change(t, c, map[string]string{"users.yaml": harness.Secret("users", map[string]string{"auth": ""})})
		denied("the Secret is empty")
		change(t, c, map[string]string{"users.yaml": harness.Secret("users", map[string]string{"other": "zoe::secret"})})
		denied("the Secret lacks the key")
		c.Write("users.yaml", harness.Secret("users", map[string]string{"auth": "zoe:" + hash + "\nann::plain\nbob:\n"}))
		harness.Eventually(t, "the Secret is there", status(ask("auth.example", "/", good...), 200, nil))
		if answer := gets(t, ask("auth.example", "/"), 401); answer.Headers.Get("WWW-Authenticate") != `Basic realm="Staff only"` {
			t.Errorf("WWW-Authenticate: %s", answer.Headers.Get("WWW-Authenticate"))
		}
		gets(t, ask("open.example", "/auth", "Authorization", basic("ann", "plain")), 200)
		for _, wrong := range []string{basic("zoe", "wrong"), basic("zoe", ""), basic("bob", ""), basic("", ""), "Basic !", "Bearer x"} {
			gets(t, ask("auth.example", "/", "Authorization", wrong), 401)
		}
		before := c.State().Wanted
		c.Remove("users.yaml")
		applied(t, c, before)
		denied("the Secret is gone")
		if got := c.Metric("sluice_conversions_total", `unit="ingress"`); got != ingresses {
			t.Errorf("%v Ingresses were converted again", got-ingresses)
		}
	})
}

// A preflight holds no credentials: the proxy answers it, before authentication.
func TestCORS(t *testing.T) {
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		pod := harness.NewPod(t, "web-1")
		c := start(t, binary, map[string]string{"a.yaml": harness.Class + plainUsers + harness.Service("web") + harness.Slice("web", pod) +
			harness.Ingress("auth", "auth.example", "web", "auth-secret", "users", "cors-enable", "true", "cors-allow-origin", "https://a.example,https://B.example:8443",
				"cors-allow-methods", "GET,PUT", "cors-allow-headers", "X-One,X-Two", "cors-expose-headers", "X-Three", "cors-max-age", "77") +
			harness.Ingress("any", "any.example", "web", "cors-enable", "true", "cors-allow-credentials", "false") +
			harness.Ingress("junk", "junk.example", "web", "cors-enable", "true", "cors-allow-origin", "https://a.example,junk !")})
		preflight := func(host, origin string) harness.Ask {
			return harness.Ask{Address: c.HTTP, Method: "OPTIONS", Host: host, Path: "/", Headers: []string{"Origin", origin, "Access-Control-Request-Method", "PUT"}}
		}
		expect := func(answer harness.Answer, want map[string]string) {
			t.Helper()
			for name, value := range want {
				if got := answer.Headers.Get("Access-Control-" + name); got != value {
					t.Errorf("Access-Control-%s: %q, want %q", name, got, value)
				}
			}
		}
		all := map[string]string{"Allow-Origin": "https://b.example:8443", "Allow-Methods": "GET, PUT", "Allow-Headers": "X-One, X-Two", "Max-Age": "77", "Allow-Credentials": "true"}
		none := map[string]string{"Allow-Origin": "", "Allow-Methods": "", "Allow-Headers": "", "Allow-Credentials": ""}
		expect(gets(t, preflight("auth.example", "https://b.example:8443"), 204), all)
		expect(gets(t, preflight("auth.example", "https://evil.example"), 401), none)
		expect(gets(t, preflight("auth.example", "https://a.example.evil.example"), 401), none)
		expect(gets(t, preflight("junk.example", "https://a.example"), 200), none)
		expect(gets(t, preflight("any.example", "https://evil.example"), 204), map[string]string{"Allow-Origin": "*", "Allow-Credentials": ""})
		if hits := pod.Hits(); hits != 1 {
			t.Errorf("the pod got %d of the preflights, want the one that nobody allows", hits)
		}
		get := harness.Ask{Address: c.HTTP, Host: "auth.example", Path: "/", Headers: []string{"Origin", "https://a.example"}}
		expect(gets(t, get, 401), map[string]string{"Allow-Origin": "https://a.example"})
		get.Headers = append(get.Headers, "Authorization", basic("zoe", "secret"))
		answer := gets(t, get, 200)
		expect(answer, map[string]string{"Allow-Origin": "https://a.example", "Allow-Credentials": "true", "Expose-Headers": "X-Three"})
		if !slices.Contains(answer.Headers.Values("Vary"), "Origin") {
			t.Errorf("Vary: %v", answer.Headers.Values("Vary"))
		}
		get.Headers[1] = "https://evil.example"
		expect(gets(t, get, 200), map[string]string{"Allow-Origin": "", "Allow-Credentials": "", "Expose-Headers": ""})
	})
}

// A password hash of absurd cost would stop everybody's HAProxy, at load or at a login.
func TestHashOfAbsurdCost(t *testing.T) {
	users := func(hash string) string {
		return harness.Secret("users", map[string]string{"auth": "zoe:" + hash + "\n"})
	}
	const tail = "$saltsalt$qFmFH.bQmmtXzyBY0s9v7Oicd2z4XSIecDzlB5KiA2/jctKu9YterLp8wwnSq.qc.eoxqOmSuNp2xS0ktL3nh/"
	harness.EachVersion(t, func(t *testing.T, binary string) {
		pod := harness.NewPod(t, "web-1")
		c := start(t, binary, map[string]string{"users.yaml": users("$6" + tail), "a.yaml": harness.Class + harness.Service("web") + harness.Slice("web", pod) +
			harness.Ingress("auth", "auth.example", "web", "auth-secret", "users") + harness.Ingress("open", "open.example", "web")})
		login := harness.Ask{Address: c.HTTP, Host: "auth.example", Path: "/", Headers: []string{"Authorization", basic("zoe", "wrong")}}
		gets(t, login, 401)
		cheap, pid := checkTime(t, binary, c), c.HAProxyPID()
		for _, hash := range []string{"$6$rounds=30000000" + tail, "$6$rounds=999999999" + tail, "$2y$31$" + strings.Repeat("a", 53)} {
			change(t, c, map[string]string{"users.yaml": users(hash)})
			gets(t, login, 503)
			harness.Eventually(t, "a finding", hasFinding(c, "PasswordHashRefused", ""))
		}
		dear := checkTime(t, binary, c)
		if dear > 2*cheap+50*time.Millisecond {
			t.Errorf("haproxy -c takes %s of CPU, %s before", dear, cheap)
		}
		gets(t, harness.Ask{Address: c.HTTP, Host: "open.example", Path: "/"}, 200)
		if c.HAProxyPID() != pid {
			t.Error("HAProxy was started again")
		}
		c.Write("users.yaml", users("$6$rounds=10000"+tail))
		harness.Eventually(t, "a hash of bearable cost", status(login, 401, nil))
	})
}

// checkTime is the CPU time of haproxy -c on the current tree, the best of three.
func checkTime(t *testing.T, binary string, c *harness.Controller) time.Duration {
	t.Helper()
	best := time.Hour
	for range 3 {
		command := exec.Command(binary, "-c", "-f", filepath.Join(c.ConfigDir, "current", "conf.d"))
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("haproxy -c: %v\n%s", err, out)
		}
		best = min(best, command.ProcessState.UserTime()+command.ProcessState.SystemTime())
	}
	return best
}

// holds are the files below the controller's folders that hold a text.
func holds(t *testing.T, c *harness.Controller, text string) []string {
	t.Helper()
	var found []string
	for _, folder := range []string{c.ConfigDir, c.StateDir, c.RunDir} {
		err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
			if err == nil && !entry.Type().IsRegular() {
				return nil
			}
			content, err := os.ReadFile(path)
			if strings.Contains(string(content), text) {
				found = append(found, path)
			}
			if os.IsNotExist(err) {
				return nil // it went meanwhile
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// A connection that a client keeps belongs to the old worker after a reload: a protection
// that came with the reload holds there, too.
func TestNewProtectionHoldsOnKeptConnections(t *testing.T) {
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		pod := harness.NewPod(t, "web-1")
		base := harness.Class + plainUsers + harness.Service("web") + harness.Slice("web", pod)
		c := start(t, binary, map[string]string{"base.yaml": base, "web.yaml": harness.Ingress("web", "a.example", "web")})
		get := keptConnection(t, c.HTTP, "a.example")
		if status := get("/admin"); status != 200 {
			t.Fatalf("status %d before the protection", status)
		}
		change(t, c, map[string]string{"admin.yaml": harness.IngressPath("admin", "a.example", "/admin", "web", "auth-secret", "users")})
		for range 2 { // the kept connection, and a new one
			if status := get("/admin"); status != 401 && status != 503 {
				t.Errorf("status %d", status)
			}
		}
		if status := get("/"); status != 200 {
			t.Errorf("status %d of what is not protected", status)
		}
	})
}

// The same behind a Gateway: a path with its own route, with conditions and a share of the
// requests, with a limit for all tries, and a host that a wider one had.
func TestNewProtectionOfAGatewayHoldsOnKeptConnections(t *testing.T) {
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		address := harness.FreeAddress(t)
		all := "{path: {type: PathPrefix, value: /}}"
		c := start(t, binary, map[string]string{
			"base.yaml":    servicesOf(t, "web", "more") + plainUsers,
			"gateway.yaml": gatewayOf("{name: http, port: " + portOf(address) + ", protocol: HTTP}"),
			"web.yaml":     routeOf("web", `"*.example"`, "{matches: ["+all+"], "+to("web")+"}"),
		}, "--gateway-addresses", "127.0.0.1")
		get := map[string]func(string) int{}
		for _, host := range []string{"a.example", "b.example", "c.example", "d.example"} {
			get[host] = keptConnection(t, address, host)
			if status := get[host]("/admin"); status != 200 {
				t.Fatalf("%s: status %d before the protection", host, status)
			}
		}
		guarded := func(name, host, rules string) string {
			return strings.Replace(routeOf(name, host, rules), "namespace: test,", "namespace: test, annotations: {sluice-proxy.github.io/auth-secret: users},", 1)
		}
		admin := "{path: {type: PathPrefix, value: /admin}}"
		change(t, c, map[string]string{"admin.yaml": guarded("path", `"*.example"`, "{matches: ["+admin+"], "+to("web")+"}") +
			guarded("host", "b.example", "{matches: ["+all+"], "+to("web")+"}") +
			guarded("shares", "c.example", "{matches: [{path: {type: PathPrefix, value: /admin}, method: GET}], "+to("web*1", "more*1")+"}") +
			guarded("limit", "d.example", "{matches: ["+admin+"], timeouts: {request: 5s}, retry: {codes: [500]}, "+to("web")+"}")})
		for host, get := range get {
			for range 3 { // the kept connection, and new ones
				if status := get("/admin"); status != 401 && status != 503 {
					t.Errorf("%s: status %d", host, status)
				}
			}
		}
		if status := get["a.example"]("/"); status != 200 {
			t.Errorf("status %d of what is not protected", status)
		}
	})
}

// keptConnection asks for paths over one connection, as long as it is open.
func keptConnection(t *testing.T, address, host string) func(path string) int {
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
	return func(path string) int {
		t.Helper()
		request, err := http.NewRequest(http.MethodGet, "http://"+address+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Host = host
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if _, err = io.Copy(io.Discard, response.Body); err != nil {
			t.Fatal(err)
		}
		return response.StatusCode
	}
}
