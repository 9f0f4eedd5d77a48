package plan

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/shard"
	"github.com/sluice-proxy/sluice/pkg/haproxy/tree"
)

// world builds registries the way the line does, with a text of its own for each shard.
type world struct {
	shards int
	t      *testing.T
}

var web = &model.Profile{Name: model.DefaultProfile}

func backend(name string, servers ...uint16) *model.Backend {
	b := &model.Backend{Name: name, Profile: web}
	for _, port := range servers {
		b.Servers = append(b.Servers, model.Server{Addr: netip.AddrPortFrom(netip.MustParseAddr("10.0.0.1"), port), Weight: 1})
	}
	return b.Seal()
}

func modelOf(global string, backends ...*model.Backend) *model.Model {
	m := &model.Model{Profiles: []*model.Profile{web}}
	m.Process.LogTargets = []string{global}
	m.Backends = m.Backends.With(backends, nil)
	return m
}

func (w world) plan(old *shard.Registry, m *model.Model) *Plan {
	layout := shard.Place(old, m, shard.Options{Shards: w.shards})
	t := &tree.Tree{}
	var profiles strings.Builder
	profiles.WriteString("defaults base\n")
	for _, p := range m.Profiles {
		fmt.Fprintf(&profiles, "defaults %s from base\n", p.Name)
	}
	t.Add(tree.NewFile(tree.ProfilesPath, tree.Profiles, []byte(profiles.String())))
	t.Add(tree.NewFile("conf.d/00-global.cfg", tree.Global, []byte(m.Process.LogTargets[0])))
	for i, record := range layout.Records {
		switch {
		case record.Path == "":
		case !record.File.IsZero():
			t.Add(tree.File{Path: record.Path, Kind: tree.Shard, Digest: record.File, Size: record.Size})
		default:
			var text strings.Builder
			for _, b := range layout.Backends(i) {
				fmt.Fprintf(&text, "%s %s\n", b.Name, b.Digest)
			}
			t.Add(tree.NewFile(record.Path, tree.Shard, []byte(text.String())))
		}
	}
	return Make(Input{Old: old, Layout: layout, Tree: t, Model: m})
}

func many(n int, except ...string) []*model.Backend {
	var list []*model.Backend
	for i := range n {
		if name := fmt.Sprintf("ns_svc-%d_80", i); !slices.Contains(except, name) {
			list = append(list, backend(name, 80))
		}
	}
	return list
}

func shardWrites(p *Plan) (paths []string) {
	for _, w := range p.Writes {
		if w.File.Kind == tree.Shard {
			paths = append(paths, w.File.Path)
		}
	}
	return paths
}

func pathOf(shards int, name string) string {
	return shard.Path(model.BucketOf(name) * shards / model.Buckets)
}

func TestShards(t *testing.T) {
	alone := "ns_alone_80" // the only backend of its shard, see the check below
	rest := slices.DeleteFunc(many(100), func(b *model.Backend) bool { return pathOf(64, b.Name) == pathOf(64, alone) })
	all := append(slices.Clone(rest), backend(alone, 80))
	w := world{64, t}
	start := w.plan(nil, modelOf("a", all...)).Next
	start.Worker.Dynamic = true
	changed := func() []*model.Backend {
		var list []*model.Backend
		for _, b := range rest {
			list = append(list, backend(b.Name, 80, 81))
		}
		return list
	}
	cases := map[string]struct {
		to       *model.Model
		writes   int  // shard files written
		removed  bool // the shard file of alone
		reload   bool
		commands int
	}{
		"the last backend of a shard goes":                               {modelOf("a", rest...), 0, true, false, 1},
		"the last backend of a shard goes together with a global change": {modelOf("b", rest...), 0, true, true, 0},
		"the last backend of a shard goes while all survivors change":    {modelOf("a", changed()...), 50, true, false, len(rest) + 1},
		"nothing changes":                                    {modelOf("a", all...), 0, false, false, 0},
		"a global change touches no shard":                   {modelOf("b", all...), 0, false, true, 0},
		"one server more is one shard file and one command":  {modelOf("a", append(slices.Clone(rest), backend(alone, 80, 81))...), 1, false, false, 1},
		"every backend goes":                                 {modelOf("a"), 0, true, false, len(all)},
		"one backend more is one shard file and one command": {modelOf("a", append(slices.Clone(all), backend("ns_new_80", 80))...), 1, false, false, 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := w.plan(start, c.to)
			if got := len(shardWrites(p)); got != c.writes && !(c.writes == 50 && got > 30) {
				t.Errorf("%d shard files written, want %d", got, c.writes)
			}
			gone := slices.ContainsFunc(p.Removals, func(r RemoveFile) bool { return r.Path == pathOf(64, alone) })
			if gone != c.removed {
				t.Errorf("the file of the emptied shard is removed: %v, want %v", gone, c.removed)
			}
			if (p.Reload != nil) != c.reload || len(p.Commands) != c.commands {
				t.Errorf("reload %v, %d commands; want %v, %d", p.Reload, len(p.Commands), c.reload, c.commands)
			}
			if left := p.Next.Tree.Len(); left != p.Tree.Len() {
				t.Errorf("the next registry has %d files, the tree %d", left, p.Tree.Len())
			}
			if again := w.plan(p.Next, c.to); !again.Empty() {
				t.Errorf("a second round is not empty: %v", again.Steps())
			}
		})
	}
}

