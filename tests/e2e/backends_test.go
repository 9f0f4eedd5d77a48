package e2e

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-proxy/sluice/tests/harness"
)

// tenant is a Service with its own pod and host.
func tenant(t *testing.T, name string) string {
	return harness.Service(name) + harness.Slice(name, harness.NewPod(t, name)) + harness.Ingress(name, name+".example", name)
}

// dynamic tells whether HAProxy adds and removes backends at run time.
func dynamic(c *harness.Controller) bool {
	return !strings.Contains(c.Runtime("add backend"), "Unknown")
}

// New Services with their Ingresses come and go under load: nobody sees a failure, the first
// request gets through as soon as the change is applied, and where HAProxy can add backends
// there is no reload.
func TestServicesComeAndGoUnderLoad(t *testing.T) {
	const rounds = 5
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		c := start(t, binary, map[string]string{"base.yaml": harness.Class + tenant(t, "web"), "global.yaml": quiet("50s")})
		reloads := c.Metric("sluice_reloads_total", "")
		steady := clients(c, "web.example", "")
		for i := range rounds {
			name := fmt.Sprintf("new%d", i)
			change(t, c, map[string]string{name + ".yaml": tenant(t, name)})
			if seen := sees(t, harness.Ask{Address: c.HTTP, Host: name + ".example", Path: "/"}); seen.Pod != name {
				t.Errorf("%s was answered by %s", name, seen.Pod)
			}
			agree(t, c, "test_web_80", "test_"+name+"_80")
			before := c.State().Wanted
			c.Remove(name + ".yaml")
			applied(t, c, before)
			gets(t, harness.Ask{Address: c.HTTP, Host: name + ".example", Path: "/"}, 404)
			leave(t, c, "test_web_80")
		}
		steady.end(t)
		agree(t, c, "test_web_80")
		got, want := c.Metric("sluice_reloads_total", "")-reloads, 2.0*rounds
		if dynamic(c) {
			want = 0
			if n := c.Metric("sluice_runtime_commands_total", `command="add backend",result="ok"`); n != rounds {
				t.Errorf("%v commands added a backend, want %d", n, rounds)
			}
		}
		if got != want {
			t.Errorf("%v reloads, want %v", got, want)
		}
	})
}

// An option that changes leads the requests to another backend beside the old one: under
// load nobody is lost on the way.
func TestOptionsChangeUnderLoad(t *testing.T) {
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		ingress := func(weight int) string {
			return harness.Ingress("web", "web.example", "web", "maxconn-server", fmt.Sprint(weight))
		}
		base := harness.Class + harness.Service("web") + harness.Slice("web", harness.NewPod(t, "web-1"))
		c := start(t, binary, map[string]string{"base.yaml": base, "web.yaml": ingress(99), "global.yaml": quiet("50s")})
		reloads := c.Metric("sluice_reloads_total", "")
		steady := clients(c, "web.example", "")
		for i := range 20 {
			change(t, c, map[string]string{"web.yaml": ingress(100 + i)})
		}
		steady.end(t)
		if got := c.Metric("sluice_reloads_total", "") - reloads; dynamic(c) && got != 0 {
			t.Errorf("%v reloads", got)
		}
		c.Eventually("one backend is left", func() error {
			if names := c.Backends(); len(names) != 1 {
				return fmt.Errorf("show backend: %v", names)
			}
			return nil
		})
	})
}

// A request that runs while its Service and Ingress go is finished.
func TestRequestOutlivesItsBackend(t *testing.T) {
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		arrived, release := make(chan struct{}), make(chan struct{})
		pod := harness.NewPodWith(t, "slow", harness.PodOptions{Before: func(*http.Request) { close(arrived); <-release }})
		c := start(t, binary, map[string]string{
			"base.yaml": harness.Class + tenant(t, "web"), "global.yaml": quiet("50s"),
			"slow.yaml": harness.Service("slow") + harness.Slice("slow", pod) + harness.Ingress("slow", "slow.example", "slow"),
		})
		reloads := c.Metric("sluice_reloads_total", "")
		outcome := make(chan error, 1)
		go func() {
			outcome <- status(harness.Ask{Address: c.HTTP, Host: "slow.example", Path: "/"}, 200, nil)()
		}()
		<-arrived
		before := c.State().Wanted
		c.Remove("slow.yaml")
		applied(t, c, before)
		gets(t, harness.Ask{Address: c.HTTP, Host: "slow.example", Path: "/"}, 404)
		// Another change goes through while the backend waits for its stream.
		change(t, c, map[string]string{"new.yaml": tenant(t, "new")})
		if seen := sees(t, harness.Ask{Address: c.HTTP, Host: "new.example", Path: "/"}); seen.Pod != "new" {
			t.Errorf("answered by %s", seen.Pod)
		}
		if dynamic(c) {
			c.Eventually("the backend was tried to be deleted", func() error {
				if stat := c.Runtime("show stat test_slow_80 2 -1"); !strings.Contains(stat, "UNPUB") {
					return errors.New(stat)
				}
				return nil
			})
		}
		close(release)
		if err := <-outcome; err != nil {
			t.Errorf("the request in flight: %v", err)
		}
		leave(t, c, "test_web_80", "test_new_80")
		if got := c.Metric("sluice_reloads_total", "") - reloads; dynamic(c) && got != 0 {
			t.Errorf("%v reloads", got)
		}
	})
}

