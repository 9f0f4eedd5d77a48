package apply

import (
	"bytes"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/plan"
	"github.com/sluice-proxy/sluice/pkg/haproxy/serverline"
	"github.com/sluice-proxy/sluice/pkg/haproxy/shard"
	"github.com/sluice-proxy/sluice/pkg/haproxy/tree"
)

// The models of the tests follow one another as those of the real line do: parts that do
// not change are the same pointers.

func emptyModel() *model.Model {
	m := &model.Model{Profiles: []*model.Profile{{Name: model.DefaultProfile}}}
	m.Process.MaxConn = 100
	m.Defaults.TimeoutClient = 5 * time.Second
	for _, name := range []string{model.TableTLS, model.TableHosts, model.TableWildcards, model.TableExact, model.TablePrefix, model.TableValues} {
		m.Tables = append(m.Tables, &model.Table{Name: name})
	}
	slices.SortFunc(m.Tables, func(a, b *model.Table) int { return strings.Compare(a.Name, b.Name) })
	return m
}

// other sets a backend of another profile, which it adds.
func other(m *model.Model, backend string, port int) *model.Model {
	m = withProfile(servers(m, backend, port))
	b := *m.Backends.Lookup(backend)
	b.Profile = m.Profiles[len(m.Profiles)-1]
	m.Backends = m.Backends.With([]*model.Backend{b.Seal()}, nil)
	return m
}

// withProfile adds a profile that no backend uses.
func withProfile(m *model.Model) *model.Model {
	next := *m
	next.Profiles = append(slices.Clone(m.Profiles), &model.Profile{Name: "p_1"})
	return &next
}

func withMaxConn(m *model.Model, n int) *model.Model {
	next := *m
	next.Process.MaxConn = n
	return &next
}

// servers sets a backend to ready servers 127.0.0.1:PORT; no ports: the backend goes.
func servers(m *model.Model, backend string, ports ...int) *model.Model {
	next := *m
	if ports == nil {
		next.Backends = m.Backends.With(nil, []string{backend})
		return &next
	}
	b := &model.Backend{Name: backend, Profile: m.Profiles[0]}
	for _, port := range ports {
		addr := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(port))
		b.Servers = append(b.Servers, model.Server{Addr: addr, Weight: 1})
	}
	slices.SortFunc(b.Servers, model.CompareServers)
	next.Backends = m.Backends.With([]*model.Backend{b.Seal()}, nil)
	return &next
}

// entry sets an entry of a table; an empty value takes it out.
func entry(m *model.Model, table, key, value string) *model.Model {
	edit := model.Edit{Key: key}
	if value != "" {
		edit.Value = &value
	}
	next := *m
	next.Tables = slices.Clone(m.Tables)
	for i := range next.Tables {
		if next.Tables[i].Name == table {
			next.Tables[i] = next.Tables[i].With([]model.Edit{edit})
		}
	}
	return &next
}

func route(m *model.Model, host, backend string) *model.Model {
	return entry(m, model.TableExact, host+"#/", backend)
}

// renderer renders a model in the way of the real one, in a few lines.
type renderer struct {
	runDir  string
	address string // of the frontend; empty: a unix socket in runDir
	shards  int
}

func (r renderer) plan(reg *shard.Registry, m *model.Model) *plan.Plan {
	layout := shard.Place(reg, m, shard.Options{Shards: r.shards, Templates: model.DigestOf([]byte("test"))})
	return plan.Make(plan.Input{Old: reg, Layout: layout, Tree: r.render(reg, layout, m), Model: m})
}

