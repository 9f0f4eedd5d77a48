package deploy

import (
	"bytes"
	"context"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write what the chart gives, and the pages made of it, anew")

const (
	chartDir  = "../../deploy/chart/sluice"
	namespace = "sluice-system"
)

// The oldest cluster that the chart is for, and a recent one.
var kubeVersions = [...]string{"v1.30.0", "v1.37.2"}

// valuesOf reads a file of values.
func valuesOf(t *testing.T, path string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{}
	if err := yaml.UnmarshalStrict(text, &values); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return values
}

// render is what `helm template` gives: every file of templates with something in it.
func render(t *testing.T, values map[string]any, kubeVersion string) map[string]string {
	t.Helper()
	files, err := tryRender(values, kubeVersion)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func tryRender(values map[string]any, kubeVersion string) (map[string]string, error) {
	chart, err := loader.Load(chartDir)
	if err != nil {
		return nil, err
	}
	capabilities := common.DefaultCapabilities.Copy()
	version, err := common.ParseKubeVersion(kubeVersion)
	if err != nil {
		return nil, err
	}
	capabilities.KubeVersion = *version
	release := common.ReleaseOptions{Name: "sluice", Namespace: namespace, Revision: 1, IsInstall: true}
	all, err := util.ToRenderValues(chart, values, release, capabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Engine{Strict: true}.RenderWithContext(context.Background(), chart, all)
	if err != nil {
		return nil, err
	}
	for name, text := range files {
		if strings.TrimSpace(text) == "" {
			delete(files, name)
		}
	}
	return files, nil
}

// joined are all manifests of a rendering as one text, without its notes.
func joined(files map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if filepath.Ext(name) == ".yaml" {
			b.WriteString("---\n# Source: " + name + "\n" + strings.Trim(strings.TrimPrefix(strings.TrimSpace(files[name]), "---"), "\n") + "\n")
		}
	}
	return b.String()
}

// golden compares a text with a file, or writes it.
func golden(t *testing.T, path, text string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(want, []byte(text)) {
		t.Errorf("%s is stale: run make manifests, and look at the diff (%v)", path, err)
	}
}

// cases are the ways to use the chart.
func cases(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob("testdata/*/values.yaml")
	if err != nil || len(paths) < 5 {
		t.Fatalf("%v, %v", paths, err)
	}
	var names []string
	for _, path := range paths {
		names = append(names, filepath.Base(filepath.Dir(path)))
	}
	return names
}

func TestLint(t *testing.T) {
	for _, name := range cases(t) {
		t.Run(name, func(t *testing.T) {
			result := lint.RunAll(chartDir, valuesOf(t, filepath.Join("testdata", name, "values.yaml")), namespace)
			for _, message := range result.Messages {
				if message.Severity > support.InfoSev {
					t.Errorf("%s", message)
				}
			}
		})
	}
}

func TestRenderings(t *testing.T) {
	for _, name := range cases(t) {
		t.Run(name, func(t *testing.T) {
			files := render(t, valuesOf(t, filepath.Join("testdata", name, "values.yaml")), kubeVersions[0])
			golden(t, filepath.Join("testdata", name, "golden.yaml"), joined(files))
			check(t, joined(files))
			if other := render(t, valuesOf(t, filepath.Join("testdata", name, "values.yaml")), kubeVersions[1]); joined(other) != joined(files) {
				t.Error("another version of Kubernetes gets other objects")
			}
			if notes := files["sluice/templates/NOTES.txt"]; !strings.Contains(notes, "/api/v1/state") || strings.Contains(notes, "<no value>") {
				t.Errorf("notes:\n%s", notes)
			}
		})
	}
}

// The plain manifests are renderings, too, with the namespace that they name.
func TestManifests(t *testing.T) {
	for file, values := range map[string]string{"deployment.yaml": "default", "daemonset.yaml": "daemonset-host-network", "two-containers.yaml": "two-containers"} {
		head := "# Made of deploy/chart/sluice with the values of tests/deploy/testdata/" + values + " by `make manifests`.\n" +
			"---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: " + namespace + "\n" +
			"  labels: {pod-security.kubernetes.io/enforce: " + map[bool]string{true: "privileged", false: "restricted"}[values == "daemonset-host-network"] + "}\n"
		text := joined(render(t, valuesOf(t, filepath.Join("testdata", values, "values.yaml")), kubeVersions[0]))
		// Helm's marks would be untrue.
		var lines []string
		for line := range strings.Lines(text) {
			if !strings.Contains(line, "helm.sh/chart:") && !strings.Contains(line, "managed-by: Helm") && !strings.HasPrefix(line, "# Source: ") {
				lines = append(lines, line)
			}
		}
		golden(t, filepath.Join("../../deploy/manifests", file), head+strings.Join(lines, ""))
	}
}

// Values that make no sense are refused, with a word on what to do.
func TestWrongValues(t *testing.T) {
	wrong := map[string]struct{ values, want string }{
		"a value that does not exist":              {"replica: 3", "replica"},
		"a kind that does not exist":               {"kind: StatefulSet", "Deployment"},
		"a layout that does not exist":             {"layout: three", "one-container"},
		"root":                                     {"runAsUser: 0", "runAsUser"},
		"no address to listen on":                  {"listen: {ipv4: false, ipv6: false}", "listen"},
		"memory that is no quantity":               {"resources: {limits: {memory: much}}", "memory"},
		"a name without a namespace":               {"defaultSSLCertificate: wildcard", "defaultSSLCertificate"},
		"a port that does not exist":               {"listen: {http: 70000}", "http"},
		"a port for TCP that does not exist":       {"service: {tcpPorts: [99999]}", "tcpPorts"},
		"a TCP service at no port":                 {`tcp: {"99999": "shop/postgres:5432"}`, "99999"},
		"repetitions of packets on the node":       {"{hostNetwork: true, tcpRetries2: 2}", "net.ipv4.tcp_retries2 there"},
		"more repetitions than there can be":       {"tcpRetries2: 99", "tcpRetries2"},
		"a name without a number":                  {"service: {tcpPorts: [postgres]}", "tcpPorts"},
		"an admin address behind the chart's back": {"extraArgs: [--admin-address=127.0.0.1:10254]", "listen.adminHost"},
		"an admin address that nobody gets to":     {"listen: {adminHost: 127.0.0.1}", "hostNetwork"},
		"Prometheus kept out":                      {"serviceMonitor: {enabled: true}", "networkPolicy.adminFrom"},
		"a monitor with nothing to find":           {"{serviceMonitor: {enabled: true}, adminService: {enabled: false}}", "adminService.enabled"},
	}
	for name, c := range wrong {
		t.Run(name, func(t *testing.T) {
			values := map[string]any{}
			if err := yaml.Unmarshal([]byte(c.values), &values); err != nil {
				t.Fatal(err)
			}
			if _, err := tryRender(values, kubeVersions[0]); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q in it", err, c.want)
			}
		})
	}
}
