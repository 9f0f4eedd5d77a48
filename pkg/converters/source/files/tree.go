package files

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// listener wants to be told what changes in folders. Paths are free of symbolic links.
type listener interface {
	add(dir string) // once more if it is known, since it may be a new folder of that name
	drop(dir string)
}

// deaf is the listener of who reads once.
type deaf struct{}

func (deaf) add(string)  {}
func (deaf) drop(string) {}

// node is a path that is read, or a symbolic link that may lead to one.
type node struct {
	parent   *node
	name     string
	path     string           // as shown
	order    int              // of the path given that it belongs to
	children map[string]*node // not nil: a folder
	real     string           // what it leads to, without symbolic links
	steps    []step           // the symbolic links on the way; all names for a path given
	info     fs.FileInfo      // of the file when it was last read; nil: read it again
	file     *file            // what it contributes, or what is to be said about it
	err      error            // of the last try to read the file
	gone     bool
}

// spot is a place to look at again: a name in a folder, or with no name the folder itself.
type spot struct {
	node *node
	name string
}

func (s spot) path() string { return filepath.Join(s.node.path, s.name) }

// spotOf is the place where a node stands.
func spotOf(n *node) spot {
	if n.parent == nil {
		return spot{node: n}
	}
	return spot{n.parent, n.name}
}

// tree is what was found below the paths given, and what leads there.
type tree struct {
	roots    []*node
	store    *store
	listener listener
	once     bool                          // nothing is looked at a second time
	folders  map[string]map[*node]struct{} // real folder -> nodes that are it
	anchors  map[step]map[*node]struct{}   // step -> nodes whose way leads over it
	dirs     map[string]int                // folder -> number of anchors in it
	reads    []*node                       // files to be read by load
	forced   bool                          // read files even if they look the same
}

func newTree(paths []string, s *store, l listener) *tree {
	t := &tree{
		store:    s,
		listener: l,
		folders:  map[string]map[*node]struct{}{},
		anchors:  map[step]map[*node]struct{}{},
		dirs:     map[string]int{},
	}
	for i, path := range paths {
		if path != Stdin {
			t.roots = append(t.roots, &node{path: filepath.Clean(path), order: i})
		}
	}
	return t
}

// all are the spots of everything.
func (t *tree) all() []spot {
	spots := make([]spot, 0, len(t.roots))
	for _, n := range t.roots {
		spots = append(spots, spot{node: n})
	}
	return spots
}

// refresh looks at the spots again and brings the store up to date. It returns the spots
// that changed while they were read.
func (t *tree) refresh(spots []spot) (again []spot) {
	slices.SortFunc(spots, func(a, b spot) int { return cmp.Compare(a.path(), b.path()) })
	for _, s := range spots {
		switch {
		case s.node.gone:
		case s.name != "" && s.node.children != nil:
			t.entry(s.node, s.name, true)
		case s.name == "" && s.node.parent == nil:
			t.root(s.node)
		}
	}
	return t.load()
}

// root looks at a path that was given.
func (t *tree) root(n *node) {
	full := absolute(n.path)
	real, steps, err := trail("/", full)
	t.retrace(n, steps)
	if err != nil && t.once { // /dev/fd/N may lead to a pipe, to which there is no trail
		real, err = full, nil
	}
	var info fs.FileInfo
	if err == nil {
		info, err = os.Stat(real)
	}
	switch {
	case leadsNowhere(err):
		t.clear(n)
		t.trouble(n, "there is no such file or folder; it is read as soon as it is created")
	case err != nil:
		t.trouble(n, "can't be read: %s; its last content stays in force", reason(err))
	case info.IsDir():
		t.folder(n, real)
	case t.once || info.Mode().IsRegular():
		t.regular(n, real, info, true)
	default:
		t.clear(n)
		t.trouble(n, "is neither a file nor a folder")
	}
}

// entry looks at a name in a folder. A file that looks as it did is read again if forced.
func (t *tree) entry(folder *node, name string, force bool) {
	if hidden(name) {
		return
	}
	full := filepath.Join(folder.real, name)
	info, err := os.Lstat(full)
	if errors.Is(err, fs.ErrNotExist) {
		t.remove(folder.children[name])
		return
	}
	n := folder.children[name]
	if n == nil {
		n = &node{parent: folder, name: name, path: filepath.Join(folder.path, name), order: folder.order}
		folder.children[name] = n
	}
	real, steps := full, []step(nil)
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		if real, steps, err = trail(folder.real, name); err == nil {
			info, err = os.Stat(real)
		}
	}
	t.retrace(n, steps)
	switch {
	case leadsNowhere(err):
		t.clear(n)
		if isManifest(name) {
			t.trouble(n, "the link leads nowhere: %s", reason(err))
		}
	case err != nil:
		if isManifest(name) || n.children != nil {
			t.trouble(n, "can't be read: %s; its last content stays in force", reason(err))
		}
	case info.IsDir():
		t.folder(n, real)
	case info.Mode().IsRegular() && isManifest(name):
		t.regular(n, real, info, force)
	case len(steps) > 0: // it may lead to a folder some day
		t.clear(n)
	default:
		t.remove(n)
	}
}