func TestOneOfTwoBackendsOfAShardGoes(t *testing.T) {
	w := world{1, t}
	start := w.plan(nil, modelOf("a", backend("ns_a_80", 1), backend("ns_b_80", 1))).Next
	p := w.plan(start, modelOf("a", backend("ns_b_80", 1)))
	text := string(p.Writes[0].File.Content)
	if len(p.Writes) != 1 || strings.Contains(text, "ns_a") || text != fmt.Sprintf("ns_b_80 %s\n", backend("ns_b_80", 1).Digest) {
		t.Errorf("writes %v", p.Writes)
	}
	if p.Writes[0].Reason != "drops ns_a_80" {
		t.Errorf("reason %q", p.Writes[0].Reason)
	}
}

func TestAnotherNumberOfShardsIsANewGenerationWithoutReload(t *testing.T) {
	all := many(500)
	old := world{64, t}.plan(nil, modelOf("a", all...)).Next
	for _, shards := range []int{32, 128} {
		p := world{shards, t}.plan(old, modelOf("a", all...))
		if p.Reload != nil || !p.Stage || len(p.Commands) != 0 {
			t.Errorf("%d shards: reload %v, stage %v, %d commands", shards, p.Reload, p.Stage, len(p.Commands))
		}
		if p.Next.Header.Generation != old.Header.Generation+1 {
			t.Errorf("generation %d, want the next one", p.Next.Header.Generation)
		}
		for path := range p.Next.Tree.All {
			if path > shard.Path(shards-1) && strings.Contains(path, "50-backends") {
				t.Errorf("%s is left over", path)
			}
		}
		old = p.Next
	}
}

func TestServersAddBeforeTheyGo(t *testing.T) {
	w := world{1, t}
	start := w.plan(nil, modelOf("a", backend("ns_a_80", 1, 2))).Next
	to := backend("ns_a_80", 2, 3)
	to.Servers[0].State = model.Drain
	p := w.plan(start, modelOf("a", to.Seal()))
	var verbs []string
	for _, c := range p.Commands {
		verbs = append(verbs, c.Command.Verb())
	}
	if want := []string{"add server", "set server", "del server"}; !slices.Equal(verbs, want) {
		t.Errorf("commands %v, want %v", verbs, want)
	}
}

func TestStaticBackendIsReloaded(t *testing.T) {
	w := world{1, t}
	static := func(ports ...uint16) *model.Backend {
		b := backend("ns_a_80", ports...)
		b.Static = "a server has a DNS name"
		return b.Seal()
	}
	start := w.plan(nil, modelOf("a", static(1))).Next
	p := w.plan(start, modelOf("a", static(1, 2)))
	if p.Reload == nil || len(p.Commands) != 0 || !strings.Contains(p.Reload.Why(), "DNS name") {
		t.Errorf("plan %v", p.Steps())
	}
}

