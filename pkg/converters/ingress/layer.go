package ingress

import (
	"slices"

	"github.com/sluice-proxy/sluice/pkg/converters/settings"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// Protection identifies the options of the layers that keep somebody out, with their
// texts; zero if there are none. Two forms of an object with equal Protection are equally
// safe.
func Protection(layers []settings.Layer) model.Digest {
	var parts []string
	for _, layer := range layers {
		for name, text := range layer.Raw {
			if settings.Guards(name) {
				parts = append(parts, layer.Origin.Field+name, text)
			}
		}
	}
	if parts == nil {
		return model.Digest{}
	}
	slices.Sort(parts)
	return model.NewHasher().Str(parts...).Digest()
}

// Protects tells whether an option keeps somebody out.
func Protects(name string) bool { return settings.Guards(name) }

// SameFor tells whether two sets of global settings are the same to Convert.
func SameFor(a, b *settings.Set) bool {
	for _, name := range []string{optionPathType, optionAppRoot, optionRewrite, optionTCPProxy} {
		if a.Text(name) != b.Text(name) {
			return false
		}
	}
	return true
}

// Options that Convert itself reads; it hands on all others.
const (
	optionPathType = "path-type"
	optionAppRoot  = "app-root"
	optionRewrite  = "rewrite-target"
	optionTCPPort  = "tcp-service-port"
	optionTCPProxy = "tcp-service-proxy-protocol"
)
