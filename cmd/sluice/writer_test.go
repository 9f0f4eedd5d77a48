package main

import (
	"testing"

	"github.com/sluice-proxy/sluice/cmd/internal/options"
)

// TestInstallations: those of different classes have different leases and field managers; the
// chart grants the same names.
func TestInstallations(t *testing.T) {
	for class, want := range map[string]string{"sluice": "sluice", "edge": "sluice-edge"} {
		if got := installation(&options.Options{IngressClass: class}); got != want {
			t.Errorf("class %s: %s, want %s", class, got, want)
		}
	}
}
