package sandbox

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"sync"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// Addresses of the sandbox.
const (
	RouterAddress = "10.244.0.1"    // of the API server, of kubelets and of hostNetwork pods
	PodNetwork    = "10.244.0.0/16" // pods, on the bridge
	LocalNetwork  = "10.200.0.0/16" // every address is the router's: for Gateways
)

// bridgeName is the link that all pods are connected to.
const bridgeName = "pods0"

// Router is the network namespace that the test binary runs in, with a bridge for pods.
type Router struct {
	bridge netlink.Link

	mu   sync.Mutex
	next netip.Addr
	used map[netip.Addr]bool
	n    int // links made so far; their names
}

// NewRouter sets up loopback, the bridge and the local range in this process' network
// namespace, which must be a fresh one.
func NewRouter() (*Router, error) {
	if err := upLoopback(nil, LocalNetwork); err != nil {
		return nil, err
	}
	// On a node, pods with its network need NET_BIND_SERVICE for that, which containers here can't have.
	if err := openLowPorts(); err != nil {
		return nil, fmt.Errorf("opening the router's low ports: %w", err)
	}
	attributes := netlink.NewLinkAttrs()
	attributes.Name = bridgeName
	// A fixed one: otherwise it follows the first pod's and changes with it, under the ARP entries of all others.
	attributes.HardwareAddr = net.HardwareAddr{0x02, 0, 10, 244, 0, 1}
	if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attributes}); err != nil {
		return nil, fmt.Errorf("making the pods' bridge: %w", err)
	}
	bridge, err := netlink.LinkByName(bridgeName)
	if err != nil {
		return nil, fmt.Errorf("finding the pods' bridge: %w", err)
	}
	prefix := netip.MustParsePrefix(PodNetwork)
	address := &netlink.Addr{IPNet: ipNet(netip.MustParseAddr(RouterAddress), prefix.Bits())}
	if err := netlink.AddrAdd(bridge, address); err != nil {
		return nil, fmt.Errorf("giving the router its address: %w", err)
	}
	if err := netlink.LinkSetUp(bridge); err != nil {
		return nil, fmt.Errorf("starting the pods' bridge: %w", err)
	}
	return &Router{bridge: bridge, next: netip.MustParseAddr("10.244.1.1"), used: map[netip.Addr]bool{}}, nil
}

// upLoopback starts loopback in a namespace (nil: this one) and makes ranges local to it.
func upLoopback(handle *netlink.Handle, ranges ...string) error {
	if handle == nil {
		handle = &netlink.Handle{}
	}
	loopback, err := handle.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("finding loopback: %w", err)
	}
	if err := handle.LinkSetUp(loopback); err != nil {
		return fmt.Errorf("starting loopback: %w", err)
	}
	for _, text := range ranges {
		prefix := netip.MustParsePrefix(text)
		// Type and table "local": what `ip route add local RANGE dev lo` does.
		route := &netlink.Route{LinkIndex: loopback.Attrs().Index, Dst: ipNet(prefix.Addr(), prefix.Bits()), Type: 2, Table: 255, Scope: netlink.SCOPE_HOST}
		if err := handle.RouteAdd(route); err != nil {
			return fmt.Errorf("making %s local: %w", text, err)
		}
	}
	return nil
}

func ipNet(address netip.Addr, bits int) *net.IPNet {
	return &net.IPNet{IP: address.AsSlice(), Mask: net.CIDRMask(bits, address.BitLen())}
}

// Pod is the network namespace of a pod, with one address on the bridge.
type Pod struct {
	Address netip.Addr

	router *Router
	space  netns.NsHandle
	link   netlink.Link // the router's end
}

// NewPod makes a network namespace and connects it.
func (r *Router) NewPod() (*Pod, error) {
	address, name := r.allocate()
	p := &Pod{Address: address, router: r, space: netns.None()}
	if err := p.connect(name); err != nil {
		p.Close()
		return nil, fmt.Errorf("network of pod %s: %w", address, err)
	}
	return p, nil
}