func TestTablesGrowLeafFirst(t *testing.T) {
	w := world{1, t}
	tables := func(entries ...model.Entry) *model.Model {
		m := modelOf("a")
		for _, name := range []string{model.TableTLS, model.TableHosts, model.TableExact, model.TablePrefix, model.TableValues} {
			m.Tables = append(m.Tables, model.NewTable(name, entries...))
		}
		return m
	}
	start := w.plan(nil, tables(model.Entry{Key: "old", Value: "1"})).Next
	p := w.plan(start, tables(model.Entry{Key: "new", Value: "2"}))
	var order []string
	for _, c := range p.Commands {
		edit := c.Command.(EditMap)
		order = append(order, fmt.Sprintf("%s %v", edit.Map, edit.Edits[0].Value != nil))
	}
	want := []string{"values true", "hosts-tls true", "routes-prefix true", "routes-exact true", "hosts true",
		"hosts false", "routes-exact false", "routes-prefix false", "hosts-tls false", "values false"}
	if !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
}

func TestNewProtectionIsForTheOldWorkerToo(t *testing.T) {
	w := world{1, t}
	with := func(shape model.Shape, host string, routes ...model.Entry) *model.Model {
		b := backend("ns_a_80_1", 1)
		b.Profile = model.NewProfile(shape)
		m := modelOf("a", backend("ns_a_80", 1), b.Seal())
		m.Tables = []*model.Table{model.NewTable(model.TablePrefix, routes...), model.NewTable(model.TableHosts, model.Entry{Key: "h", Value: host})}
		m.Profiles = append(m.Profiles, b.Profile)
		return m
	}
	open := model.Shape{Redirect: 301}
	guarded := model.Shape{Redirect: 301, BasicAuth: &model.Auth{Users: &model.Userlist{Name: "u"}}}
	root, admin := model.Entry{Key: "h#/", Value: "ns_a_80"}, model.Entry{Key: "h#/admin/", Value: "ns_a_80_1"}
	start := w.plan(nil, with(open, "ns_a_80", root)).Next
	cases := map[string]struct {
		to   *model.Model
		want string
	}{
		"a new route that protects":         {with(guarded, "g", root, admin), "h#/admin/=_denied h=g"},
		"a route that protects from now on": {with(guarded, "ns_a_80_1", model.Entry{Key: "h#/", Value: "ns_a_80_1"}), "h#/=_denied h=_denied"},
		"a new route that protects nothing": {with(open, "-", root, admin), ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.to.Process.LogTargets[0] = "b" // a reload in any case
			p := w.plan(start, c.to)
			var denied []string
			for _, command := range p.Commands {
				if edit, ok := command.Command.(EditMap); ok && strings.Contains(command.Reason, "old worker") {
					denied = append(denied, edit.Edits[0].Key+"="+*edit.Edits[0].Value)
				}
			}
			if p.Reload == nil || strings.Join(denied, " ") != c.want {
				t.Errorf("reload %v, denied %v, want %q", p.Reload, denied, c.want)
			}
		})
	}
}

