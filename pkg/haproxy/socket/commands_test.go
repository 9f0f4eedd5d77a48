package socket

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/plan"
)

// must runs commands that have to succeed.
func (h *haproxy) must(t *testing.T, commands ...plan.Command) {
	t.Helper()
	results, err := h.run.Run(deadline(t, 20*time.Second), commands)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Err != nil {
			t.Fatalf("%s: %v", r.Command.Verb(), r.Err)
		}
	}
}

func server(addr string, state model.ServerState, weight int) model.Server {
	return model.Server{Addr: netip.MustParseAddrPort(addr), State: state, Weight: weight}
}

func TestServers(t *testing.T) {
	versions(t, func(t *testing.T, h *haproxy, version string) {
		add := []plan.Command{
			plan.AddServer{Backend: "b", Server: server("10.0.0.2:80", model.Ready, 7)},
			plan.AddServer{Backend: "b", Server: server("[fd00::1]:80", model.Maint, 1)},
			plan.AddServer{Backend: "b", Server: server("10.0.0.3:80", model.Drain, 5), Options: model.ServerOptions{Check: model.Check{On: true}}},
			plan.AddServer{Backend: "b", Server: server("10.0.0.4:443", model.Ready, 1), Options: model.ServerOptions{SSL: true, SNI: "str(a.example)", ALPN: "h2,http/1.1"}},
		}
		h.must(t, add...)
		h.must(t, add...) // again: nothing changes
		want := []ServerState{
			{Name: "10.0.0.1:80", Address: "10.0.0.1", Port: 80, Ready: true, Up: true, Weight: 1},
			{Name: "10.0.0.2:80", Address: "10.0.0.2", Port: 80, Ready: true, Up: true, Weight: 7},
			{Name: "fd00::1:80", Address: "fd00::1", Port: 80, Maint: true, Weight: 1},
			{Name: "10.0.0.3:80", Address: "10.0.0.3", Port: 80, Ready: true, Up: true, Weight: 0},
			{Name: "10.0.0.4:443", Address: "10.0.0.4", Port: 443, Ready: true, Up: true, Weight: 1},
		}
		check := func() {
			t.Helper()
			got, err := h.run.Servers(deadline(t, 5*time.Second), "b")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		}
		check()
		ready, nine := model.Ready, 9
		h.must(t, plan.SetServer{Backend: "b", Server: "fd00::1:80", State: &ready, Weight: &nine})
		want[2].Ready, want[2].Maint, want[2].Up, want[2].Weight = true, false, true, 9
		check()
		del := []plan.Command{plan.DelServer{Backend: "b", Server: "10.0.0.1:80"}, plan.DelServer{Backend: "b", Server: "fd00::1:80"}}
		h.must(t, del...)
		h.must(t, del...)
		want = append(want[1:2], want[3:]...)
		check()

		results, err := h.run.Run(deadline(t, 5*time.Second), []plan.Command{
			plan.AddServer{Backend: "gone", Server: server("10.0.0.2:80", model.Ready, 1)},
			plan.SetServer{Backend: "b", Server: "gone", State: &ready},
			plan.AddServer{Backend: "b", Server: server("10.0.0.5:80", model.Ready, 1), Options: model.ServerOptions{SSL: true, Verify: true, CAFile: "certs/none.pem"}},
		})
		for _, r := range results {
			var unexpected *UnexpectedAnswer
			if err != nil || !errors.As(r.Err, &unexpected) {
				t.Errorf("%s: %v, %v", r.Command.Verb(), err, r.Err)
			}
		}
	})
}