// allocate hands out addresses in a circle, so that one that was freed is not used again
// soon: a request that meets the wrong pod is a bug of whoever sent it, and visible.
func (r *Router) allocate() (netip.Addr, string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n++
	last := netip.MustParseAddr("10.244.255.254")
	for r.used[r.next] {
		r.next = r.step(last)
	}
	address := r.next
	r.used[address] = true
	r.next = r.step(last)
	return address, "pod" + strconv.Itoa(r.n)
}

func (r *Router) step(last netip.Addr) netip.Addr {
	if r.next == last {
		return netip.MustParseAddr("10.244.1.1")
	}
	return r.next.Next()
}

func (p *Pod) connect(name string) error {
	var err error
	if p.space, err = newNamespace(); err != nil {
		return err
	}
	attributes := netlink.NewLinkAttrs()
	attributes.Name, attributes.MasterIndex = name, p.router.bridge.Attrs().Index
	veth := &netlink.Veth{LinkAttrs: attributes, PeerName: "eth0", PeerNamespace: netlink.NsFd(int(p.space))}
	if err := netlink.LinkAdd(veth); err != nil {
		return fmt.Errorf("making its link: %w", err)
	}
	if p.link, err = netlink.LinkByName(name); err != nil {
		return fmt.Errorf("finding its link: %w", err)
	}
	handle, err := netlink.NewHandleAt(p.space)
	if err != nil {
		return fmt.Errorf("entering its namespace: %w", err)
	}
	defer handle.Close()
	if err := upLoopback(handle); err != nil {
		return err
	}
	inner, err := handle.LinkByName("eth0")
	if err != nil {
		return fmt.Errorf("finding its end of the link: %w", err)
	}
	bits := netip.MustParsePrefix(PodNetwork).Bits()
	if err := handle.AddrAdd(inner, &netlink.Addr{IPNet: ipNet(p.Address, bits)}); err != nil {
		return fmt.Errorf("giving it an address: %w", err)
	}
	if err := errors.Join(handle.LinkSetUp(inner), netlink.LinkSetUp(p.link)); err != nil {
		return fmt.Errorf("starting its link: %w", err)
	}
	gateway := netip.MustParseAddr(RouterAddress).AsSlice()
	if err := handle.RouteAdd(&netlink.Route{LinkIndex: inner.Attrs().Index, Gw: gateway}); err != nil {
		return fmt.Errorf("giving it a route: %w", err)
	}
	return nil
}

// newNamespace makes a network namespace in which, as container runtimes have it, low
// ports are for everybody.
func newNamespace() (netns.NsHandle, error) {
	type made struct {
		space netns.NsHandle
		err   error
	}
	result := make(chan made)
	go func() {
		// The thread is never given back: it ends with the goroutine.
		runtime.LockOSThread()
		space, err := netns.New()
		if err == nil {
			err = openLowPorts()
		}
		result <- made{space, err}
	}()
	m := <-result
	if m.err != nil {
		return m.space, fmt.Errorf("making its namespace: %w", m.err)
	}
	return m.space, nil
}

// openLowPorts lets everybody in the network namespace of now listen on ports below 1024.
func openLowPorts() error {
	return os.WriteFile("/proc/sys/net/ipv4/ip_unprivileged_port_start", []byte("0"), 0)
}

// Namespace is a descriptor of the network namespace, for setns(2). It is the pod's own.
func (p *Pod) Namespace() int { return int(p.space) }

// Unplug takes the link down: packets to and from the pod are lost, nobody is told.
func (p *Pod) Unplug() error {
	if err := netlink.LinkSetDown(p.link); err != nil {
		return fmt.Errorf("taking a pod's link down: %w", err)
	}
	return nil
}

// Plug takes the link up again. The kernel notices within a second or two.
func (p *Pod) Plug() error {
	if err := netlink.LinkSetUp(p.link); err != nil {
		return fmt.Errorf("taking a pod's link up: %w", err)
	}
	return nil
}

// Close removes the link and frees the address. The namespace goes with its last process.
func (p *Pod) Close() {
	if p.link != nil {
		_ = netlink.LinkDel(p.link)
	}
	if p.space.IsOpen() {
		_ = p.space.Close()
	}
	p.router.mu.Lock()
	defer p.router.mu.Unlock()
	delete(p.router.used, p.Address)
}
