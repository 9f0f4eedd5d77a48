package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/pkg/haproxy/tree"
)

// Versions are the HAProxy versions that tests run against.
var Versions = [...]string{"3.2", "3.4"}

// Binary is the path of an HAProxy binary: $SLUICE_HAPROXY_32 or _34 as `make test` sets
// them, else the one that tests/tools/haproxy.sh unpacked. The test fails without it.
func Binary(t testing.TB, version string) string {
	t.Helper()
	path := os.Getenv("SLUICE_HAPROXY_" + version[:1] + version[2:])
	if path == "" {
		path = filepath.Join(root(), ".tools", "bin", "haproxy-"+version)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("HAProxy %s is needed: run tests/tools/haproxy.sh install (%v)", version, err)
	}
	return path
}

// EachVersion runs a test as a subtest against each HAProxy version.
func EachVersion(t *testing.T, test func(t *testing.T, binary string)) {
	t.Helper()
	for _, version := range Versions {
		t.Run("HAProxy "+version, func(t *testing.T) { test(t, Binary(t, version)) })
	}
}

// root is the folder of the repository.
func root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(filepath.Dir(file)))
}

// WriteTree writes every file of a tree below a folder.
func WriteTree(t testing.TB, folder string, tr *tree.Tree) {
	t.Helper()
	for _, path := range tr.Paths() {
		name := filepath.Join(folder, path)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		file, _ := tr.Lookup(path)
		if err := os.WriteFile(name, file.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Check runs haproxy -c on the tree below a folder and fails the test with what HAProxy
// said if it refuses the tree or warns about it. One warning does not count: HAProxy 3.4
// measures how long a password hash takes, which on a busy machine says nothing of the hash.
func Check(t testing.TB, binary, folder string) {
	t.Helper()
	out, err := exec.Command(binary, "-c", "-f", filepath.Join(folder, "conf.d")).CombinedOutput()
	bad := err != nil
	for line := range strings.Lines(string(out)) {
		level := strings.HasPrefix(line, "[WARNING]") || strings.HasPrefix(line, "[ALERT]")
		bad = bad || level && !strings.Contains(line, "the hash algorithm used for this password takes")
	}
	if bad {
		t.Errorf("%s -c: %v\n%s", binary, err, out)
	}
}
