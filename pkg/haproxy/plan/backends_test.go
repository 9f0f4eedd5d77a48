package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/shard"
)

// of gives a backend another profile.
func of(profile *model.Profile, b *model.Backend) *model.Backend {
	b.Profile = profile
	return b.Seal()
}

func static(b *model.Backend) *model.Backend {
	b.Static = "a server has a DNS name"
	return b.Seal()
}

// with is a model with a profile more.
func with(profile *model.Profile, m *model.Model) *model.Model {
	m.Profiles = append(slices.Clone(m.Profiles), profile)
	return m
}

func described(p *Plan) []string {
	var list []string
	for _, c := range p.Commands {
		list = append(list, Describe(c.Command)+": "+c.Reason)
	}
	return list
}

func TestBackendsAtRunTime(t *testing.T) {
	w := world{1, t}
	slow := model.NewProfile(model.Shape{Balance: "leastconn"})
	a, b := backend("ns_a_80", 1), backend("ns_b_80", 1)
	cases := map[string]struct {
		from, to *model.Model
		old      bool // the worker can't do it
		want     string
		reload   string
	}{
		"one that comes": {from: modelOf("a", a), to: modelOf("a", a, b),
			want: "add backend ns_b_80 at run time: new backend; its profile web is loaded"},
		"one that goes": {from: modelOf("a", a, b), to: modelOf("a", a),
			want: "remove backend ns_b_80 at run time: backend gone"},
		"one in place of another": {from: modelOf("a", a), to: modelOf("a", b),
			want: "add backend ns_b_80 at run time: new backend; its profile web is loaded; remove backend ns_a_80 at run time: backend gone"},
		"one whose profile is new": {from: modelOf("a", a), to: with(slow, modelOf("a", a, of(slow, backend("ns_b_80_1", 1)))),
			reload: "new profile: " + slow.Name},
		"the last one of its profile": {from: with(slow, modelOf("a", a, of(slow, backend("ns_b_80_1", 1)))), to: modelOf("a", a),
			want: "remove backend ns_b_80_1 at run time: backend gone"},
		"one with a DNS name": {from: modelOf("a", a), to: modelOf("a", a, static(backend("ns_c_80", 1))),
			reload: "new backend: ns_c_80: a server has a DNS name"},
		"one with a DNS name goes": {from: modelOf("a", a, static(backend("ns_c_80", 1))), to: modelOf("a", a),
			reload: "backend gone: ns_c_80: a server has a DNS name"},
		"one whose profile is not loaded, whyever": {from: modelOf("a", a), to: modelOf("a", a, of(slow, backend("ns_b_80_1", 1))),
			reload: "new backend: ns_b_80_1: " + notLoaded},
		"another global section, too": {from: modelOf("a", a), to: modelOf("b", a, b), reload: "settings changed: conf.d/00-global.cfg"},
		"a HAProxy that adds none": {from: modelOf("a", a), to: modelOf("a", b), old: true,
			reload: "new backend: ns_b_80: " + notDynamic + "; backend gone: ns_a_80: " + notDynamic},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			start := w.plan(nil, c.from).Next
			start.Worker.Dynamic = !c.old
			p := w.plan(start, c.to)
			reload := ""
			if p.Reload != nil {
				reload = strings.Join(p.Reload.Reasons, "; ")
			}
			if got := strings.Join(described(p), "; "); got != c.want || reload != c.reload {
				t.Errorf("commands %q, want %q; reload %q, want %q", got, c.want, reload, c.reload)
			}
		})
	}
}

// A profile stays loaded when its last backend is gone, until a reload.
func TestProfilesThatTheWorkerHasLoaded(t *testing.T) {
	w := world{1, t}
	slow := model.NewProfile(model.Shape{Balance: "leastconn"})
	a := backend("ns_a_80", 1)
	both := func(global string) *model.Model {
		return with(slow, modelOf(global, a, of(slow, backend("ns_b_80_1", 1))))
	}
	reg := w.plan(nil, both("a")).Next
	reg.Worker.Dynamic = true
	for i, c := range []struct {
		to     *model.Model
		reload bool
	}{
		{modelOf("a", a), false}, {both("a"), false}, {modelOf("a", a), false},
		{modelOf("b", a), true}, {both("b"), true}, {modelOf("b", a), false}, {both("b"), false},
	} {
		p := w.plan(reg, c.to)
		if (p.Reload != nil) != c.reload {
			t.Errorf("step %d: reload %v", i, p.Reload)
		}
		reg = p.Next
	}
}