func TestBusyServer(t *testing.T) {
	versions(t, func(t *testing.T, h *haproxy, version string) {
		b := newBackend(t)
		value := "b"
		h.must(t,
			plan.DelServer{Backend: "b", Server: "10.0.0.1:80"},
			plan.AddServer{Backend: "b", Server: server(b.addr, model.Ready, 1)},
			plan.EditMap{Map: "routes", Edits: []model.Edit{{Key: "h", Value: &value}}},
		)
		conn, err := net.Dial("unix", filepath.Join(h.dir, "http.sock"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Write([]byte("GET / HTTP/1.1\r\nHost: h\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the request is at the server", func() bool {
			text, err := h.run.query(deadline(t, 5*time.Second), "show servers conn b")
			return err == nil && strings.Contains(text, " 1 1 ")
		})
		del := plan.DelServer{Backend: "b", Server: b.addr}
		results, err := h.run.Run(deadline(t, 10*time.Second), []plan.Command{del})
		var pending *Pending
		if err != nil || !errors.As(results[0].Err, &pending) {
			t.Fatalf("errors %v, %v", err, results[0].Err)
		}
		// It comes and goes in one row of commands: each waits for what the one before needs.
		add := plan.AddServer{Backend: "b", Server: server(b.addr, model.Ready, 1)}
		results, err = h.run.Run(deadline(t, 10*time.Second), []plan.Command{add, del, add, del, add})
		for i, r := range results {
			if failed := r.Err != nil; err != nil || failed != (i%2 == 1) || failed && !errors.As(r.Err, &pending) {
				t.Errorf("command %d: errors %v, %v", i, err, r.Err)
			}
		}
		if got, err := h.run.Servers(deadline(t, 5*time.Second), "b"); err != nil || len(got) != 1 || !got[0].Ready {
			t.Errorf("servers %+v, %v; want one that is ready", got, err)
		}
		close(b.release)
		buf := make([]byte, 100)
		if n, err := conn.Read(buf); err != nil || !strings.Contains(string(buf[:n]), "200 OK") {
			t.Errorf("the request in flight got %q, %v", buf[:n], err)
		}
		h.must(t, del) // idle connections are left on it
	})
}

func TestMaps(t *testing.T) {
	versions(t, func(t *testing.T, h *haproxy, version string) {
		values := map[string]string{
			"b/plain": "v", "b/blank": "a  b ", "b/semicolon": "a;shutdown frontend http", "b/backslash": `\\a\`,
			"b/payload": "a <<", "b/quotes": `"a' %[env(HOME)] $HOME #x {}`, "b/unicode": "é", "b/empty": "", "b/plain2": "w",
		}
		edit := plan.EditMap{Map: "values"}
		for key, value := range values {
			edit.Edits = append(edit.Edits, model.Edit{Key: key, Value: &value})
		}
		h.must(t, edit)
		h.must(t, edit)
		ctx := deadline(t, 20*time.Second)
		for key, want := range values {
			if got, found, err := h.run.mapEntry(ctx, "values", key); err != nil || !found || got != want {
				t.Errorf("%s is %q, %v, %v; want %q", key, got, found, err, want)
			}
		}
		if n, err := h.run.MapCount(ctx, "values"); err != nil || n != len(values) {
			t.Errorf("%d entries, %v", n, err)
		}
		if _, found, err := h.run.mapEntry(ctx, "values", "b/none"); err != nil || found {
			t.Errorf("found %v, %v", found, err)
		}
		for i := range edit.Edits {
			edit.Edits[i].Value = nil
		}
		h.must(t, edit)
		h.must(t, edit)
		if n, err := h.run.MapCount(ctx, "values"); err != nil || n != 0 {
			t.Errorf("%d entries, %v", n, err)
		}
		results, err := h.run.Run(ctx, []plan.Command{plan.EditMap{Map: "none", Edits: edit.Edits[:1]}})
		var unexpected *UnexpectedAnswer
		if err != nil || !errors.As(results[0].Err, &unexpected) {
			t.Errorf("errors %v, %v", err, results[0].Err)
		}
	})
}

func TestManyMapEntries(t *testing.T) {
	versions(t, func(t *testing.T, h *haproxy, version string) {
		const n = 5000
		edit := plan.EditMap{Map: "routes"}
		for i := range n {
			value := fmt.Sprintf("namespace_service-%d_8080", i)
			edit.Edits = append(edit.Edits, model.Edit{Key: fmt.Sprintf("host-%d.example#/path/", i), Value: &value})
		}
		ctx := deadline(t, 30*time.Second)
		for range 2 {
			start := time.Now()
			h.must(t, edit)
			t.Logf("%d entries took %v", n, time.Since(start))
			if got, err := h.run.MapCount(ctx, "routes"); err != nil || got != n {
				t.Errorf("%d entries, %v", got, err)
			}
			if _, err := h.run.Probe(ctx); err != nil {
				t.Error(err)
			}
		}
		if got, _, err := h.run.mapEntry(ctx, "routes", "host-4999.example#/path/"); err != nil || got != "namespace_service-4999_8080" {
			t.Errorf("%q, %v", got, err)
		}
		if _, found, err := h.run.mapEntry(ctx, "routes", "host-4999.example#/path/x"); err != nil || found {
			t.Errorf("a shorter key was taken for the one asked for: %v, %v", found, err)
		}
	})
}

func TestLists(t *testing.T) {
	versions(t, func(t *testing.T, h *haproxy, version string) {
		// Duplicates stand in the list, as another hand may have left them.
		if _, err := h.session(t).ask(request{line: "add acl lists/l.lst 1.2.3.4"}, request{line: "add acl lists/l.lst 1.2.3.4"}); err != nil {
			t.Fatal(err)
		}
		edit := plan.EditList{List: "l", Add: []string{"10.0.0.0/8", "fd00::/8", "5.6.7.8"}, Remove: []string{"1.2.3.4", "9.9.9.9"}}
		h.must(t, edit)
		h.must(t, edit)
		got, err := h.session(t).listEntries("lists/l.lst")
		if err != nil {
			t.Fatal(err)
		}
		counts := map[string]int{}
		for entry, refs := range got {
			counts[entry] = len(refs)
		}
		if diff := cmp.Diff(map[string]int{"10.0.0.0/8": 1, "fd00::/8": 1, "5.6.7.8": 1}, counts); diff != "" {
			t.Error(diff)
		}
		many := plan.EditList{List: "l"}
		for i := range 2000 {
			many.Add = append(many.Add, fmt.Sprintf("10.1.%d.%d", i/250, i%250))
		}
		h.must(t, many)
		if got, err = h.session(t).listEntries("lists/l.lst"); err != nil || len(got) != 2003 {
			t.Errorf("%d entries, %v", len(got), err)
		}
		many.Add, many.Remove = nil, many.Add
		h.must(t, many)
		if got, err = h.session(t).listEntries("lists/l.lst"); err != nil || len(got) != 3 {
			t.Errorf("%d entries, %v", len(got), err)
		}
	})
}

func TestGeneration(t *testing.T) {
	versions(t, func(t *testing.T, h *haproxy, version string) {
		ctx := deadline(t, 10*time.Second)
		for _, n := range []uint64{2, 1 << 63} {
			if err := h.run.SetGeneration(ctx, n); err != nil {
				t.Fatal(err)
			}
			if got, err := h.run.Generation(ctx); err != nil || got != n {
				t.Errorf("%d, %v", got, err)
			}
		}
		names, err := h.run.Backends(ctx)
		if err != nil || len(names) == 0 || names[0] != "b" {
			t.Errorf("%v, %v", names, err)
		}
	})
}

func TestProbe(t *testing.T) {
	versions(t, func(t *testing.T, h *haproxy, version string) {
		want := map[string]int64{"3.2": safePayload, "3.4": longPayload}[version]
		for range 2 {
			can, err := h.run.Probe(deadline(t, 10*time.Second))
			if err != nil || h.run.payload.Load() != want {
				t.Errorf("payloads of %d bytes, %v; want %d", h.run.payload.Load(), err, want)
			}
			if can.Backends != (version == "3.4") {
				t.Errorf("%+v", can)
			}
		}
		gone := NewRuntime(h.run.path+".gone", Options{})
		if _, err := gone.Probe(deadline(t, 10*time.Second)); err == nil || gone.payload.Load() != safePayload {
			t.Errorf("payloads of %d bytes, %v, without a worker", gone.payload.Load(), err)
		}
	})
}
