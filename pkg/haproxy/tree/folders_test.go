package tree

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

func paths(files []File) []string {
	var list []string
	for _, file := range files {
		list = append(list, file.Path)
	}
	return list
}

func TestTreesShareWhatDidNotChange(t *testing.T) {
	first := &Tree{}
	first.Add(NewFile("certs/1.pem", Cert, []byte("key")), NewFile("maps/hosts.map", Map, []byte("a t\n")), NewFile("maps/x.map", Map, nil))
	bare := first.Bare()
	if file, _ := first.Lookup("certs/1.pem"); string(file.Content) != "key" {
		t.Error("Bare took the content out of the tree itself")
	}
	next := &Tree{}
	next.Take("certs", first)
	next.Add(NewFile("maps/hosts.map", Map, []byte("b t\n")))
	if file, _ := next.Lookup("certs/1.pem"); file.Content != nil || file.Digest.IsZero() {
		t.Errorf("taken over: %+v", file)
	}
	differ, gone := next.Diff(bare)
	if !slices.Equal(paths(differ), []string{"maps/hosts.map"}) || !slices.Equal(paths(gone), []string{"maps/x.map"}) {
		t.Errorf("differ %v, gone %v", differ, gone)
	}
	copied := bare.Clone()
	copied.Remove("maps/x.map")
	copied.Add(NewFile("certs/2.pem", Cert, nil))
	if bare.Len() != 3 || copied.Len() != 3 || next.Len() != 2 {
		t.Errorf("%d, %d and %d files, want 3, 3 and 2", bare.Len(), copied.Len(), next.Len())
	}
	if copied.folders["certs"] == bare.folders["certs"] || bare.Bare().folders["certs"] != bare.folders["certs"] {
		t.Error("a folder must be shared as long as it does not change, and no longer")
	}
}

func TestNoTreeHasNoFiles(t *testing.T) {
	var none *Tree
	if _, found := none.Lookup("maps/x.map"); found || none.Len() != 0 || len(none.Paths()) != 0 || none.Digest() != (&Tree{}).Digest() {
		t.Error("a nil tree has files")
	}
	differ, gone := none.Diff(none.Clone())
	if len(differ)+len(gone) != 0 {
		t.Error("a nil tree differs from an empty one")
	}
}

// Whatever is done to a tree, it is the tree that is built anew of its files.
func TestTreeIsWhatItsFilesAre(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr, want := &Tree{}, map[string]File{}
		path := rapid.SampledFrom([]string{"maps/a.map", "maps/b.map", "conf.d/a.cfg", "certs/a.pem", GenerationPath})
		for range rapid.IntRange(0, 20).Draw(t, "steps") {
			before, digest := tr, tr.Digest()
			tr = tr.Clone()
			switch p := path.Draw(t, "path"); rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				tr.Remove(p)
				delete(want, p)
			case 1:
				tr = tr.Bare()
				for p, file := range want {
					file.Content = nil
					want[p] = file
				}
			default:
				file := NewFile(p, Map, rapid.SliceOfN(rapid.Byte(), 0, 2).Draw(t, "content"))
				tr.Add(file)
				want[p] = file
			}
			if before.Digest() != digest {
				t.Fatal("a tree changed through another one")
			}
		}
		anew := &Tree{}
		for _, p := range slices.Sorted(maps.Keys(want)) {
			anew.Add(want[p])
		}
		differ, gone := tr.Diff(anew)
		if !slices.Equal(tr.Paths(), slices.Sorted(maps.Keys(want))) || tr.Digest() != anew.Digest() || len(differ)+len(gone) > 0 {
			t.Fatalf("%v, want %v", tr.Paths(), want)
		}
	})
}

func TestDigestTellsContentsAndPathsApart(t *testing.T) {
	seen := map[model.Digest]string{}
	for name, files := range map[string][]File{
		"nothing":                            nil,
		"a file":                             {NewFile("maps/a.map", Map, []byte("x"))},
		"another content":                    {NewFile("maps/a.map", Map, []byte("y"))},
		"another path":                       {NewFile("maps/b.map", Map, []byte("x"))},
		"contents swapped between two files": {NewFile("maps/a.map", Map, []byte("y")), NewFile("maps/b.map", Map, []byte("x"))},
		"two files":                          {NewFile("maps/a.map", Map, []byte("x")), NewFile("maps/b.map", Map, []byte("y"))},
	} {
		tr := &Tree{}
		tr.Add(files...)
		if other, found := seen[tr.Digest()]; found {
			t.Errorf("%q and %q have one digest", name, other)
		}
		seen[tr.Digest()] = name
		tr.Add(NewFile(GenerationPath, Generation, []byte(name)))
		if seen[tr.Digest()] != name {
			t.Errorf("%s: the number of the batch counts", name)
		}
	}
}