// A hundred Services that come in one batch are served after one batch of commands.
func TestHundredServicesAtOnce(t *testing.T) {
	const n = 100
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		c := start(t, binary, map[string]string{"base.yaml": harness.Class + tenant(t, "web"), "global.yaml": quiet("50s")}, "--backend-shards", "8")
		reloads := c.Metric("sluice_reloads_total", "")
		pod := harness.NewPod(t, "all")
		var text strings.Builder
		names := []string{"web"}
		for i := range n {
			name := fmt.Sprintf("n%d", i)
			names = append(names, name)
			text.WriteString(harness.Service(name) + harness.Slice(name, pod) + harness.Ingress(name, name+".example", name))
		}
		change(t, c, map[string]string{"all.yaml": text.String()})
		for _, name := range names[1:] {
			gets(t, harness.Ask{Address: c.HTTP, Host: name + ".example", Path: "/"}, 200)
		}
		agree(t, c, backendsOf(names...)...)
		// A controller that dies here leaves nothing for the next one to do.
		c.Kill()
		c.Start("--backend-shards", "8")
		if writes, reloads := c.Metric("sluice_file_writes_total", ""), c.Metric("sluice_reloads_total", ""); writes+reloads != 0 {
			t.Errorf("a restart writes %v files and reloads %v times", writes, reloads)
		}
		before := c.State().Wanted
		c.Remove("all.yaml")
		applied(t, c, before)
		leave(t, c, "test_web_80")
		got, want := c.Metric("sluice_reloads_total", ""), 1.0
		if dynamic(c) {
			want = 0
		}
		if got != want || reloads > 1 {
			t.Errorf("%v reloads, want %v", got, want)
		}
	})
}

// likeness are options that make up a profile or the parameters of servers, with the Service
// that they are for: plain or secure. Lists of addresses are not among them: they belong to
// an Ingress, and so does their profile, which is new with each.
func likeness() map[string][]string {
	return map[string][]string{
		"web":       {"plain"},
		"balance":   {"plain", "balance-algorithm", "leastconn"},
		"source":    {"plain", "balance-algorithm", "source"},
		"uri":       {"plain", "balance-algorithm", "uri"},
		"timeouts":  {"plain", "timeout-connect", "700ms", "timeout-queue", "3s", "timeout-server", "300ms", "timeout-tunnel", "9s"},
		"cookie":    {"plain", "affinity", "cookie", "session-cookie-name", "STICK", "session-cookie-same-site", "Lax"},
		"check":     {"plain", "health-check-uri", "/healthz", "health-check-interval", "100ms", "health-check-rise-count", "4", "health-check-fall-count", "5"},
		"cors":      {"plain", "cors-enable", "true", "cors-allow-origin", "https://o.example", "cors-expose-headers", "X-E", "cors-max-age", "9"},
		"any":       {"plain", "cors-enable", "true"},
		"auth":      {"plain", "auth-secret", "users", "auth-realm", "here"},
		"redirect":  {"plain", "redirect-to", "https://r.example/x", "redirect-to-code", "308"},
		"root":      {"plain", "app-root", "/app"},
		"size":      {"plain", "proxy-body-size", "10"},
		"rewrite":   {"plain", "rewrite-target", "/new"},
		"headers":   {"plain", "request-set-headers", "X-Set: s", "request-add-headers", "X-Add: a", "request-del-headers", "Accept"},
		"answers":   {"plain", "response-set-headers", "X-Set: s", "response-add-headers", "X-Add: a", "response-del-headers", "Content-Type"},
		"weight":    {"plain", "initial-weight", "7"},
		"limits":    {"plain", "maxconn-server", "30", "maxqueue-server", "9"},
		"h2":        {"plain", "backend-protocol", "h2"},
		"proxy":     {"plain", "proxy-protocol", "v2"},
		"tls":       {"secure", "backend-protocol", "h1-ssl"},
		"tls-h2":    {"secure", "backend-protocol", "h2-ssl", "secure-sni", "host"},
		"verify":    {"secure", "backend-protocol", "h1-ssl", "secure-verify-ca-secret", "ca", "secure-verify-hostname", "pod.example"},
		"client":    {"secure", "backend-protocol", "h1-ssl", "secure-crt-secret", "client"},
		"tls-check": {"secure", "backend-protocol", "h1-ssl", "health-check-uri", "/", "health-check-interval", "100ms"},
		"missing":   {"plain", "auth-secret", "nothing"},
	}
}

