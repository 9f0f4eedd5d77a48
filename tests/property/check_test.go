package property

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/serverline"
	"github.com/sluice-proxy/sluice/pkg/haproxy/shard"
	"github.com/sluice-proxy/sluice/pkg/haproxy/tree"
)

// check compares all that there is with a render from scratch.
func (w *world) check() {
	w.t.Helper()
	m, t, layout := w.scratch()
	content := map[string][]byte{"maps/sluice.map": nil} // is written by apply
	for name, file := range t.All {
		content[name] = file.Bytes()
	}
	want, err := load(content)
	if err != nil {
		w.t.Fatalf("HAProxy would refuse what is rendered from scratch: %v", err)
	}
	delete(want.Maps, "sluice")
	if diff := want.differsFrom(m); diff != "" {
		w.t.Fatalf("the files from scratch are not the model: %s", diff)
	}
	w.checkFiles(t)
	if have := w.apply.Expected().Header.Shards; have != layout.Header.Shards {
		// Another number that changes no file is noted with the next change of one.
		layout = shard.Place(nil, m, shard.Options{Shards: have, Templates: w.renderer.Digest()})
	}
	if w.done > 0 {
		w.checkRegistry(t, layout) // else it is as an earlier life left it, until there is something to do
	}
	if diff := w.haproxy.differs(w, want); diff != "" {
		w.t.Fatalf("the worker does not serve what the files say: %s", diff)
	}
}

// differsFrom compares what the files say with the model they were rendered of.
func (s *served) differsFrom(m *model.Model) string {
	backends := map[string]map[string]server{}
	for b := range m.Backends.All {
		backends[b.Name] = map[string]server{}
		for i := range b.Servers {
			v := newServer(strings.Fields(string(serverline.AppendParameters(nil, &b.Servers[i], serverline.Options(b.Options)))))
			v.Maint = b.Servers[i].State == model.Maint
			backends[b.Name][b.Servers[i].Name()] = v
		}
	}
	tables := map[string]map[string]string{}
	for _, table := range m.Tables {
		tables[table.Name] = map[string]string{}
		for e := range table.All {
			tables[table.Name][e.Key] = e.Value
		}
	}
	return cmp.Diff(backends, ours(s.Backends)) + cmp.Diff(tables, s.Maps)
}

// ours are the backends that objects asked for.
func ours(backends map[string]map[string]server) map[string]map[string]server {
	list := maps.Clone(backends)
	maps.DeleteFunc(list, func(name string, _ map[string]server) bool { return strings.HasPrefix(name, "_") })
	return list
}

