package files

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/shard"
	"github.com/sluice-proxy/sluice/pkg/haproxy/tree"
)

func open(t *testing.T, config, state string) *Folder {
	t.Helper()
	f, err := Open(config, state)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			name, _ := filepath.Rel(dir, path)
			list = append(list, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// treeOf is a tree of texts; those below certs/ are secrets.
func treeOf(texts map[string]string) *tree.Tree {
	t := &tree.Tree{}
	for path, text := range texts {
		if kind := tree.KindOf(path); kind == tree.Cert {
			t.Add(tree.NewSecretFile(path, kind, model.NewSecret([]byte(text))))
		} else {
			t.Add(tree.NewFile(path, kind, []byte(text)))
		}
	}
	return t
}

// withoutContent is the tree as a plan gives it for files that did not change.
func withoutContent(t *tree.Tree) *tree.Tree {
	return t.Bare()
}

func filesOf(t *tree.Tree) map[string]tree.File { return maps.Collect(t.All) }

func stageAndSwap(t *testing.T, f *Folder, n int, wanted, standing *tree.Tree) map[tree.Kind]int {
	t.Helper()
	written, err := f.Stage(n, wanted, standing)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Swap(n); err != nil {
		t.Fatal(err)
	}
	return written
}

// Write replaces one file of the current generation.
func (f *Folder) Write(file tree.File) error {
	b := f.Batch()
	if err := b.Write(file); err != nil {
		return err
	}
	return b.Sync()
}

// Remove removes one file of the current generation.
func (f *Folder) Remove(path string) error {
	b := f.Batch()
	if err := b.Remove(path); err != nil {
		return err
	}
	return b.Sync()
}

func TestOpen(t *testing.T) {
	for sentence, c := range map[string]struct {
		before map[string]string // files of the configuration folder; "" is a folder
		fails  string            // part of the error
		after  []string
	}{
		"an empty folder gets the marker": {after: []string{".sluice"}},
		"a folder with somebody's files is refused and left alone": {
			before: map[string]string{"haproxy.cfg": "global\n"},
			fails:  "give an empty or new folder as --config-dir",
			after:  []string{"haproxy.cfg"},
		},
		"a marker that was not complete when the process died is no obstacle": {
			before: map[string]string{"..sluice.tmp": ""},
			after:  []string{".sluice"},
		},
		"a folder of another layout is refused": {
			before: map[string]string{".sluice": "2\n"},
			fails:  "start the version that wrote it",
			after:  []string{".sluice"},
		},
		"generations but the current one and the last good one are removed, and so are temporary files": {
			before: map[string]string{
				".sluice": "1\n", "current": "gen-4", ".current.tmp": "", "gen-1/a": "", "gen-3/a": "", "gen-5/a": "",
				"gen-4/conf.d/00-global.cfg": "global\n", "gen-4/maps/.x.map.tmp": "half", "gen-4/other/.y.tmp": "half",
			},
			after: []string{".sluice", "current", "gen-3/a", "gen-4/conf.d/00-global.cfg"},
		},
		"a link that leads nowhere is removed": {
			before: map[string]string{".sluice": "1\n", "current": "gen-4", "gen-3/a": ""},
			after:  []string{".sluice"},
		},
		"a link out of the folder is not followed": {
			before: map[string]string{".sluice": "1\n", "current": "../elsewhere"},
			after:  []string{".sluice"},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			config := filepath.Join(t.TempDir(), "config")
			for name, text := range c.before {
				path := filepath.Join(config, name)
				if name == "current" {
					if err := errors.Join(os.MkdirAll(config, 0o755), os.Symlink(text, path)); err != nil {
						t.Fatal(err)
					}
					continue
				}
				put(t, path, text)
			}
			f, err := Open(config, t.TempDir())
			if err == nil {
				defer f.Close()
			}
			if (err != nil) != (c.fails != "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Fatalf("error %v, want %q", err, c.fails)
			}
			if diff := cmp.Diff(c.after, names(t, config)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSecondProcessIsRefused(t *testing.T) {
	config, state := t.TempDir(), t.TempDir()
	f := open(t, config, state)
	if _, err := Open(config, state); err == nil || !strings.Contains(err.Error(), "is in use") {
		t.Fatalf("a second Open gave %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, config, state)
}

func TestStageLinksWhatStands(t *testing.T) {
	config := t.TempDir()
	f := open(t, config, t.TempDir())
	first := treeOf(map[string]string{
		"conf.d/00-global.cfg": "global\n", "maps/hosts.map": "a t\n", "certs/1.pem": "key", "lists/empty.lst": "",
	})
	if diff := cmp.Diff(map[tree.Kind]int{tree.Global: 1, tree.Map: 1, tree.Cert: 1, tree.List: 1}, stageAndSwap(t, f, 1, first, nil)); diff != "" {
		t.Error(diff)
	}
	second := withoutContent(first)
	second.Add(tree.NewFile("maps/hosts.map", tree.Map, []byte("b t\n")))
	second.Remove("lists/empty.lst")
	if diff := cmp.Diff(map[tree.Kind]int{tree.Map: 1}, stageAndSwap(t, f, 2, second, withoutContent(first))); diff != "" {
		t.Error(diff)
	}
	same := func(name string) bool {
		a, err1 := os.Stat(filepath.Join(config, "gen-1", name))
		b, err2 := os.Stat(filepath.Join(config, "current", name))
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		return os.SameFile(a, b)
	}
	if !same("certs/1.pem") || !same("conf.d/00-global.cfg") || same("maps/hosts.map") {
		t.Error("unchanged files must keep their inode, and only they")
	}

	// A write to the current generation must not show in the last good one.
	if err := f.Write(tree.NewFile("conf.d/00-global.cfg", tree.Global, []byte("global # 2\n"))); err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(filepath.Join(config, "gen-1/conf.d/00-global.cfg")); string(text) != "global\n" {
		t.Errorf("the last good generation has %q", text)
	}
	unknown := withoutContent(second)
	unknown.Add(tree.File{Path: "maps/hosts.map", Kind: tree.Map, Digest: model.DigestOf([]byte("c t\n")), Size: 4})
	if _, err := f.Stage(3, unknown, second); err == nil {
		t.Error("a file without content that does not stand was staged")
	}
}

func TestSwapKeepsTheLastGoodGeneration(t *testing.T) {
	config, state := t.TempDir(), t.TempDir()
	f := open(t, config, state)
	content := treeOf(map[string]string{"conf.d/00-global.cfg": "global\n"})
	generations := func() string {
		if err := f.Prune(); err != nil {
			t.Fatal(err)
		}
		target, _ := os.Readlink(f.Current())
		list, _ := filepath.Glob(filepath.Join(config, "gen-*"))
		for i := range list {
			list[i] = filepath.Base(list[i])
		}
		return target + " of " + strings.Join(list, " ")
	}
	stageAndSwap(t, f, 1, content, nil)
	if got := generations(); got != "gen-1 of gen-1" {
		t.Error(got)
	}
	stageAndSwap(t, f, 2, content, content)
	stageAndSwap(t, f, 3, content, content)
	if got := generations(); got != "gen-3 of gen-2 gen-3" {
		t.Error(got)
	}
	if err := f.Swap(2); err != nil { // back
		t.Fatal(err)
	}
	if got := generations(); got != "gen-2 of gen-2" {
		t.Error(got)
	}
	if err := f.Swap(7); err == nil {
		t.Error("a generation that is not there was swapped in")
	}
	if f.Generation() != 2 {
		t.Errorf("current is %d", f.Generation())
	}
}

func TestModesDoNotDependOnTheUmask(t *testing.T) {
	for sentence, mask := range map[string]int{"umask 0": 0, "umask 077": 0o077} {
		t.Run(sentence, func(t *testing.T) {
			defer syscall.Umask(syscall.Umask(mask))
			config := t.TempDir()
			f := open(t, config, t.TempDir())
			texts := map[string]string{"certs/1.pem": "key", "maps/hosts.map": "a t\n"}
			// Watch the mode of the temporary files, too: it is that of the key's whole life.
			f.OnStep(func(string) {
				err := filepath.WalkDir(config, func(path string, entry fs.DirEntry, err error) error {
					if err != nil || entry.IsDir() || !strings.Contains(path, "/certs/") {
						return err
					}
					if info, err := entry.Info(); err == nil && info.Mode().Perm() != 0o600 {
						t.Errorf("%s has mode %v", path, info.Mode())
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
			stageAndSwap(t, f, 1, treeOf(texts), nil)
			for _, file := range treeOf(map[string]string{"certs/2.pem": "key", "maps/hosts.map": "b t\n"}).All {
				if err := f.Write(file); err != nil {
					t.Fatal(err)
				}
			}
			info, err := os.Stat(filepath.Join(config, "current/maps/hosts.map"))
			if err != nil || info.Mode().Perm() != 0o644 {
				t.Errorf("the map has mode %v (%v)", info.Mode(), err)
			}
		})
	}
}

func TestScanReportsAllThatLiesThere(t *testing.T) {
	config, state := t.TempDir(), t.TempDir()
	f := open(t, config, state)
	stageAndSwap(t, f, 1, treeOf(map[string]string{
		"conf.d/00-global.cfg": "global\n", "conf.d/50-backends-000.cfg": "backend a\n", "certs/1.pem": "key", "maps/sluice.map": "generation 3\n",
	}), nil)
	current := filepath.Join(config, "current")
	put(t, filepath.Join(current, "conf.d/zz.cfg"), "listen x\n")
	put(t, filepath.Join(current, "conf.d/50-backends-000.cfg"), "backend b\n")
	put(t, filepath.Join(current, "extra/deep/file"), "?")
	if err := errors.Join(
		os.Symlink("/nowhere", filepath.Join(current, "conf.d/dangling.cfg")),
		os.Chmod(filepath.Join(current, "certs/1.pem"), 0o644),
	); err != nil {
		t.Fatal(err)
	}
	found, content, err := f.Scan()
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]tree.Kind{}
	for path, file := range found.All {
		kinds[path] = file.Kind
	}
	want := map[string]tree.Kind{
		"conf.d/00-global.cfg": tree.Global, "conf.d/50-backends-000.cfg": tree.Shard, "certs/1.pem": tree.Cert, "maps/sluice.map": tree.Generation,
		"conf.d/zz.cfg": tree.Foreign, "extra/deep/file": tree.Foreign, "conf.d/dangling.cfg": tree.Foreign,
	}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Error(diff)
	}
	if text, found := content["certs/1.pem"]; !found || text != nil {
		t.Error("the content of a certificate was handed out")
	}
	if string(content["conf.d/50-backends-000.cfg"]) != "backend b\n" {
		t.Error("the content is not that of the disk")
	}
	key, _ := found.Lookup("certs/1.pem")
	link, _ := found.Lookup("conf.d/dangling.cfg")
	if !key.Digest.IsZero() || !link.Digest.IsZero() {
		t.Error("a readable key and a link must not pass for what was written")
	}
	for _, path := range []string{"extra/deep/file", "conf.d/dangling.cfg", "conf.d/zz.cfg", "conf.d/zz.cfg"} {
		if err := f.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Lstat(filepath.Join(current, "extra")); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the emptied folder is still there")
	}
	if err := f.Remove("../../x"); err == nil {
		t.Error("a path out of the generation was accepted")
	}
}

func TestCompareSeesTruncationAndEdits(t *testing.T) {
	config := t.TempDir()
	f := open(t, config, t.TempDir())
	wanted := treeOf(map[string]string{"conf.d/00-global.cfg": "global\n", "maps/hosts.map": "a t\n"})
	stageAndSwap(t, f, 1, wanted, nil)
	compare := func() *tree.Tree {
		got, err := f.Compare()
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if diff := cmp.Diff(filesOf(wanted.Bare()), filesOf(compare())); diff != "" {
		t.Error(diff)
	}
	put(t, filepath.Join(config, "current/maps/hosts.map"), "b t\n") // the same size
	if got, _ := compare().Lookup("maps/hosts.map"); got.Digest != model.DigestOf([]byte("b t\n")) {
		t.Error("an edit was not seen")
	}
	if err := os.Truncate(filepath.Join(config, "current/maps/hosts.map"), 0); err != nil {
		t.Fatal(err)
	}
	if got, _ := compare().Lookup("maps/hosts.map"); got.Size != 0 {
		t.Error("a truncation was not seen")
	}
}

func TestRegistrySurvivesDamage(t *testing.T) {
	config, state := t.TempDir(), t.TempDir()
	f := open(t, config, state)
	header := shard.Header{Version: shard.Version, Shards: 3, Generation: 7, PID: 42, BootID: "boot"}
	record := func(n int) shard.Record {
		return shard.Record{Shard: n, Path: shard.Path(n), File: model.DigestOf([]byte{byte(n)}), Size: 1, Backends: []shard.Member{{Name: "a_b_80"}}}
	}
	for n := range 3 {
		if err := f.SaveRecord(record(n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(f.SaveHeader(header), f.RemoveRecord(1), f.RemoveRecord(1)); err != nil {
		t.Fatal(err)
	}
	check := func(want *shard.Registry) {
		t.Helper()
		got, err := f.LoadRegistry()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(model.Backends{})); diff != "" {
			t.Error(diff)
		}
	}
	check(&shard.Registry{Header: header, Records: []shard.Record{record(0), {}, record(2)}})
	put(t, filepath.Join(state, "registry", shard.RecordName(2)), `{"shard": 2, "pa`)
	check(&shard.Registry{Header: header, Records: []shard.Record{record(0), {}, {}}})
	put(t, filepath.Join(state, "registry", shard.HeaderName), "")
	check(&shard.Registry{})
}

func TestBatchSyncsEachFolderOnce(t *testing.T) {
	f := open(t, t.TempDir(), t.TempDir())
	stageAndSwap(t, f, 1, treeOf(map[string]string{"conf.d/00-global.cfg": "global\n"}), nil)
	syncs := 0
	f.OnStep(func(point string) {
		if point == "folder synced" {
			syncs++
		}
	})
	b := f.Batch()
	for _, path := range []string{"maps/a.map", "maps/b.map", "conf.d/x.cfg", "maps/a.map"} {
		if err := b.Write(tree.NewFile(path, tree.KindOf(path), []byte(path))); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.WriteLoose(tree.NewFile("lists/c.lst", tree.List, []byte("1\n"))); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(b.Sync(), b.Sync()); err != nil {
		t.Fatal(err)
	}
	if syncs != 2 {
		t.Errorf("%d syncs of folders, want 2", syncs)
	}
}

// A key leaves the disk with its Secret, the last good generation included.
func TestKeysAreForgotten(t *testing.T) {
	both := map[string]string{"conf.d/00-global.cfg": "global\n", "certs/a.pem": "key a", "certs/b.pem": "key b"}
	one := map[string]string{"conf.d/00-global.cfg": "global\n", "certs/b.pem": "key b"}
	generations := func(config string) string {
		list, _ := filepath.Glob(filepath.Join(config, "gen-*"))
		for i := range list {
			list[i] = filepath.Base(list[i])
		}
		return strings.Join(list, " ")
	}
	cases := map[string]struct {
		then func(t *testing.T, f *Folder, config, state string) error
		want string
	}{
		"by a change of the current generation": {func(t *testing.T, f *Folder, _, _ string) error { return f.Remove("certs/a.pem") }, "gen-2"},
		"by a change of another file":           {func(t *testing.T, f *Folder, _, _ string) error { return f.Remove("conf.d/00-global.cfg") }, "gen-1 gen-2"},
		"by a new generation": {func(t *testing.T, f *Folder, _, _ string) error {
			stageAndSwap(t, f, 3, treeOf(one), treeOf(both))
			return f.Prune()
		}, "gen-3"},
		"not by a new generation that keeps them": {func(t *testing.T, f *Folder, _, _ string) error {
			stageAndSwap(t, f, 3, treeOf(both), treeOf(both))
			return f.Prune()
		}, "gen-2 gen-3"},
		"by a start after a kill": {func(t *testing.T, f *Folder, config, state string) error {
			if err := errors.Join(os.Remove(filepath.Join(config, "gen-2/certs/a.pem")), f.Close()); err != nil {
				return err
			}
			open(t, config, state)
			return nil
		}, "gen-2"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			config, state := t.TempDir(), t.TempDir()
			f := open(t, config, state)
			stageAndSwap(t, f, 1, treeOf(both), nil)
			stageAndSwap(t, f, 2, treeOf(both), treeOf(both))
			if err := c.then(t, f, config, state); err != nil {
				t.Fatal(err)
			}
			if got := generations(config); got != c.want {
				t.Errorf("%s are left, want %s", got, c.want)
			}
		})
	}
}

func TestUnsyncedFileTakesThePlaceOfAnother(t *testing.T) {
	f := open(t, t.TempDir(), t.TempDir())
	stageAndSwap(t, f, 1, treeOf(map[string]string{"maps/hosts.map": "a t\n"}), nil)
	for _, text := range []string{"1\n", "22\n", "3\n"} {
		if err := f.Batch().WriteLoose(tree.NewFile("maps/sluice.map", tree.Generation, []byte(text))); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(f.Dir(1), "maps/sluice.map"))
		if err != nil || string(got) != text {
			t.Errorf("%q (%v), want %q", got, err, text)
		}
	}
	if diff := cmp.Diff([]string{"hosts.map", "sluice.map"}, names(t, filepath.Join(f.Dir(1), "maps"))); diff != "" {
		t.Errorf("the old file is left over (-want +got):\n%s", diff)
	}
}
