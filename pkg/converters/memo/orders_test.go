package memo

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/gateway"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// TestEveryOrder: eight objects that need one another come in each of the 40 320 orders and go
// in the same one. Each set of them leads to one Model, whichever way it came about, and to one
// set of statuses.
func TestEveryOrder(t *testing.T) {
	grants := parsed[gatewayv1.ReferenceGrant](t, `
metadata: {namespace: a, name: routes}
spec: {from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: b}, {group: gateway.networking.k8s.io, kind: TLSRoute, namespace: b}], to: [{group: '', kind: Service}]}`)
	route := parsed[gatewayv1.HTTPRoute](t, `
metadata: {namespace: b, name: shop}
spec: {parentRefs: [{name: edge, namespace: a}], hostnames: [a.example.com], rules: [{matches: [{path: {value: /shop}}, {headers: [{name: X, value: v}]}], backendRefs: [{name: x, namespace: a, port: 80, weight: 3}, {name: gone, port: 80}]}]}`)
	set := parsed[gatewayv1.ListenerSet](t, `
metadata: {namespace: a, name: more}
spec: {parentRef: {name: edge}, listeners: [{name: pass, port: 8443, protocol: TLS, tls: {mode: Passthrough}, allowedRoutes: {namespaces: {from: All}}}]}`)
	connections := parsed[gatewayv1.TLSRoute](t, `
metadata: {namespace: b, name: raw}
spec: {parentRefs: [{name: more, namespace: a, kind: ListenerSet}], hostnames: [c.example.com], rules: [{backendRefs: [{name: x, namespace: a, port: 80}]}]}`)
	edge := parsed[gatewayv1.Gateway](t, `
metadata: {namespace: a, name: edge}
spec: {gatewayClassName: sluice, allowedListeners: {namespaces: {from: Same}}, listeners: [{name: web, port: 8080, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}]}`)
	objects := []any{edge, set, route, connections, grants, service("x"), endpoints("x", "x", "10.1.0.1", "10.1.0.2"),
		parsed[gatewayv1.GatewayClass](t, "metadata: {name: sluice}\nspec: {controllerName: "+controller+"}")}
	wanted := map[int]string{} // by the set of objects, a bit each
	for present := range 1 << len(objects) {
		w := &world{t: t, options: options(), snapshot: snapshot.New(), now: start}
		for i, object := range objects {
			if present&(1<<i) != 0 {
				w.snapshot.Apply([]snapshot.Change{{Key: keyOf(object), Object: object}})
			}
		}
		fresh, _ := w.scratch()
		wanted[present] = essence(fresh)
	}
	var all map[snapshot.Key]gateway.Status
	permute(len(objects), func(order []int) {
		w := &world{t: t, options: options(), snapshot: snapshot.New(), now: start}
		w.memo = New(w.options)
		present := 0
		step := func(i int, change snapshot.Change) {
			w.model = w.memo.Update(w.snapshot, w.snapshot.Apply([]snapshot.Change{change}), w.now)
			if present ^= 1 << i; essence(w.model) != wanted[present] {
				t.Fatalf("%v, of which %b are there, differs from scratch (-scratch +incremental)\n%s", order, present, cmp.Diff(wanted[present], essence(w.model)))
			}
		}
		for _, i := range order {
			step(i, snapshot.Change{Key: keyOf(objects[i]), Object: objects[i]})
		}
		statuses := w.memo.Statuses(nil)
		if all == nil {
			all = statuses
		}
		if !reflect.DeepEqual(all, statuses) { // cmp takes twenty times as long
			t.Fatalf("statuses of order %v differ from those of the first one\n%s", order, cmp.Diff(all, statuses))
		}
		for _, i := range order {
			step(i, snapshot.Change{Key: keyOf(objects[i])})
		}
	})
}

// essence is what a Model serves, shortly.
func essence(m *model.Model) string {
	var b strings.Builder
	for _, table := range m.Tables {
		fmt.Fprintf(&b, "%s:\n", table.Name)
		for _, part := range table.Text() {
			b.Write(part)
		}
	}
	for backend := range m.Backends.All {
		fmt.Fprintf(&b, "%s %x\n", backend.Name, backend.Digest)
	}
	for _, f := range m.TCP {
		fmt.Fprintf(&b, "%s\n", f.Name())
	}
	return b.String()
}

// permute calls do with each order of n things (Heap's algorithm).
func permute(n int, do func(order []int)) {
	order, count := make([]int, n), make([]int, n)
	for i := range order {
		order[i] = i
	}
	do(order)
	for i := 0; i < n; {
		if count[i] >= i {
			count[i] = 0
			i++
			continue
		}
		if i%2 == 0 {
			order[0], order[i] = order[i], order[0]
		} else {
			order[count[i]], order[i] = order[i], order[count[i]]
		}
		do(order)
		count[i]++
		i = 0
	}
}
