package gateway

import (
	"strings"
	"testing"

	"sigs.k8s.io/gateway-api/pkg/features"
)

// The table holds each feature of the API but for those of meshes, and no other.
func TestClaimsAreFeatures(t *testing.T) {
	known := map[string]bool{}
	for _, f := range features.AllFeatures.UnsortedList() {
		if !strings.HasPrefix(string(f.Name), "Mesh") {
			known[string(f.Name)] = true
		}
	}
	table := claims()
	for name := range table {
		if !known[name] {
			t.Errorf("%s is no feature", name)
		}
	}
	for name := range known {
		if _, told := table[name]; !told {
			t.Errorf("%s is missing", name)
		}
	}
}
