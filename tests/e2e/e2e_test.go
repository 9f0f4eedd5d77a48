package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/tests/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// start starts a controller on manifests, each of them a file.
func start(t *testing.T, binary string, manifests map[string]string, args ...string) *harness.Controller {
	t.Helper()
	c := harness.NewController(t, binary, manifests)
	c.Start(args...)
	return c
}

// answers waits until a request for a host with a path is answered with a status, by the
// pod of that name if one is given.
func answers(t *testing.T, c *harness.Controller, url string, status int, pod string) {
	t.Helper()
	host, path, _ := strings.Cut(url, "/")
	path = "/" + path
	c.Eventually(fmt.Sprintf("http://%s%s answers %d %s", host, path, status, pod), func() error {
		answer, err := c.Get(host, path)
		if err != nil {
			return err
		}
		if answer.Status != status {
			return fmt.Errorf("status %d: %s", answer.Status, answer.Body)
		}
		if pod == "" {
			return nil
		}
		seen, err := answer.Read()
		if err == nil && seen.Pod != pod {
			err = fmt.Errorf("answered by %s", seen.Pod)
		}
		return err
	})
}

// applied waits until everything that was written is served.
func applied(t *testing.T, c *harness.Controller, after uint64) {
	t.Helper()
	c.Eventually("the change is applied", func() error {
		if s := c.State(); s.Applied <= after || s.Applied != s.Wanted {
			return fmt.Errorf("wanted %d, applied %d, error %q", s.Wanted, s.Applied, s.Error)
		}
		return nil
	})
}

// change writes manifests and waits until they are served.
func change(t *testing.T, c *harness.Controller, manifests map[string]string) {
	t.Helper()
	before := c.State().Wanted
	for name, content := range manifests {
		c.Write(name, content)
	}
	applied(t, c, before)
}

// agree fails the test unless the worker, the shard files and the wanted names agree, and
// nothing else stands in the current generation.
func agree(t *testing.T, c *harness.Controller, want ...string) {
	t.Helper()
	slices.Sort(want)
	inFiles := map[string]string{}
	var names []string
	paths, err := filepath.Glob(filepath.Join(c.ConfigDir, "current", "conf.d", "50-backends-*.cfg"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "backend ") {
			t.Errorf("%s holds no backend", path)
		}
		for line := range strings.Lines(string(text)) {
			if words := strings.Fields(line); len(words) > 1 && words[0] == "backend" {
				if other, twice := inFiles[words[1]]; twice {
					t.Errorf("backend %s is in %s and in %s", words[1], other, path)
				}
				inFiles[words[1]] = path
				names = append(names, words[1])
			}
		}
	}
	slices.Sort(names)
	if !slices.Equal(names, want) {
		t.Errorf("backends in files: %v, want %v", names, want)
	}
	leave(t, c, want...)
	generations, _ := filepath.Glob(filepath.Join(c.ConfigDir, "gen-*"))
	if len(generations) > 2 {
		t.Errorf("generations %v, want the current one and the last good one", generations)
	}
}

// leave waits until the worker has the wanted backends and no others: they go a moment after
// their last route.
func leave(t *testing.T, c *harness.Controller, want ...string) {
	t.Helper()
	slices.Sort(want)
	c.Eventually("the other backends are gone", func() error {
		served := c.Backends()
		slices.Sort(served)
		if !slices.Equal(served, want) {
			return fmt.Errorf("show backend: %v, want %v", served, want)
		}
		return nil
	})
}

func TestThinLine(t *testing.T) {
	harness.EachVersion(t, func(t *testing.T, binary string) {
		pod := harness.NewPod(t, "web-1")
		c := start(t, binary, map[string]string{"a.yaml": harness.Class + harness.Service("web") + harness.Slice("web", pod) + harness.Ingress("web", "shop.example", "web")})
		answers(t, c, "shop.example/x?y=1", 200, "web-1")
		answers(t, c, "SHOP.example.:80/", 200, "web-1")
		answers(t, c, "other.example/", 404, "")
		agree(t, c, "test_web_80")
	})
}

