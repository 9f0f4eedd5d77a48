package template

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/shard"
	"github.com/sluice-proxy/sluice/pkg/haproxy/tree"
	"github.com/sluice-proxy/sluice/rootfs"
	"github.com/sluice-proxy/sluice/tests/harness"
)

// fullShape uses every rule that a profile can have.
func fullShape() model.Shape {
	list := func(name string) *model.List {
		return &model.List{Name: name, Entries: []string{"10.0.0.0/8", "::1"}}
	}
	return model.Shape{
		Balance: "hdr(X-User)", TimeoutConnect: 2 * time.Second, TimeoutQueue: 1500 * time.Millisecond,
		HTTPCheck: &model.HTTPCheck{URI: "/ready?a b"},
		Cookie:    &model.Cookie{Name: "SRV", Strategy: "insert", Keywords: []string{"indirect", "nocache", "httponly", "secure"}, Domain: "a.example", SameSite: "None"},
		AllowList: list("allow"), AllowExcept: list("allow-except"), DenyList: list("deny"), DenyExcept: list("deny-except"),
		SSLRedirect: 302, SSLPort: 8443, CORS: &model.CORS{Credentials: true, Expose: true},
		BasicAuth: &model.Auth{Realm: `say "friend" $HOME`, Users: users()},
		Redirect:  301, LimitBody: true, Rewrite: true, TimeoutServer: true, TimeoutTunnel: true,
		RequestHeaders:  []model.Header{{Op: model.SetHeader, Name: "X-A"}, {Op: model.AddHeader, Name: "X-B"}, {Op: model.DelHeader, Name: "X-C"}},
		ResponseHeaders: []model.Header{{Op: model.SetHeader, Name: "X-D"}, {Op: model.DelHeader, Name: "X-E"}},
		HSTS:            "max-age=15768000; includeSubDomains",
	}
}

func users() *model.Userlist {
	return &model.Userlist{Name: "users_1", Users: []model.User{
		{Name: "ann", Plain: true, Hash: model.NewSecret([]byte(`it's "$secret" # ok`))},
	}}
}

func testModel(backends ...*model.Backend) *model.Model {
	web := &model.Profile{Name: model.DefaultProfile, Shape: model.Shape{Balance: "leastconn", SSLRedirect: 302, HSTS: "max-age=1", TimeoutServer: true, CORS: &model.CORS{AnyOrigin: true}}}
	m := &model.Model{
		Process:   model.Process{MaxConn: 100, NbThread: 1, HardStopAfter: 10 * time.Minute, LogTargets: []string{"stdout"}, LogFormat: "raw", LogLength: 1024, LogTag: "sluice"},
		Defaults:  model.Defaults{TimeoutClient: 50 * time.Second, TimeoutClientFin: time.Second, TimeoutConnect: time.Second, TimeoutServer: time.Second, TimeoutServerFin: time.Second, TimeoutQueue: time.Second, TimeoutTunnel: time.Hour, TimeoutHTTPRequest: time.Second, TimeoutKeepAlive: time.Minute},
		Profiles:  []*model.Profile{model.NewProfile(fullShape()), web},
		Userlists: []*model.Userlist{users()},
		Frontends: []*model.Frontend{
			{Name: "http", Ingress: true, Addresses: []string{"127.0.0.1:80", "[::1]:80"}, ForwardFor: "add", AcceptProxy: true, TrustedProxies: &model.List{Name: "trusted"}},
			{Name: "other", Addresses: []string{"127.0.0.1:81"}, ForwardFor: "ifmissing", StrictHost: true, LogFormat: `%ci "%r"`},
		},
		Lists: []*model.List{{Name: "trusted", Entries: []string{"127.0.0.1"}}},
	}
	shape := m.Profiles[0].Shape
	m.Lists = append(m.Lists, shape.Lists()...)
	for _, name := range []string{model.TableTLS, model.TableHosts, model.TableWildcards, model.TableExact, model.TablePrefix, model.TableValues} {
		m.Tables = append(m.Tables, model.NewTable(name, model.Entry{Key: "a", Value: "b c"}))
	}
	for i, b := range backends {
		if b.Profile == nil {
			b.Profile = m.Profiles[i%2]
		}
		b.Seal()
	}
	m.Backends = m.Backends.With(backends, nil)
	return m
}

