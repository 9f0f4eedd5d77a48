package files

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-proxy/sluice/pkg/haproxy/tree"
)

func TestFilesOfABatchAreCompleteBeforeTheFirstIsRenamed(t *testing.T) {
	t.Parallel()
	f := open(t, t.TempDir(), t.TempDir())
	wanted := treeOf(map[string]string{"maps/a.map": "old", "conf.d/b.cfg": "old"})
	stageAndSwap(t, f, 1, wanted, nil)
	a, b := tree.NewFile("maps/a.map", tree.Map, []byte("new")), tree.NewFile("conf.d/b.cfg", tree.Shard, []byte("new"))
	var points []string
	f.OnStep(func(point string) { points = append(points, point) })
	batch := f.Batch()
	if err := batch.WriteAll([]tree.File{a, b}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"file written", "file written", "file renamed", "file renamed"}, points); diff != "" {
		t.Error(diff)
	}
	if got, _, err := f.Scan(); err != nil || !cmp.Equal(digests(got), digests(treeOf(map[string]string{"maps/a.map": "new", "conf.d/b.cfg": "new"}))) {
		t.Errorf("the folder holds %v, %v", got.Paths(), err)
	}
}

func TestBatchThatFailsChangesNothing(t *testing.T) {
	t.Parallel()
	f := open(t, t.TempDir(), t.TempDir())
	wanted := treeOf(map[string]string{"maps/a.map": "old"})
	stageAndSwap(t, f, 1, wanted, nil)
	before := names(t, f.Dir(1))
	list := []tree.File{tree.NewFile("maps/a.map", tree.Map, []byte("new")), {Path: "conf.d/b.cfg", Kind: tree.Shard, Size: 3}}
	if err := f.Batch().WriteAll(list); err == nil {
		t.Fatal("a file without its content was written")
	}
	if now := names(t, f.Dir(1)); !slices.Equal(before, now) {
		t.Errorf("%v stands in %s, before %v", now, filepath.Base(f.Dir(1)), before)
	}
	if got, _, err := f.Scan(); err != nil || !cmp.Equal(digests(got), digests(wanted)) {
		t.Errorf("the folder holds %v, %v", got.Paths(), err)
	}
}

func digests(t *tree.Tree) map[string]string {
	list := map[string]string{}
	for path, file := range t.All {
		list[path] = file.Digest.String()
	}
	return list
}
