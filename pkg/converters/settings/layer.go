package settings

import (
	"maps"
	"slices"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// Layer is what one object says: the texts of its options, as they stand there.
type Layer struct {
	// Origin is the object. Its Field is what stands before an option's name on the object,
	// for example "sluice-proxy.github.io/" or "data."; it may be empty.
	Origin model.Origin
	Raw    map[string]string // option name, without prefix -> text
}

// Digest identifies the texts, not where they come from.
func (l Layer) Digest() model.Digest {
	h := model.NewHasher()
	for _, name := range l.names() {
		h.Str(name, l.Raw[name])
	}
	return h.Digest()
}

func (l Layer) names() []string { return slices.Sorted(maps.Keys(l.Raw)) }

// origin is that of one option of the layer.
func (l Layer) origin(name string) model.Origin {
	o := l.Origin
	o.Field += name
	return o
}