// No prefix of the writes may hold a backend without its profile.
func TestProfilesComeBeforeTheirBackendsAndLeaveBehindThem(t *testing.T) {
	w := world{1, t}
	slow, first := model.NewProfile(model.Shape{Balance: "leastconn"}), model.NewProfile(model.Shape{Balance: "first"})
	a := backend("ns_a_80", 1)
	slows := func() *model.Model { return with(slow, modelOf("a", a, of(slow, backend("ns_b_80_1", 1)))) }
	firsts := func() *model.Model { return with(first, modelOf("a", a, of(first, backend("ns_b_80_2", 1)))) }
	all := with(first, with(slow, modelOf("a", a, of(slow, backend("ns_b_80_1", 1)), of(first, backend("ns_b_80_2", 1)))))
	reg := w.plan(nil, all).Next
	reg.Worker.Dynamic = true
	for _, c := range []struct {
		sentence string
		to       *model.Model
		want     string
		stage    bool
	}{
		{"one leaves", slows(), "shard profiles", false},
		{"one leaves, another one comes", firsts(), "profiles shard", true},
		{"all leave", modelOf("a", a), "shard profiles", false},
		{"one comes", slows(), "profiles shard", false},
	} {
		p := w.plan(reg, c.to)
		var kinds []string
		for _, write := range p.Writes {
			kinds = append(kinds, string(write.File.Kind))
		}
		if got := strings.Join(kinds, " "); p.Reload != nil || p.Stage != c.stage || got != c.want && !c.stage {
			t.Errorf("%s: reload %v, stage %v, writes %s", c.sentence, p.Reload, p.Stage, got)
		}
		reg = p.Next
	}
}

// A list that comes back may have other entries than when its profile was last used. The
// worker is told before the backend that refers to it is there.
func TestListOfAProfileThatComesBack(t *testing.T) {
	w := world{1, t}
	list := func(entries ...string) *model.List { return &model.List{Name: "ns_a", Entries: entries} }
	profile := model.NewProfile(model.Shape{AllowList: list()})
	guarded := func(l *model.List) *model.Model {
		m := with(profile, modelOf("a", of(profile, backend("ns_a_80_1", 1))))
		m.Lists = []*model.List{l}
		return m
	}
	reg := w.plan(nil, guarded(list("10.0.0.0/8", "::1"))).Next
	reg.Worker.Dynamic = true
	for range 2 {
		gone := w.plan(reg, modelOf("a", backend("ns_x_80", 1)))
		reg = w.plan(gone.Next, modelOf("a", backend("ns_x_80", 1), backend("ns_y_80", 1))).Next
	}
	p := w.plan(reg, guarded(list("::1", "fd00::/8")))
	if p.Reload != nil || len(p.Commands) < 2 {
		t.Fatalf("%v", p.Steps())
	}
	edit, ok := p.Commands[0].Command.(EditList)
	if !ok || fmt.Sprint(edit) != "{ns_a [fd00::/8] [10.0.0.0/8]}" {
		t.Errorf("first %v", Describe(p.Commands[0].Command))
	}
	if len(p.Next.Worker.Lists) != 0 {
		t.Errorf("left %v", p.Next.Worker.Lists)
	}
	// One that the worker was never told of is no protection there.
	reg.Worker.Lists = nil
	if p := w.plan(reg, guarded(list("::1"))); p.Reload == nil || p.Reload.Why() != "new list: ns_a" {
		t.Errorf("%v", p.Steps())
	}
}

func TestLeafFirst(t *testing.T) {
	w := world{1, t}
	tables := func(m *model.Model, value string) *model.Model {
		m.Tables = []*model.Table{model.NewTable(model.TablePrefix, model.Entry{Key: "h#/", Value: value})}
		return m
	}
	a, b := backend("ns_a_80", 1), backend("ns_b_80_1", 1)
	b.Options = model.ServerOptions{SSL: true, Verify: true, CAFile: "ca.pem"}
	to := tables(modelOf("a", backend("ns_x_80", 1, 2), b.Seal()), "ns_b_80_1")
	to.CAFiles = []*model.Certificate{{Name: "ca.pem"}}
	to.Certificates = []*model.Certificate{{Name: "client.pem"}}
	start := w.plan(nil, tables(modelOf("a", a, backend("ns_x_80", 1)), "ns_a_80")).Next
	start.Worker = shard.Worker{Dynamic: true, Sections: start.Worker.Sections}
	p := w.plan(start, to)
	var verbs []string
	for _, c := range p.Commands {
		verbs = append(verbs, c.Command.Verb())
	}
	want := []string{"add server", "add ssl cert", "add ssl ca-file", "add backend", "edit map", "del backend"}
	if p.Reload != nil || !slices.Equal(verbs, want) {
		t.Errorf("reload %v, commands %v, want %v", p.Reload, verbs, want)
	}
}
