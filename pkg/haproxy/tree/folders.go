package tree

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// Tree is the whole owned folder: what is not in it does not belong there. The zero Tree
// has no files, and so has a nil one.
//
// Trees that follow one another share the folders that did not change, so that ten thousand
// certificates cost nothing where a server changes. So a Tree must not be changed once
// Clone, Take or Bare have made another one of it.
type Tree struct {
	folders map[string]*folder // by the first element of the path
	own     map[string]bool    // folders that no other Tree has
}

// folder are the files below one folder of a Tree.
type folder struct {
	files   map[string]*File // by path; none is ever changed
	content int              // how many of them hold their content
	low     uint64           // sums over the files, see Digest
	high    uint64
}

func folderOf(path string) string {
	name, _, _ := strings.Cut(path, "/")
	return name
}

// Lookup is the file at a path; false if there is none.
func (t *Tree) Lookup(path string) (File, bool) {
	if t == nil {
		return File{}, false
	}
	return t.folders[folderOf(path)].lookup(path)
}

func (f *folder) lookup(path string) (File, bool) {
	if f == nil {
		return File{}, false
	}
	if file := f.files[path]; file != nil {
		return *file, true
	}
	return File{}, false
}

// All yields each file with its path, in no order.
func (t *Tree) All(yield func(path string, file File) bool) {
	if t == nil {
		return
	}
	for _, f := range t.folders {
		for path, file := range f.files {
			if !yield(path, *file) {
				return
			}
		}
	}
}

// Len is the number of files.
func (t *Tree) Len() int {
	if t == nil {
		return 0
	}
	n := 0
	for _, f := range t.folders {
		n += len(f.files)
	}
	return n
}

// Paths are the paths of all files, sorted.
func (t *Tree) Paths() []string {
	paths := make([]string, 0, t.Len())
	for path := range t.All {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	return paths
}

// Add puts files into the tree, in the place of those of the same paths.
func (t *Tree) Add(files ...File) {
	for _, file := range files {
		f := t.change(folderOf(file.Path))
		f.remove(file.Path)
		f.add(file)
	}
}

// Remove takes a file out of the tree.
func (t *Tree) Remove(path string) {
	if _, found := t.Lookup(path); !found {
		return
	}
	name := folderOf(path)
	f := t.change(name)
	f.remove(path)
	if len(f.files) == 0 {
		delete(t.folders, name)
		delete(t.own, name)
	}
}

// change is a folder that may be changed.
func (t *Tree) change(name string) *folder {
	f := t.folders[name]
	if f != nil && t.own[name] {
		return f
	}
	next := &folder{}
	if f != nil {
		*next = *f
		next.files = maps.Clone(f.files)
	} else {
		next.files = map[string]*File{}
	}
	if t.folders == nil {
		t.folders = map[string]*folder{}
	}
	if t.own == nil {
		t.own = map[string]bool{}
	}
	t.folders[name], t.own[name] = next, true
	return next
}

func (f *folder) add(file File) {
	f.files[file.Path] = &file
	low, high := mixed(file)
	f.low, f.high = f.low+low, f.high+high
	if file.hasContent() {
		f.content++
	}
}

func (f *folder) remove(path string) {
	file, found := f.files[path]
	if !found {
		return
	}
	delete(f.files, path)
	low, high := mixed(*file)
	f.low, f.high = f.low-low, f.high-high
	if file.hasContent() {
		f.content--
	}
}

func (f File) hasContent() bool { return f.Content != nil || f.Parts != nil || f.Secret != nil }

// Clone is a tree with the same files that can be changed without changing t.
func (t *Tree) Clone() *Tree {
	next := &Tree{folders: map[string]*folder{}}
	if t != nil {
		maps.Copy(next.folders, t.folders)
	}
	return next
}

// Take puts a folder into the tree, in the place of its own, as it stands in another tree,
// without the content of its files.
func (t *Tree) Take(name string, from *Tree) {
	delete(t.folders, name)
	delete(t.own, name)
	if from == nil || from.folders[name] == nil {
		return
	}
	if t.folders == nil {
		t.folders = map[string]*folder{}
	}
	t.folders[name] = from.folders[name].bare()
}

// Bare is the tree without the content of its files.
func (t *Tree) Bare() *Tree {
	next := t.Clone()
	for name, f := range next.folders {
		next.folders[name] = f.bare()
	}
	return next
}

// bare is the folder without the content of its files: the same one where there is none.
func (f *folder) bare() *folder {
	if f.content == 0 {
		return f
	}
	next := *f
	next.content = 0
	next.files = make(map[string]*File, len(f.files))
	for path, file := range f.files {
		if file.hasContent() {
			without := *file
			without.Content, without.Parts, without.Secret = nil, nil, nil
			file = &without
		}
		next.files[path] = file
	}
	return &next
}

// Diff are the files of t that another tree lacks or has with another content, and the
// files of the other tree that t lacks, each sorted by path. Folders that both share are
// not looked at.
func (t *Tree) Diff(other *Tree) (differ, gone []File) {
	if t == nil {
		t = &Tree{}
	}
	if other == nil {
		other = &Tree{}
	}
	for name, f := range t.folders {
		before := other.folders[name]
		if before == f {
			continue
		}
		for path, file := range f.files {
			if old, found := before.lookup(path); !found || old.Digest != file.Digest {
				differ = append(differ, *file)
			}
		}
	}
	for name, before := range other.folders {
		f := t.folders[name]
		if f == before {
			continue
		}
		for path, file := range before.files {
			if _, found := f.lookup(path); !found {
				gone = append(gone, *file)
			}
		}
	}
	byPath := func(a, b File) int { return cmp.Compare(a.Path, b.Path) }
	slices.SortFunc(differ, byPath)
	slices.SortFunc(gone, byPath)
	return differ, gone
}

// Digest identifies the files of a tree with their contents, maps/sluice.map left out.
//
// It is a sum over the files, each mixed with its path (FNV-1a), so that it follows each
// change at once: it tells an edited folder from one that is as it was written. It is no
// defence against somebody who computes collisions: that one may write the folder anyway.
func (t *Tree) Digest() model.Digest {
	var low, high uint64
	if t != nil {
		for _, f := range t.folders {
			low, high = low+f.low, high+f.high
		}
	}
	var d model.Digest
	binary.LittleEndian.PutUint64(d[:8], low)
	binary.LittleEndian.PutUint64(d[8:], high)
	return d
}

// mixed is what a file adds to the sums.
func mixed(file File) (low, high uint64) {
	if file.Path == GenerationPath {
		return 0, 0 // it holds the digest
	}
	h := uint64(14695981039346656037)
	for i := range len(file.Path) {
		h = (h ^ uint64(file.Path[i])) * 1099511628211
	}
	low = (binary.LittleEndian.Uint64(file.Digest[:8]) ^ h) * 1099511628211
	return low, binary.LittleEndian.Uint64(file.Digest[8:]) * (h | 1)
}