// What the old worker is told of a Gateway: the same conditions and shares, and nobody behind
// what it does not protect.
func TestNewProtectionOfAGatewayIsForTheOldWorkerToo(t *testing.T) {
	w := world{1, t}
	open := model.Shape{Redirect: 301}
	guarded := model.Shape{Redirect: 301, BasicAuth: &model.Auth{Users: &model.Userlist{Name: "u"}}}
	with := func(shape model.Shape, tables map[string]string) *model.Model {
		b := backend("ns_a_80_1", 1)
		b.Profile = model.NewProfile(shape)
		m := modelOf("a", backend("ns_a_80", 1), backend("ns_b_80", 1), b.Seal())
		m.Profiles = append(m.Profiles, b.Profile)
		for _, name := range []string{model.TableListeners, model.TableRules, model.TablePrefixes, model.TableConditions, model.TableWeights} {
			var entries []model.Entry
			for entry := range strings.FieldsSeq(tables[name]) {
				key, value, _ := strings.Cut(entry, "->")
				entries = append(entries, model.Entry{Key: key, Value: value})
			}
			m.Tables = append(m.Tables, model.NewTable(name, entries...))
		}
		return m
	}
	const (
		listeners, exact, prefix = model.TableListeners, model.TableRules, model.TablePrefixes
		conditions, weights      = model.TableConditions, model.TableWeights
	)
	hosts := map[string]string{listeners: "fe#*->v", prefix: "v#/->ns_a_80", exact: "v#/free->ns_b_80"}
	plus := func(more map[string]string) map[string]string {
		all := maps.Clone(hosts)
		for name, entries := range more {
			all[name] = strings.TrimSpace(all[name] + " " + entries)
		}
		return all
	}
	start := w.plan(nil, with(open, hosts)).Next
	both := w.plan(nil, with(guarded, plus(map[string]string{exact: "v#/shut->ns_a_80_1"}))).Next
	cases := map[string]struct {
		from *shard.Registry
		to   *model.Model
		want string // in the order of the commands, ids as ID
	}{
		"an exact path":        {start, with(guarded, plus(map[string]string{exact: "v#/admin->ns_a_80_1"})), "gateway-exact v#/admin _denied"},
		"a prefix":             {start, with(guarded, plus(map[string]string{prefix: "v#/admin/->ns_a_80_1"})), "gateway-prefix v#/admin/ _denied"},
		"behind a time limit":  {start, with(guarded, plus(map[string]string{prefix: "v#/admin/->^500^ns_a_80_1"})), "gateway-prefix v#/admin/ _denied"},
		"nothing is protected": {start, with(open, plus(map[string]string{prefix: "v#/admin/->ns_a_80_1"})), ""},
		"a list": {
			start, with(guarded, plus(map[string]string{prefix: "v#/admin/->?1", conditions: "1->m=GET>ns_a_80;+2 2->m=PUT>ns_a_80_1;>ns_b_80"})),
			"conditions ID m=PUT>_denied;>ns_b_80 conditions ID m=GET>ns_a_80;+ID gateway-prefix v#/admin/ ?ID",
		},
		"a weighted set": {
			start, with(guarded, plus(map[string]string{exact: "v#/admin->=1", weights: "=1->2 =1/0->ns_a_80 =1/1->ns_a_80_1"})),
			"weights =ID/0 ns_a_80 weights =ID/1 _denied weights =ID 2 gateway-exact v#/admin =ID",
		},
		"a host of its own, with all that is in it": {
			start, with(guarded, plus(map[string]string{listeners: "fe#a->w", exact: "w#/free->ns_b_80 w#/shut->ns_a_80_1", conditions: "guard/w->g"})),
			"conditions guard/w g gateway-exact w#/shut _denied gateway-exact w#/free ns_b_80 gateway-hosts fe#a w",
		},
		"the way around is gone": {
			both, with(guarded, map[string]string{listeners: "fe#*->v", prefix: "v#/->ns_a_80_1", exact: "v#/shut->ns_a_80_1"}),
			"gateway-prefix v#/ ns_a_80_1 gateway-exact v#/free -",
		},
		"what the old worker protects as it shall": {both, with(guarded, plus(map[string]string{exact: "v#/shut->ns_a_80_1", prefix: "v#/open/->ns_b_80"})), ""},
	}
	id := regexp.MustCompile(`[0-9a-f]{16}`)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.to.Process.LogTargets[0] = "b" // a reload in any case
			p := w.plan(c.from, c.to)
			var told []string
			for _, command := range p.Commands {
				edit, ok := command.Command.(EditMap)
				if !ok || !strings.Contains(command.Reason, "old worker") {
					continue
				}
				for _, e := range edit.Edits {
					value := "-"
					if e.Value != nil {
						value = *e.Value
					}
					told = append(told, edit.Map+" "+e.Key+" "+value)
				}
			}
			if got := id.ReplaceAllString(strings.Join(told, " "), "ID"); p.Reload == nil || got != c.want {
				t.Errorf("reload %v, the old worker is told\n%s, want\n%s", p.Reload, got, c.want)
			}
		})
	}
}