// questions are asked of each host.
func questions(c *harness.Controller, host string) map[string]harness.Ask {
	ask := func(method, path, body string, headers ...string) harness.Ask {
		return harness.Ask{Address: c.HTTP, Host: host, Method: method, Path: path, Body: body, Headers: append([]string{"Accept", "x/y"}, headers...)}
	}
	list := map[string]harness.Ask{
		"a page":             ask("GET", "/app/x?y=1", ""),
		"the root":           ask("GET", "/", ""),
		"a body":             ask("POST", "/", strings.Repeat("x", 20)),
		"a password":         ask("GET", "/", "", "Authorization", "Basic dTpw"),
		"a wrong password":   ask("GET", "/", "", "Authorization", "Basic dTpx"),
		"a preflight":        ask("OPTIONS", "/", "", "Origin", "https://o.example", "Access-Control-Request-Method", "PUT"),
		"another site":       ask("GET", "/", "", "Origin", "https://p.example"),
		"an allowed site":    ask("GET", "/", "", "Origin", "https://o.example"),
		"a client that came": ask("GET", "/", "", "Cookie", "STICK=xyz"),
	}
	if strings.HasPrefix(host, "timeouts-") {
		list["a pod that does not answer"] = ask("GET", "/slow", "")
	}
	return list
}

// behaviour is what a host does, with its own name taken out.
func behaviour(t *testing.T, c *harness.Controller, option, which string) map[string]string {
	t.Helper()
	host := option + "-" + which + ".example"
	got := map[string]string{}
	for question, ask := range questions(c, host) {
		answer, err := ask.Do()
		if err != nil {
			t.Fatalf("%s: %s: %v", host, question, err)
		}
		answer.Headers.Del("Date")
		text := fmt.Sprint(answer.Status, answer.Headers, answer.Body)
		got[question] = strings.ReplaceAll(text, which, "WHICH")
	}
	return got
}

// parameters are what HAProxy tells of a backend and its servers, without what counts and
// without numbers that it gave away itself.
func parameters(t *testing.T, c *harness.Controller, backend string) []string {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(c.Runtime("show stat "+backend+" -1 -1")), "\n")
	columns := strings.Split(strings.TrimPrefix(lines[0], "# "), ",")
	var list []string
	for _, line := range lines[1:] {
		var row []string
		for i, value := range strings.Split(line, ",") {
			switch columns[i] {
			case "svname", "status", "weight", "act", "bck", "qlimit", "type", "check_status", "check_rise", "check_fall", "check_health", "addr", "cookie", "mode", "algo", "tracked":
				row = append(row, columns[i]+"="+value)
			}
		}
		list = append(list, strings.Join(row, " "))
	}
	slices.Sort(list)
	return list
}

// A backend that was added at run time does what one from the file does, whatever its options.
func TestAddedBackendBehavesAsOneFromTheFile(t *testing.T) {
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		authority := harness.NewAuthority(t, "authority")
		slow := func(r *http.Request) {
			if r.URL.Path == "/slow" {
				<-r.Context().Done()
			}
		}
		pair := authority.Issue(t, "pod.example")
		pods := map[string]*harness.Pod{
			"plain":  harness.NewPodWith(t, "plain", harness.PodOptions{Before: slow}),
			"secure": harness.NewPodWith(t, "secure", harness.PodOptions{TLS: true, AskClient: true, Certificate: pair}),
		}
		secrets := harness.Class + harness.Secret("ca", map[string]string{"ca.crt": authority.Certificate}) +
			authority.Issue(t, "client").TLSSecret("client") + harness.Secret("users", map[string]string{"auth": "u::p"})
		manifests := func(which string) string {
			text := ""
			for name, pod := range pods {
				text += harness.Service(name+which) + harness.Slice(name+which, pod)
			}
			for _, option := range slices.Sorted(maps.Keys(likeness())) {
				words := likeness()[option]
				text += harness.IngressPath(option+"-"+which, option+"-"+which+".example", "/", words[0]+which, words[1:]...)
			}
			return text
		}
		c := start(t, binary, map[string]string{"one.yaml": secrets + manifests("one"), "global.yaml": quiet("50s")})
		reloads := c.Metric("sluice_reloads_total", "")
		change(t, c, map[string]string{"two.yaml": manifests("two")})
		want := 1.0
		if dynamic(c) {
			want = 0
		}
		if got := c.Metric("sluice_reloads_total", "") - reloads; got != want {
			t.Errorf("%v reloads, want %v: %+v", got, want, c.State().Reloads)
		}
		names := c.Backends()
		pairs := 0
		for _, name := range names {
			if !strings.Contains(name, "one_80") {
				continue
			}
			pairs++
			c.Eventually("both backends say the same of themselves", func() error {
				if diff := cmp.Diff(parameters(t, c, name), parameters(t, c, strings.Replace(name, "one", "two", 1))); diff != "" {
					return fmt.Errorf("%s (-file +added):\n%s", name, diff)
				}
				return nil
			})
		}
		names = slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, "test___") }) // without a Service
		if pairs < 20 || len(names) != 2*pairs {
			t.Errorf("%d pairs of %v", pairs, names)
		}
		for _, option := range slices.Sorted(maps.Keys(likeness())) {
			file, added := behaviour(t, c, option, "one"), behaviour(t, c, option, "two")
			if diff := cmp.Diff(file, added); diff != "" {
				t.Errorf("%s (-file +added):\n%s", option, diff)
			}
		}
	})
}

