package template

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/shard"
	"github.com/sluice-proxy/sluice/rootfs"
)

// BenchmarkOneShard renders one shard of 100 backends with ten servers each, of which one has
// changed.
func BenchmarkOneShard(b *testing.B) {
	r, err := New(rootfs.Templates())
	if err != nil {
		b.Fatal(err)
	}
	m := &model.Model{}
	var list []*model.Backend
	for i := range 100 {
		backend := &model.Backend{Name: fmt.Sprintf("shop_app-%05d_80", i), Profile: &model.Profile{Name: model.DefaultProfile}}
		for j := range 10 {
			addr := netip.AddrFrom4([4]byte{10, 0, byte(i), byte(j + 1)})
			backend.Servers = append(backend.Servers, model.Server{Addr: netip.AddrPortFrom(addr, 8080), Weight: 1})
		}
		list = append(list, backend.Seal())
	}
	m.Backends = m.Backends.With(list, nil)
	first := m.Backends.Bucket(model.BucketOf(list[0].Name)).Backends[0]
	var layouts [2]shard.Layout
	for i := range layouts {
		changed := *first
		changed.Servers = first.Servers[i:]
		next := &model.Model{Backends: m.Backends.With([]*model.Backend{changed.Seal()}, nil)}
		layouts[i] = shard.Place(nil, next, shard.Options{Shards: 1, Templates: r.Digest()})
	}
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		if _, err := r.Shard(layouts[n%2], 0); err != nil {
			b.Fatal(err)
		}
	}
}
