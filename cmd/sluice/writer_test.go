package main

import (
	"testing"

	"github.com/sluice-proxy/sluice/cmd/internal/options"
)

// TestInstallations: those of different classes have different leases and field managers; the
// chart grants the same names.
func TestInstallations(t *testing.T) {
	for _, test := range []struct{ ingressClass, controllerClass, want string }{
		{"sluice", "", "sluice"}, {"edge", "", "sluice-edge"}, {"sluice", "edge", "sluice-edge"}, {"public", "edge", "sluice-edge"},
	} {
		o := &options.Options{IngressClass: test.ingressClass, ControllerClass: test.controllerClass}
		if got := installation(o); got != test.want {
			t.Errorf("%+v: %s", test, got)
		}
	}
}
