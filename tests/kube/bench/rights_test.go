//go:build bench

package bench

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/tests/kube"
)

// The service account that the plain manifests make.
const (
	systemNamespace = "sluice-system"
	accountName     = "sluice"
)

// granting are the kinds of the plain manifests that a controller outside of pods needs.
var granting = regexp.MustCompile(`(?m)^kind: (Namespace|ServiceAccount|ClusterRole|ClusterRoleBinding|Role|RoleBinding|IngressClass|ConfigMap)$`)

// rights are those parts of the manifests that users install.
func rights(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(kube.Root(), "deploy", "manifests", "deployment.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var parts []string
	for _, part := range strings.Split(string(text), "\n---\n") {
		if granting.MatchString(part) {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, "\n---\n")
}
