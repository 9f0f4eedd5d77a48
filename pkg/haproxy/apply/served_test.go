package apply

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/plan"
	"github.com/sluice-proxy/sluice/pkg/haproxy/shard"
)

func TestToldFollowsThePlan(t *testing.T) {
	t.Parallel()
	from := base()
	for sentence, to := range map[string]*model.Model{
		"servers come and go": servers(servers(from, "a_x_80", 1002, 1003), "a_y_80", []int{}...),
		"entries come and go": route(route(from, "x.example", ""), "y.example", "b_z_80"),
		"a server drains": func() *model.Model {
			next := servers(from, "a_x_80", 1001, 1002)
			b := *next.Backends.Lookup("a_x_80")
			b.Servers = append([]model.Server(nil), b.Servers...)
			b.Servers[0].State, b.Servers[1].Weight = model.Maint, 7
			next.Backends = next.Backends.With([]*model.Backend{b.Seal()}, nil)
			return next
		}(),
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			r := renderer{shards: 4}
			reg := r.plan(&shard.Registry{}, from).Next
			p := r.plan(reg, to)
			if p.Reload != nil || len(p.Commands) == 0 {
				t.Fatalf("plan %+v", p)
			}
			served := from
			for _, c := range p.Commands {
				served = told(served, to, c.Command)
			}
			if diff := cmp.Diff(r.stateOf(to), r.stateOf(served)); diff != "" {
				t.Error(diff)
			}
			for i := range model.Buckets {
				if a, b := to.Backends.Bucket(i), served.Backends.Bucket(i); a != b && (a == nil || b == nil || a.Digest != b.Digest) {
					t.Errorf("bucket %d has another digest", i)
				}
			}
			if diff := cmp.Diff(r.stateOf(from), r.stateOf(base())); diff != "" {
				t.Error("the model before was changed")
			}
		})
	}
}

func TestToldOfCertificatesAndLists(t *testing.T) {
	t.Parallel()
	own, ca := &model.Certificate{Name: "own.pem"}, &model.Certificate{Name: "ca.pem"}
	line := model.CrtLine{Certificate: "new.pem", Hosts: []string{"a", "b"}}
	m := &model.Model{
		Certificates: []*model.Certificate{own},
		CrtList:      []model.CrtLine{{Certificate: "own.pem"}},
		Lists:        []*model.List{{Name: "l", Entries: []string{"1.0.0.0/8", "3.0.0.0/8"}}},
	}
	wanted := &model.Model{CAFiles: []*model.Certificate{ca}}
	after := m
	for _, c := range []plan.Command{
		plan.AddCertificate{Certificate: &model.Certificate{Name: "new.pem"}},
		plan.AddCertificate{Certificate: ca},
		plan.AddCertificate{Certificate: ca},
		plan.AddCrtLine{Line: line},
		plan.EditList{List: "l", Add: []string{"2.0.0.0/8"}, Remove: []string{"3.0.0.0/8"}},
	} {
		after = told(after, wanted, c)
	}
	if len(after.Certificates) != 2 || len(after.CAFiles) != 1 || len(after.CrtList) != 2 {
		t.Errorf("certificates %v, %v, lines %v", after.Certificates, after.CAFiles, after.CrtList)
	}
	if diff := cmp.Diff([]string{"1.0.0.0/8", "2.0.0.0/8"}, after.Lists[0].Entries); diff != "" {
		t.Error(diff)
	}
	for _, c := range []plan.Command{plan.DelCrtLine{Line: line}, plan.DelCertificate{Name: "new.pem"}, plan.DelCertificate{Name: "ca.pem"}} {
		after = told(after, wanted, c)
	}
	if len(after.Certificates) != 1 || len(after.CAFiles) != 0 || len(after.CrtList) != 1 || len(m.Lists[0].Entries) != 2 {
		t.Errorf("then certificates %v, %v, lines %v, before %v", after.Certificates, after.CAFiles, after.CrtList, m.Lists[0].Entries)
	}
	if told(nil, wanted, plan.DelCertificate{}) != nil || told(m, wanted, plan.EditList{List: "unknown"}) != nil {
		t.Error("what is not known must not become known")
	}
}