// differs compares the worker with what it shall serve. Sections, lists and certificates
// that nothing refers to may stay until the next reload.
func (f *fake) differs(w *world, want *served) string {
	if n, _ := w.apply.RetryRemovals(context.Background()); n > 0 {
		return fmt.Sprintf("%d removals wait", n)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state == nil {
		return "there is no worker"
	}
	have := *f.state
	have.Sections, have.Lists, have.Certs = maps.Clone(have.Sections), maps.Clone(have.Lists), maps.Clone(have.Certs)
	maps.DeleteFunc(have.Sections, func(head, _ string) bool {
		_, wanted := want.Sections[head]
		return !wanted && (strings.HasPrefix(head, "defaults p_") || strings.HasPrefix(head, "userlist "))
	})
	maps.DeleteFunc(have.Lists, func(name string, _ []string) bool { return want.Lists[name] == nil })
	maps.DeleteFunc(have.Certs, func(name, _ string) bool { return want.Certs[name] == "" })
	have.Maps = maps.Clone(have.Maps)
	number := have.Maps["sluice"]["generation"]
	delete(have.Maps, "sluice")
	if text, err := os.ReadFile(filepath.Join(f.current, "maps", "sluice.map")); err != nil || !strings.HasPrefix(string(text), "generation "+number+"\n") {
		return fmt.Sprintf("its number is %s, that of the files %q (%v)", number, text, err)
	}
	first := ""
	if have.CrtList[0] != want.CrtList[0] {
		first = "the default certificate is another one; "
	}
	have.CrtList = sorted(have.CrtList)
	wanted := *want
	wanted.CrtList = sorted(want.CrtList)
	return first + cmp.Diff(&wanted, &have, cmpopts.EquateEmpty())
}

// checkFiles compares the configuration folder with a tree.
func (w *world) checkFiles(want *tree.Tree) {
	w.t.Helper()
	content, err := read(filepath.Join(w.dir, "conf", "current"))
	if err != nil {
		w.t.Fatalf("the current generation: %v", err)
	}
	for name, file := range want.All {
		text, found := content[name]
		if !found {
			w.t.Fatalf("%s is missing", name)
		}
		if diff := cmp.Diff(string(file.Bytes()), string(text)); diff != "" {
			w.t.Fatalf("%s is not what a render from scratch gives (-scratch +file):\n%s", name, diff)
		}
	}
	folders := map[string]bool{".": true, "conf.d": true, "maps": true, "crt-lists": true, "lists": true, "lua": true, "certs": true, "pages": true}
	for name := range content {
		if _, wanted := want.Lookup(name); !wanted && name != "maps/sluice.map" {
			w.t.Fatalf("%s does not belong there", name)
		}
		folders[path.Dir(name)] = true
	}
	root := filepath.Join(w.dir, "conf")
	generation := fmt.Sprintf("gen-%d", w.folder.Generation())
	before := ""
	err = filepath.WalkDir(root, func(full string, entry fs.DirEntry, err error) error {
		name, _ := filepath.Rel(root, full)
		top, below, _ := strings.Cut(name, "/")
		info, statErr := os.Lstat(full)
		switch {
		case err != nil || statErr != nil:
			return cmpError(err, statErr)
		case name == "." || name == ".sluice" || name == "current":
		case top == generation && (name == top || !entry.IsDir() || folders[below]):
			if file, _ := want.Lookup(below); !entry.IsDir() && (!info.Mode().IsRegular() || file.Kind == tree.Cert && info.Mode() != 0o600) {
				w.t.Fatalf("%s has mode %s", name, info.Mode())
			}
		case strings.HasPrefix(top, "gen-") && (before == "" || before == top):
			before = top
		default:
			w.t.Fatalf("%s does not belong into the configuration folder", name)
		}
		return nil
	})
	if err != nil {
		w.t.Fatalf("the configuration folder: %v", err)
	}
}

func cmpError(list ...error) error {
	for _, err := range list {
		if err != nil {
			return err
		}
	}
	return nil
}

// checkRegistry compares the registry folder with what is known of the shards.
func (w *world) checkRegistry(t *tree.Tree, layout shard.Layout) {
	w.t.Helper()
	content, err := read(filepath.Join(w.dir, "state", "registry"))
	if err != nil {
		w.t.Fatalf("registry: %v", err)
	}
	header, err := shard.DecodeHeader(content[shard.HeaderName])
	if err != nil || header.Shards != layout.Header.Shards || header.Templates != layout.Header.Templates {
		w.t.Fatalf("the registry's header is %+v (%v), the layout %+v", header, err, layout.Header)
	}
	names := []string{shard.HeaderName}
	for i, want := range layout.Records {
		if want.Path == "" {
			continue
		}
		file, _ := t.Lookup(want.Path)
		want.File, want.Size = file.Digest, file.Size
		names = append(names, shard.RecordName(i))
		have, err := shard.DecodeRecord(content[shard.RecordName(i)])
		if diff := cmp.Diff(want, have); err != nil || diff != "" {
			w.t.Fatalf("record %d (-scratch +registry): %v\n%s", i, err, diff)
		}
	}
	slices.Sort(names)
	if diff := cmp.Diff(names, slices.Sorted(maps.Keys(content))); diff != "" {
		w.t.Fatalf("the registry folder holds (-want +got):\n%s", diff)
	}
}