// folder reads the names of a folder.
func (t *tree) folder(n *node, real string) {
	for p := n.parent; p != nil; p = p.parent {
		if p.real == real {
			t.clear(n)
			t.trouble(n, "the link leads back to a folder around it; remove it")
			return
		}
	}
	if n.children == nil {
		t.clear(n)
		n.children = map[string]*node{}
	}
	if n.real != real {
		t.leave(n)
	}
	n.real = real
	if t.folders[real] == nil {
		t.folders[real] = map[*node]struct{}{}
	}
	t.folders[real][n] = struct{}{}
	t.listener.add(real) // before the names are read, so that none is missed
	entries, err := os.ReadDir(real)
	if err != nil {
		t.trouble(n, "the folder can't be read: %s; its last content stays in force", reason(err))
		return
	}
	t.forgetFile(n)
	found := make(map[string]struct{}, len(entries))
	for _, e := range entries {
		found[e.Name()] = struct{}{}
		t.entry(n, e.Name(), t.forced)
	}
	for _, name := range slices.Sorted(maps.Keys(n.children)) {
		if _, ok := found[name]; !ok {
			t.remove(n.children[name])
		}
	}
}

// regular notes that a file is to be read, unless it is the one that was read.
func (t *tree) regular(n *node, real string, info fs.FileInfo, force bool) {
	if n.children != nil {
		t.clear(n)
	}
	if !force && n.info != nil && n.real == real && os.SameFile(n.info, info) &&
		n.info.Size() == info.Size() && n.info.ModTime().Equal(info.ModTime()) {
		return
	}
	n.real, n.info = real, info
	t.reads = append(t.reads, n)
}

// retrace notes the steps on the way to a node, in place of the former ones.
func (t *tree) retrace(n *node, steps []step) {
	former := n.steps
	n.steps = steps
	for _, s := range steps {
		if t.anchors[s] == nil {
			t.anchors[s] = map[*node]struct{}{}
		}
		if _, ok := t.anchors[s][n]; !ok {
			t.anchors[s][n] = struct{}{}
			t.dirs[s.dir]++
		}
		t.listener.add(s.dir)
	}
	for _, s := range former {
		if slices.Contains(steps, s) || t.anchors[s] == nil {
			continue
		}
		if _, ok := t.anchors[s][n]; !ok {
			continue
		}
		delete(t.anchors[s], n)
		if len(t.anchors[s]) == 0 {
			delete(t.anchors, s)
		}
		if t.dirs[s.dir]--; t.dirs[s.dir] == 0 {
			delete(t.dirs, s.dir)
			t.release(s.dir)
		}
	}
}

// release ends listening to a folder that matters no more.
func (t *tree) release(dir string) {
	if len(t.folders[dir]) == 0 && t.dirs[dir] == 0 {
		t.listener.drop(dir)
	}
}

// leave ends being the folder that a node was.
func (t *tree) leave(n *node) {
	if set, ok := t.folders[n.real]; ok {
		delete(set, n)
		if len(set) == 0 {
			delete(t.folders, n.real)
			t.release(n.real)
		}
	}
}

// clear takes all that a node contributes out of force.
func (t *tree) clear(n *node) {
	for _, name := range slices.Sorted(maps.Keys(n.children)) {
		t.remove(n.children[name])
	}
	if n.children != nil {
		t.leave(n)
	}
	n.children, n.real, n.info = nil, "", nil
	t.forgetFile(n)
}

func (t *tree) forgetFile(n *node) {
	if n.file != nil {
		t.store.drop(n.file)
		n.file = nil
	}
}

// remove forgets a node whose name is gone, if there is one.
func (t *tree) remove(n *node) {
	if n == nil {
		return
	}
	t.clear(n)
	t.retrace(n, nil)
	delete(n.parent.children, n.name)
	n.gone = true
}

// trouble says that a path can't be read. What is in force of it stays.
func (t *tree) trouble(n *node, format string, args ...any) {
	t.store.fail(t.fileOf(n), 1, fmt.Sprintf(format, args...))
	n.info = nil
}

func (t *tree) fileOf(n *node) *file {
	if n.file == nil {
		n.file = &file{order: n.order, path: n.path}
	}
	return n.file
}

// leadsNowhere tells whether there is nothing at the end of a path, rather than something
// that can't be read.
func leadsNowhere(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP)
}

// reason is an error without the path, which the finding names.
func reason(err error) string {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err.Error()
	}
	return err.Error()
}