// What a new backend needs for TLS is loaded before it: a CA, a client certificate.
func TestNewAuthorityComesWithItsBackend(t *testing.T) {
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		c := start(t, binary, map[string]string{"base.yaml": harness.Class + tenant(t, "web"), "global.yaml": quiet("50s")})
		reloads := c.Metric("sluice_reloads_total", "")
		for _, name := range []string{"first", "second"} {
			authority := harness.NewAuthority(t, name)
			pod := harness.NewPodWith(t, name, harness.PodOptions{TLS: true, AskClient: true, Certificate: authority.Issue(t, "pod.example")})
			change(t, c, map[string]string{name + ".yaml": harness.Secret(name+"-ca", map[string]string{"ca.crt": authority.Certificate}) +
				authority.Issue(t, name+"-client").TLSSecret(name+"-client") + harness.Service(name) + harness.Slice(name, pod) +
				harness.Ingress(name, name+".example", name, "backend-protocol", "h1-ssl", "secure-verify-ca-secret", name+"-ca",
					"secure-verify-hostname", "pod.example", "secure-crt-secret", name+"-client")})
			if seen := sees(t, harness.Ask{Address: c.HTTP, Host: name + ".example", Path: "/"}); seen.Pod != name || !seen.TLS || seen.Client != name+"-client" {
				t.Errorf("the pod %s saw TLS %t, client %q", seen.Pod, seen.TLS, seen.Client)
			}
		}
		if got := c.Metric("sluice_reloads_total", "") - reloads; dynamic(c) && got != 0 {
			t.Errorf("%v reloads: %+v", got, c.State().Reloads)
		}
	})
}

// Backends that are added and removed a thousand times leave nothing behind in HAProxy.
func TestBackendsComeAndGoManyTimes(t *testing.T) {
	const batches, each = 20, 50
	c := start(t, harness.Binary(t, "3.4"), map[string]string{"base.yaml": harness.Class + tenant(t, "web"), "global.yaml": quiet("50s")})
	reloads := c.Metric("sluice_reloads_total", "")
	pod := harness.NewPod(t, "all")
	memory := func() (kB int) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.WorkerPID()))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if rest, found := strings.CutPrefix(line, "VmRSS:"); found {
				_, _ = fmt.Sscan(rest, &kB)
			}
		}
		return kB
	}
	warm := 0
	for i := range batches {
		var text strings.Builder
		for j := range each {
			name := fmt.Sprintf("n%d-%d", i, j)
			text.WriteString(harness.Service(name) + harness.Slice(name, pod) + harness.Ingress(name, name+".example", name))
		}
		change(t, c, map[string]string{"all.yaml": text.String()})
		gets(t, harness.Ask{Address: c.HTTP, Host: fmt.Sprintf("n%d-%d.example", i, i%each), Path: "/"}, 200)
		before := c.State().Wanted
		c.Remove("all.yaml")
		applied(t, c, before)
		leave(t, c, "test_web_80")
		if i == 2 {
			warm = memory()
		}
	}
	if now := memory(); now > warm+4096 {
		t.Errorf("the worker took %d kB after %d backends, and %d kB after %d", warm, 3*each, now, batches*each)
	} else {
		t.Logf("the worker took %d kB after %d backends, and %d kB after %d", warm, 3*each, now, batches*each)
	}
	if got := c.Metric("sluice_reloads_total", "") - reloads; got != 0 {
		t.Errorf("%v reloads", got)
	}
}