func (r renderer) render(reg *shard.Registry, layout shard.Layout, m *model.Model) *tree.Tree {
	t := &tree.Tree{}
	keep := func(path string, same bool) bool {
		if !same || reg.Tree == nil || reg.Scanned {
			return false
		}
		file, found := reg.Tree.Lookup(path)
		if found {
			t.Add(file)
		}
		return found
	}
	if !keep("conf.d/00-global.cfg", reg.Served != nil && reg.Served.Process.Equal(m.Process)) {
		t.Add(tree.NewFile("conf.d/00-global.cfg", tree.Global, r.global(m)))
	}
	if !keep("conf.d/10-profiles.cfg", reg.Served != nil && slices.Equal(reg.Served.Profiles, m.Profiles)) {
		t.Add(tree.NewFile("conf.d/10-profiles.cfg", tree.Profiles, profiles(m)))
	}
	t.Add(tree.NewFile("conf.d/20-frontends.cfg", tree.Frontends, r.frontends()))
	for i, record := range layout.Records {
		switch {
		case record.Path == "":
		case !record.File.IsZero():
			t.Add(tree.File{Path: record.Path, Kind: tree.Shard, Digest: record.File, Size: record.Size})
		default:
			t.Add(tree.NewFile(record.Path, tree.Shard, backends(layout.Backends(i))))
		}
	}
	for _, table := range m.Tables {
		path := "maps/" + table.Name + ".map"
		if !keep(path, reg.Served != nil && slices.Contains(reg.Served.Tables, table)) {
			t.Add(tree.NewFile(path, tree.Map, entries(table)))
		}
	}
	return t
}

func (r renderer) global(m *model.Model) []byte {
	text := fmt.Sprintf("global\n    default-path parent\n    stats socket %s mode 600 level admin\n    maxconn %d\n    hard-stop-after 1s\n",
		path.Join(r.runDir, "haproxy.sock"), m.Process.MaxConn)
	if m.Process.MaxConn < 0 {
		text += "    no-such-keyword\n" // what HAProxy refuses
	}
	return []byte(text)
}

func profiles(m *model.Model) []byte {
	var b bytes.Buffer
	b.WriteString("defaults base\n    mode http\n    timeout client 5s\n    timeout server 5s\n    timeout connect 1s\n")
	for _, p := range m.Profiles {
		fmt.Fprintf(&b, "defaults %s from base\n", p.Name)
	}
	return b.Bytes()
}

func (r renderer) frontends() []byte {
	bind := r.address
	if bind == "" {
		bind = "unix@" + path.Join(r.runDir, "http.sock")
	}
	return []byte("frontend http from base\n    bind " + bind + "\n" +
		"    http-request set-var(txn.generation) str(generation),map_str(maps/sluice.map)\n" +
		"    http-request set-var(txn.values) path,map_str(maps/values.map)\n" +
		"    http-request set-var(txn.tls) path,map_str(maps/hosts-tls.map)\n" +
		"    http-request set-var(txn.hosts) path,map_str(maps/hosts.map)\n" +
		"    http-request set-var(txn.wildcards) path,map_str(maps/hosts-wildcard.map)\n" +
		"    http-request set-var(txn.prefix) path,map_str(maps/routes-prefix.map)\n" +
		"    use_backend %[req.hdr(host),concat(\"#/\"),map_str(maps/routes-exact.map)]\n")
}

func backends(list []*model.Backend) []byte {
	var text []byte
	for _, b := range list {
		text = append(text, "backend "+b.Name+" from "+b.Profile.Name+"\n"...)
		for i := range b.Servers {
			text = append(text, "    "...)
			text = bytes.TrimRight(serverline.Append(text, &b.Servers[i], serverline.Options(b.Options)), "\n")
			text = append(text, '\n')
		}
	}
	return text
}

func entries(t *model.Table) []byte {
	var b bytes.Buffer
	for e := range t.All {
		fmt.Fprintf(&b, "%s %s\n", e.Key, e.Value)
	}
	return b.Bytes()
}

// state is what a worker serves, in the form that the tests compare.
type state struct {
	Global   string
	Backends map[string]map[string]string // backend -> server -> administrative state
	Maps     map[string]map[string]string // without maps/sluice.map
}

// stateOf is what a worker serves that serves m.
func (r renderer) stateOf(m *model.Model) state {
	s := state{Global: string(r.global(m)), Backends: map[string]map[string]string{}, Maps: map[string]map[string]string{}}
	for b := range m.Backends.All {
		s.Backends[b.Name] = map[string]string{}
		for i := range b.Servers {
			s.Backends[b.Name][b.Servers[i].Name()] = b.Servers[i].State.String()
		}
	}
	for _, t := range m.Tables {
		s.Maps[t.Name] = map[string]string{}
		for e := range t.All {
			s.Maps[t.Name][e.Key] = e.Value
		}
	}
	return s
}