func server(port uint16) model.Server {
	return model.Server{Addr: netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port), Weight: 1}
}

func render(t *testing.T, m *model.Model, old *shard.Registry, shards int) *tree.Tree {
	t.Helper()
	r, err := New(rootfs.Templates())
	if err != nil {
		t.Fatal(err)
	}
	layout := shard.Place(old, m, shard.Options{Shards: shards, Templates: r.Digest()})
	tr, err := r.Render(Input{Model: m, Layout: layout, Old: old, RunDir: "/tmp"})
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func TestEveryRuleIsAccepted(t *testing.T) {
	var backends []*model.Backend
	for i := range 20 {
		backends = append(backends, &model.Backend{Name: fmt.Sprintf("shop_svc-%d_80", i), Servers: []model.Server{server(1), server(2)}})
	}
	tr := render(t, testModel(backends...), nil, 4)
	tr.Add(tree.GenerationFile(1, tr.Digest()))
	folder := t.TempDir()
	harness.WriteTree(t, folder, tr)
	for _, path := range tr.Paths() {
		if strings.HasPrefix(path, "conf.d") && testing.Verbose() {
			file, _ := tr.Lookup(path)
			t.Logf("---- %s\n%s", path, file.Bytes())
		}
	}
	harness.EachVersion(t, func(t *testing.T, binary string) { harness.Check(t, binary, folder) })
}

func TestUnchangedPartsAreNotRendered(t *testing.T) {
	a := &model.Backend{Name: "shop_a_80", Servers: []model.Server{server(1)}}
	m := testModel(a, &model.Backend{Name: "shop_b_80", Servers: []model.Server{server(1)}})
	first := render(t, m, nil, 64)
	r, _ := New(rootfs.Templates())
	layout := shard.Place(nil, m, shard.Options{Shards: 64, Templates: r.Digest()})
	for i := range layout.Records {
		file, _ := first.Lookup(layout.Records[i].Path)
		layout.Records[i].File, layout.Records[i].Size = file.Digest, file.Size
	}
	old := &shard.Registry{Header: layout.Header, Records: layout.Records, Tree: first, Served: m}

	next := *m
	changed := *a
	changed.Servers = []model.Server{server(1), server(2)}
	next.Backends = m.Backends.With([]*model.Backend{changed.Seal()}, nil)
	var rendered []string
	tr := render(t, &next, old, 64)
	for _, path := range tr.Paths() {
		if file, _ := tr.Lookup(path); file.Bytes() != nil {
			rendered = append(rendered, path)
		}
	}
	if len(rendered) != 1 || !strings.Contains(rendered[0], "50-backends") {
		t.Errorf("rendered %v, want one shard file", rendered)
	}
	if tr.Len() != first.Len() {
		t.Errorf("%d files, want %d: the tree lists the whole folder", tr.Len(), first.Len())
	}
}

func TestPasswordsOfUsersThatAreGoneDoNotStay(t *testing.T) {
	m := testModel(&model.Backend{Name: "shop_a_80", Servers: []model.Server{server(1)}})
	first := render(t, m, nil, 1)
	const path = "conf.d/15-userlists.cfg"
	if _, found := first.Lookup(path); !found {
		t.Fatal("there is no file of users")
	}
	r, _ := New(rootfs.Templates())
	layout := shard.Place(nil, m, shard.Options{Shards: 1, Templates: r.Digest()})
	next := *m
	next.Userlists = nil
	recovered := &model.Model{Backends: m.Backends} // what the files of a worker tell after a restart
	for sentence, old := range map[string]*shard.Registry{
		"while the controller runs": {Header: layout.Header, Tree: first, Served: m},
		"after a restart":           {Header: layout.Header, Tree: first, Served: recovered, Scanned: true},
		"of a recovered model":      {Header: layout.Header, Tree: first, Served: recovered},
	} {
		if _, found := render(t, &next, old, 1).Lookup(path); found {
			t.Errorf("%s the file is kept", sentence)
		}
	}
}
