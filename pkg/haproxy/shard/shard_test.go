package shard

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/tree"
)

func modelWith(n int) *model.Model {
	var list []*model.Backend
	for i := range n {
		list = append(list, (&model.Backend{Name: fmt.Sprintf("ns_svc-%d_80", i), Profile: &model.Profile{Name: "web"}}).Seal())
	}
	m := &model.Model{}
	m.Backends = m.Backends.With(list, nil)
	return m
}

func TestNumberOfShards(t *testing.T) {
	cases := map[string]struct{ old, backends, wanted, want int }{
		"a start without backends has one":         {0, 0, 0, 1},
		"a start fills them by half":               {0, 10_000, 0, 128},
		"it grows above 200 a shard":               {64, 12_801, 0, 128},
		"it stays between the bounds":              {64, 12_800, 0, 64},
		"it stays at 25 a shard":                   {64, 1_600, 0, 64},
		"it shrinks below 25 a shard":              {64, 1_599, 0, 32},
		"it shrinks to one":                        {64, 0, 0, 1},
		"the user's number counts":                 {64, 10, 7, 7},
		"there are no more than buckets":           {64, 10, 5000, 1024},
		"a million backends have a shard a bucket": {0, 1_000_000, 0, 1024},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := count(c.old, c.backends, c.wanted); got != c.want {
				t.Errorf("%d shards, want %d", got, c.want)
			}
		})
	}
}

func TestEveryBackendIsInOneShard(t *testing.T) {
	m := modelWith(1000)
	for _, shards := range []int{1, 2, 7, 64, 1000, 1024} {
		layout := Place(nil, m, Options{Shards: shards})
		seen := map[string]int{}
		for i := range layout.Records {
			for _, b := range layout.Backends(i) {
				seen[b.Name]++
			}
		}
		if len(seen) != 1000 {
			t.Errorf("%d shards hold %d backends, want 1000", shards, len(seen))
		}
		for name, n := range seen {
			if n != 1 {
				t.Errorf("%s is in %d of %d shards", name, n, shards)
			}
		}
	}
}

func TestDoublingMovesOnlyIntoNeighbours(t *testing.T) {
	m := modelWith(1000)
	where := func(shards int) map[string]int {
		layout, place := Place(nil, m, Options{Shards: shards}), map[string]int{}
		for i := range layout.Records {
			for _, b := range layout.Backends(i) {
				place[b.Name] = i
			}
		}
		return place
	}
	small, large := where(32), where(64)
	for name, i := range large {
		if small[name] != i/2 {
			t.Errorf("%s moves from shard %d to %d", name, small[name], i)
		}
	}
}

// A controller that was killed before it saved a record leaves one of a shard that is
// empty by now, in the files that were read at the start and in what is wanted.
func TestRecordOfAShardThatIsEmptyByNowIsNotKept(t *testing.T) {
	old := Place(nil, modelWith(3), Options{Shards: 1})
	layout := Place(&Registry{Header: old.Header, Records: old.Records, Served: &model.Model{}}, modelWith(0), Options{Shards: 1})
	if diff := cmp.Diff([]Record{{}}, layout.Records); diff != "" {
		t.Error(diff)
	}
}

func TestShardThatIsNotAsItWasWrittenIsRendered(t *testing.T) {
	m := modelWith(3)
	first := Place(nil, m, Options{Shards: 1})
	file := tree.NewFile(Path(0), tree.Shard, []byte("backend b\n"))
	first.Records[0].File, first.Records[0].Size = file.Digest, file.Size
	edited := tree.NewFile(Path(0), tree.Shard, []byte("backend c\n"))
	for sentence, c := range map[string]struct {
		files   []tree.File
		scanned bool
		renders bool
	}{
		"the tree is what was written":    {[]tree.File{file}, false, false},
		"the disk holds what was written": {[]tree.File{file}, true, false},
		"the file was edited":             {[]tree.File{edited}, true, true},
		"the file is gone":                {nil, true, true},
	} {
		t.Run(sentence, func(t *testing.T) {
			old := &Registry{Header: first.Header, Records: first.Records, Served: m, Tree: &tree.Tree{}, Scanned: c.scanned}
			old.Tree.Add(c.files...)
			if renders := Place(old, m, Options{Shards: 1}).Records[0].File.IsZero(); renders != c.renders {
				t.Errorf("it is rendered: %v", renders)
			}
		})
	}
}

func TestRegistryIsReadBack(t *testing.T) {
	layout := Place(nil, modelWith(3), Options{Shards: 1})
	record, err := DecodeRecord(layout.Records[0].Encode())
	if diff := cmp.Diff(layout.Records[0], record); diff != "" || err != nil {
		t.Error(diff, err)
	}
	header := Header{Version: Version, Shards: 4, Generation: 7, BootID: "b", PID: 9}
	back, err := DecodeHeader(header.Encode())
	if diff := cmp.Diff(header, back); diff != "" || err != nil {
		t.Error(diff, err)
	}
	for _, damaged := range []string{"", "{", `{"version":99}`} {
		if _, err := DecodeHeader([]byte(damaged)); err == nil {
			t.Errorf("header %q was read", damaged)
		}
	}
}

func TestRecover(t *testing.T) {
	m, err := Recover(map[string][]byte{
		"conf.d/50-backends-000.cfg": []byte("backend ns_a_80 from web\n    server 10.0.0.1:80 10.0.0.1:80 weight 1 ssl verify none disabled\n\nbackend ns_b_80 from p_1\n"),
		"conf.d/10-profiles.cfg":     []byte("defaults base-backend\n    mode http\n\ndefaults p_1 from base-backend\n"),
		"maps/hosts.map":             []byte("a.example t\nb.example -\n"),
		"maps/sluice.map":            []byte("generation 7\n"),
		"lists/x.lst":                []byte("10.0.0.0/8\n"),
		"crt-lists/https.list":       []byte("certs/d.pem\ncerts/1.pem a.example b.example\n"),
		"certs/1.pem":                nil,
	})
	if err != nil {
		t.Fatal(err)
	}
	a := m.Backends.Lookup("ns_a_80")
	if a == nil || len(a.Servers) != 1 || a.Servers[0].State != model.Maint || m.Backends.Len() != 2 {
		t.Errorf("backends: %+v", a)
	}
	want := []*model.Table{model.NewTable("hosts", model.Entry{Key: "a.example", Value: "t"}, model.Entry{Key: "b.example", Value: "-"})}
	if diff := cmp.Diff(want, m.Tables, cmp.Transformer("text", (*model.Table).Text)); diff != "" {
		t.Error(diff)
	}
	if len(m.CrtList) != 2 || len(m.CrtList[1].Hosts) != 2 || m.Profiles[0].Name != "p_1" || m.Lists[0].Name != "x" {
		t.Errorf("%+v", m)
	}
	if _, err := Recover(map[string][]byte{"conf.d/50-backends-000.cfg": []byte("server x\n")}); err == nil {
		t.Error("a file that sluice did not write was recovered")
	}
}
