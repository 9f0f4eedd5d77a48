package memo

import (
	"encoding/binary"
	"math/big"
	"net/netip"
	"slices"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// assign gives each Gateway its addresses of the pool, the older one first: those that it asks
// for, or, where it asks for none or leaves one to us, the one that its status shows already,
// else one that a hash of its name chooses. Without a pool all share the ports of the machine.
func (m *Memo) assign(units []*gatewayUnit) {
	if len(m.options.GatewayAddresses) == 0 {
		for _, unit := range units {
			unit.addresses, unit.refused = nil, unit.fragment.Addresses
		}
		return
	}
	taken := map[netip.Addr]bool{}
	for _, unit := range units {
		unit.addresses, unit.refused = nil, nil
		for _, text := range unit.fragment.Addresses {
			address, err := netip.ParseAddr(text)
			if err != nil || !m.pooled(address) || taken[address] {
				unit.refused = append(unit.refused, text)
				continue
			}
			taken[address] = true
			unit.addresses = append(unit.addresses, address.String())
		}
	}
	// What somebody asks for is his, whatever a younger or an older one could do with it.
	for _, unit := range units {
		if !unit.fragment.Mine || len(unit.fragment.Addresses) > 0 && !unit.fragment.AnyAddress {
			continue
		}
		if address, ok := m.choose(unit, taken); ok {
			taken[address] = true
			unit.addresses = append(unit.addresses, address.String())
		}
	}
}

func (m *Memo) pooled(address netip.Addr) bool {
	return slices.ContainsFunc(m.options.GatewayAddresses, func(p netip.Prefix) bool { return p.Contains(address) })
}

// choose is a free address for a Gateway.
func (m *Memo) choose(unit *gatewayUnit, taken map[netip.Addr]bool) (netip.Addr, bool) {
	if object, ok := m.snapshot.Object(unit.key).(*gatewayv1.Gateway); ok {
		for _, shown := range object.Status.Addresses {
			if address, err := netip.ParseAddr(shown.Value); err == nil && m.pooled(address) && !taken[address] {
				return address, true
			}
		}
	}
	size := 0
	for _, prefix := range m.options.GatewayAddresses {
		size += sizeOf(prefix)
	}
	digest := model.NewHasher().Str(unit.key.Namespace, unit.key.Name).Digest()
	start := int(binary.BigEndian.Uint32(digest[:4])>>1) % size
	for i := range min(size, len(taken)+1) {
		if address := m.addressAt((start + i) % size); !taken[address] {
			return address, true
		}
	}
	return netip.Addr{}, false
}

// maxPool bounds how many addresses of one network are given out.
const maxPool = 1 << 16

// sizeOf is the number of addresses of a network that can be given out: without those of the
// network itself and of broadcasts, where it is one of several addresses.
func sizeOf(prefix netip.Prefix) int {
	bits := prefix.Addr().BitLen() - prefix.Bits()
	switch {
	case bits >= 16:
		return maxPool - 2
	case bits >= 2:
		return 1<<bits - 2
	}
	return 1 << bits
}

// addressAt is an address of the pool by its number.
func (m *Memo) addressAt(n int) netip.Addr {
	for _, prefix := range m.options.GatewayAddresses {
		size := sizeOf(prefix)
		if n >= size {
			n -= size
			continue
		}
		if prefix.Addr().BitLen()-prefix.Bits() >= 2 {
			n++
		}
		first := new(big.Int).SetBytes(prefix.Masked().Addr().AsSlice())
		bytes := make([]byte, prefix.Addr().BitLen()/8)
		address, _ := netip.AddrFromSlice(first.Add(first, big.NewInt(int64(n))).FillBytes(bytes))
		return address
	}
	panic("memo: there is no such address in the pool")
}