func TestRouting(t *testing.T) {
	pods := map[string]*harness.Pod{}
	manifests := harness.Class
	for _, name := range []string{"root", "foo", "exact", "wild", "any", "fallback"} {
		pods[name] = harness.NewPod(t, name)
		manifests += harness.Service(name) + harness.Slice(name, pods[name])
	}
	path := func(path, kind, service string) string {
		return fmt.Sprintf("      - {path: %s, pathType: %s, backend: {service: {name: %s, port: {number: 80}}}}\n", path, kind, service)
	}
	manifests += "---\napiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: all, namespace: test}\nspec:\n  rules:\n" +
		"  - host: a.example\n    http:\n      paths:\n" + path("/", "Prefix", "root") + path("/foo", "Prefix", "foo") + path("/foo", "Exact", "exact") + path("/foo/bar", "Exact", "exact") +
		"  - host: '*.example'\n    http:\n      paths:\n" + path("/", "Prefix", "wild") +
		"  - host: b.example\n    http:\n      paths:\n" + path("/only", "Prefix", "root") +
		"  - http:\n      paths:\n" + path("/any", "Prefix", "any") +
		"---\napiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: def, namespace: test}\nspec: {defaultBackend: {service: {name: fallback, port: {number: 80}}}}\n"
	c := start(t, harness.Binary(t, "3.4"), map[string]string{"a.yaml": manifests})
	cases := map[string]struct{ host, path, pod string }{
		"the root":                                                    {"a.example", "/", "root"},
		"a path that no other prefix covers":                          {"a.example", "/foobar", "root"},
		"the exact path wins over the prefix":                         {"a.example", "/foo", "exact"},
		"a trailing slash is not the exact path":                      {"a.example", "/foo/", "foo"},
		"below the prefix":                                            {"a.example", "/foo/x", "foo"},
		"a longer exact path":                                         {"a.example", "/foo/bar", "exact"},
		"a query is no part of the path":                              {"a.example", "/foo?x=/", "exact"},
		"a wildcard is one label":                                     {"x.example", "/", "wild"},
		"two labels are not the wildcard":                             {"x.y.example", "/", "fallback"},
		"the wildcard is not its own domain":                          {"example", "/", "fallback"},
		"case and port of the host do not matter":                     {"A.Example:8080", "/", "root"},
		"a rule without a host is for all hosts":                      {"unknown.test", "/any/x", "any"},
		"a known host without the path takes the rule without a host": {"b.example", "/any", "any"},
		"no path of the known host: the default":                      {"b.example", "/none", "fallback"},
		"an unknown host: the default":                                {"unknown.test", "/none", "fallback"},
		"a path that is spelled otherwise":                            {"a.example", "//f%6Fo/./x", "foo"},
	}
	for name, k := range cases {
		t.Run(name, func(t *testing.T) { answers(t, c, k.host+k.path, 200, k.pod) })
	}
	t.Run("the pod sees the path as it was asked for", func(t *testing.T) {
		answer, err := c.Get("a.example", "/foo/%7Ex//y/../z?q=%20")
		if err != nil {
			t.Fatal(err)
		}
		if seen, err := answer.Read(); err != nil || seen.Path != "/foo/%7Ex//y/../z?q=%20" {
			t.Errorf("the pod saw %q (%v)", seen.Path, err)
		}
	})
}

// A route whose Service does not exist is put right when it comes and goes, in any order
// of Service and slice, with no event on the route.
// The default backend service serves what no rule takes, whatever comes first; rules without
// a host come before it.
func TestDefaultBackendService(t *testing.T) {
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		standard, pod := harness.NewPod(t, "standard-1"), harness.NewPod(t, "web-1")
		c := start(t, binary, map[string]string{"web.yaml": web(pod) + harness.IngressPath("web", "web.example", "/app", "web")}, "--default-backend-service", "test/standard")
		gone := func(name string) {
			before := c.State().Wanted
			c.Remove(name)
			applied(t, c, before)
		}
		service, slice := harness.Service("standard"), harness.Slice("standard", standard)
		for _, order := range [][2][2]string{{{"s.yaml", service}, {"e.yaml", slice}}, {{"e.yaml", slice}, {"s.yaml", service}}} {
			answers(t, c, "other.example/", 503, "")
			must(t, hasFinding(c, "ServiceMissing", "test/standard"))
			change(t, c, map[string]string{order[0][0]: order[0][1]})
			answers(t, c, "other.example/", 503, "")
			change(t, c, map[string]string{order[1][0]: order[1][1]})
			answers(t, c, "other.example/", 200, "standard-1")
			answers(t, c, "web.example/other", 200, "standard-1")
			answers(t, c, "web.example/app", 200, "web-1")
			change(t, c, map[string]string{"all.yaml": harness.IngressPath("all", "", "/", "web")})
			answers(t, c, "other.example/", 200, "web-1")
			gone("all.yaml")
			answers(t, c, "other.example/", 200, "standard-1")
			gone("s.yaml")
			gone("e.yaml")
		}
	})
}

func TestMissingServiceHeals(t *testing.T) {
	harness.EachVersion(t, func(t *testing.T, binary string) {
		pod := harness.NewPod(t, "late-1")
		c := start(t, binary, map[string]string{"route.yaml": harness.Class + harness.Ingress("late", "late.example", "late")})
		service, slice := harness.Service("late"), harness.Slice("late", pod)
		answers(t, c, "late.example/", 503, "")
		if answer, err := c.Get("late.example", "/"); err != nil || answer.Headers.Get("Retry-After") == "" {
			t.Errorf("503 without Retry-After: %v %v", answer.Headers, err)
		}
		if !slices.ContainsFunc(c.State().Findings, func(f struct{ Code, Message string }) bool { return f.Code == "ServiceMissing" }) {
			t.Errorf("findings %v lack ServiceMissing", c.State().Findings)
		}
		ingresses := c.Metric("sluice_conversions_total", `unit="ingress"`)
		reloads := c.Metric("sluice_reloads_total", "")
		for _, order := range [][2][2]string{{{"s.yaml", service}, {"e.yaml", slice}}, {{"e.yaml", slice}, {"s.yaml", service}}} {
			change(t, c, map[string]string{order[0][0]: order[0][1]})
			answers(t, c, "late.example/", 503, "")
			change(t, c, map[string]string{order[1][0]: order[1][1]})
			answers(t, c, "late.example/", 200, "late-1")
			before := c.State().Wanted
			c.Remove(order[0][0])
			applied(t, c, before)
			answers(t, c, "late.example/", 503, "")
			before = c.State().Wanted
			c.Remove(order[1][0])
			applied(t, c, before)
			answers(t, c, "late.example/", 503, "")
		}
		if got := c.Metric("sluice_conversions_total", `unit="ingress"`); got != ingresses {
			t.Errorf("%v Ingresses were converted again", got-ingresses)
		}
		if got := c.Metric("sluice_reloads_total", ""); got != reloads {
			t.Errorf("%v reloads", got-reloads)
		}
	})
}
