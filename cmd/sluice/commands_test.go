package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/tests/harness"
)

const good = harness.Class + `---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: test}
spec: {ports: [{port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: test, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{port: 8080}]
endpoints: [{addresses: [10.0.0.1]}]
`

// called is what a command line gave.
type called struct {
	code     int
	out, err string
}

func call(t *testing.T, stdin string, args ...string) called {
	t.Helper()
	var out, errs bytes.Buffer
	code := execute(context.Background(), args, streams{strings.NewReader(stdin), &out, &errs})
	return called{code, out.String(), errs.String()}
}

func (c called) expect(t *testing.T, code int, out, err string) {
	t.Helper()
	if c.code != code || !strings.Contains(c.out, out) || !strings.Contains(c.err, err) {
		t.Errorf("exit code %d, want %d; output lacks %q or errors lack %q\nstdout: %s\nstderr: %s", c.code, code, out, err, c.out, c.err)
	}
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestWrongCalls(t *testing.T) {
	t.Setenv("KUBECONFIG", "/no/kubeconfig")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	cases := map[string]struct {
		args []string
		want string
	}{
		"render without a folder":            {[]string{"render", "-"}, "--out is missing"},
		"render without a source":            {[]string{"render"}, "requires at least 1 arg"},
		"bootstrap with a source":            {[]string{"render", "--bootstrap", "-", "--out", "/tmp/x"}, "unknown command"},
		"bootstrap without a folder":         {[]string{"render", "--bootstrap"}, "--bootstrap needs --out DIR"},
		"bootstrap to standard output":       {[]string{"render", "--bootstrap", "--out", "-"}, "--bootstrap needs --out DIR"},
		"bootstrap in somebody's folder":     {[]string{"render", "--bootstrap", "--out", "/proc", "--run-dir", "/tmp"}, "--out=/proc"},
		"memory for somebody else's HAProxy": {[]string{"run", "--source", "/tmp", "--master-socket", "/tmp/m", "--haproxy-memory-limit", "1Gi"}, "start HAProxy with -m"},
		"a source that does not exist":       {[]string{"check", "/no/such/folder"}, "no such file or folder"},
		"diff without the other side":        {[]string{"diff", "-"}, "either --against DIR or --running URL"},
		"diff against a folder of something": {[]string{"diff", "-", "--against", "/proc"}, "neither current/ nor conf.d/"},
		"diff with nobody there":             {[]string{"diff", "-", "--running", "http://127.0.0.1:1"}, "no sluice answers there"},
		"run without a source":               {[]string{"run"}, "there is nothing to serve"},
		"run without the kubeconfig":         {[]string{"run", "--kubeconfig", "/no/kubeconfig"}, "--kubeconfig=/no/kubeconfig"},
		"run without HAProxy":                {[]string{"run", "--source", "/tmp", "--haproxy", "/no/haproxy"}, "install HAProxy 3.2 or later"},
		"a flag that does not exist":         {[]string{"render", "--frobnicate"}, "unknown flag"},
		"a bad value of a flag":              {[]string{"check", "-", "--backend-shards", "5000"}, "from 1 to 1024"},
		"a folder of templates without them": {[]string{"check", "-", "--templates", "/proc"}, "global.tmpl"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { call(t, good, c.args...).expect(t, 2, "", c.want) })
	}
}

func TestVersion(t *testing.T) {
	call(t, "", "version").expect(t, 0, "sluice ", "")
}

func TestRender(t *testing.T) {
	manifests := good + harness.Ingress("web", "a.example", "web")
	call(t, manifests, "render", "-", "--out", "-").expect(t, 0, "backend test_web_80 from web\n    server 10.0.0.1:8080", "")

	folder := filepath.Join(t.TempDir(), "tree")
	call(t, manifests, "render", "-", "--out", folder).expect(t, 0, "", "")
	if _, err := os.Stat(filepath.Join(folder, "certs")); err == nil {
		t.Error("private keys were written without --with-keys")
	}
	call(t, good, "render", "-", "--out", folder).expect(t, 0, "", "")
	if names, _ := filepath.Glob(filepath.Join(folder, "conf.d", "50-*")); len(names) != 0 {
		t.Errorf("an earlier rendering is left over: %v", names)
	}
	first, second := call(t, manifests, "render", "-", "--out", "-"), call(t, manifests, "render", "-", "--out", "-")
	if first.out != second.out {
		t.Error("two renderings of one source differ")
	}
	if err := os.WriteFile(filepath.Join(folder, "mine.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	call(t, good, "render", "-", "--out", folder).expect(t, 2, "", "mine.txt")
}

func TestCheck(t *testing.T) {
	manifests := good + harness.Ingress("web", "a.example", "web")
	call(t, manifests, "check", "-").expect(t, 0, "no complaints", "")
	bad := write(t, "bad.yaml", manifests+harness.Ingress("late", "b.example", "missing", "timeout-servr", "5s"))
	got := call(t, "", "check", bad)
	got.expect(t, 1, "", "bad.yaml:")
	got.expect(t, 1, "", "[ServiceMissing]")
	got.expect(t, 1, "", "timeout-server")
	got = call(t, "", "check", "-o", "json", bad)
	got.expect(t, 1, `"code": "OptionUnknown"`, "")
	got.expect(t, 1, `"severity": "warning"`, "")
	got.expect(t, 1, `"kind": "Ingress"`, "")
	call(t, manifests, "check", "-o", "json", "-").expect(t, 0, "[]", "")
	remark := manifests + "---\napiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: test}\n"
	call(t, remark, "check", "-").expect(t, 0, "nothing is wrong", "[ObjectUnsupported]")
	call(t, remark, "check", "-o", "json", "-").expect(t, 0, `"severity": "info"`, "")
	for _, version := range harness.Versions {
		call(t, manifests, "check", "-", "--haproxy", harness.Binary(t, version)).expect(t, 0, "no complaints", "")
	}
}

func TestDiff(t *testing.T) {
	tree := filepath.Join(t.TempDir(), "tree")
	manifests := good + harness.Ingress("web", "a.example", "web")
	call(t, manifests, "render", "-", "--out", tree).expect(t, 0, "", "")
	call(t, manifests, "diff", "-", "--against", tree).expect(t, 0, "", "")

	got := call(t, strings.Replace(manifests, "[10.0.0.1]}", "[10.0.0.1]}, {addresses: [10.0.0.2]}", 1), "diff", "-", "--against", tree)
	got.expect(t, 1, "+    server 10.0.0.2:8080", "")
	got.expect(t, 1, "runtime: add server test_web_80/10.0.0.2:8080: new endpoint", "")
	got.expect(t, 1, "no reload", "")

	got = call(t, good, "diff", "-", "--against", tree)
	got.expect(t, 1, "-backend test_web_80", "")
	got.expect(t, 1, "remove conf.d/50-backends-000.cfg: the last backend of the shard is gone", "")
	got.expect(t, 1, "runtime: remove backend test_web_80 at run time: backend gone", "")
	got.expect(t, 1, "no reload", "")

	more := manifests + harness.Service("more")
	got = call(t, more+harness.Ingress("more", "b.example", "more"), "diff", "-", "--against", tree)
	got.expect(t, 1, "runtime: add backend test_more_80 at run time: new backend; its profile web is loaded", "")
	got.expect(t, 1, "no reload", "")

	got = call(t, more+harness.Ingress("more", "b.example", "more", "balance-algorithm", "leastconn"), "diff", "-", "--against", tree)
	got.expect(t, 1, "reload: new profile: p_", "")

	guarded := good + harness.Ingress("web", "a.example", "web", "allowlist-source-range", "10.0.0.0/8")
	call(t, guarded, "render", "-", "--out", tree).expect(t, 0, "", "")
	got = call(t, good+harness.Ingress("web", "a.example", "web", "allowlist-source-range", "10.0.0.0/8", "balance-algorithm", "leastconn"), "diff", "-", "--against", tree)
	got.expect(t, 1, "it can't be told whether the old worker protects these routes", "")
	if strings.Contains(got.out, "get a protection") {
		t.Errorf("only the balance algorithm changed: %s", got.out)
	}
}

func TestDiffOfEqualSides(t *testing.T) {
	const shop = "../../examples/shop" // with users and certificates
	for sentence, more := range map[string][]string{"without keys": nil, "with keys": {"--with-keys"}} {
		tree := filepath.Join(t.TempDir(), "tree")
		call(t, "", append([]string{"render", shop, "--allow-local-endpoints", "--out", tree}, more...)...).expect(t, 0, "", "")
		if got := call(t, "", "diff", shop, "--allow-local-endpoints", "--against", tree); got.code != 0 || got.out != "" {
			t.Errorf("%s: exit code %d\n%s", sentence, got.code, got.out)
		}
		call(t, "", "diff", shop, "--allow-local-endpoints", "--against", tree, "-o", "json").expect(t, 0, `"steps": []`, "")
	}
}

func TestDiffAsJSON(t *testing.T) {
	tree := filepath.Join(t.TempDir(), "tree")
	manifests := good + harness.Ingress("web", "a.example", "web")
	call(t, manifests, "render", "-", "--out", tree).expect(t, 0, "", "")
	got := call(t, good, "diff", "-", "--against", tree, "-o", "json")
	var d difference
	if err := json.Unmarshal([]byte(got.out), &d); err != nil || got.code != 1 {
		t.Fatalf("exit code %d, %v: %s", got.code, err, got.out)
	}
	last := d.Steps[len(d.Steps)-1]
	first := d.Steps[0]
	if d.Reload || first.Do != "runtime" || last.Do != "remove" || !strings.Contains(d.Diff, "-backend test_web_80") {
		t.Errorf("%+v", d)
	}
}

func TestDiffTellsWhatIsWrongWithTheAnswer(t *testing.T) {
	for sentence, c := range map[string]struct {
		status     int
		body, want string
	}{
		"an error":       {http.StatusNotFound, "no", "the answer is 404 Not Found"},
		"something else": {http.StatusOK, "<html>", "not that of sluice's admin address"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(c.body))
		}))
		got := call(t, good, "diff", "-", "--running", server.URL)
		server.Close()
		if got.code != 2 || !strings.Contains(got.err, c.want) || strings.Contains(got.err, "%!") {
			t.Errorf("%s: %d %s", sentence, got.code, got.err)
		}
	}
}
