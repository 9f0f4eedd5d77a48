package files

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sluice-proxy/sluice/pkg/haproxy/tree"
)

// FaultPoints are the names of the steps that OnStep is told of.
func FaultPoints() []string {
	return []string{
		"file written", "file renamed", "file removed", "folder synced",
		"generation cleared", "generation filled", "generation synced", "link written", "link renamed", "generation removed",
		"registry written",
	}
}

// temporary is the hidden name that a file has until it is complete. HAProxy skips
// hidden files when it loads a folder.
func temporary(name string) string { return "." + name + ".tmp" }

// temporaryPath is where a file stands until it is complete.
func temporaryPath(path string) string {
	return filepath.Join(filepath.Dir(path), temporary(filepath.Base(path)))
}

func isTemporary(name string) bool {
	return strings.HasPrefix(name, ".") && strings.HasSuffix(name, ".tmp")
}

type options struct {
	mode  fs.FileMode
	sync  bool // before the rename, so that a loss of power never leaves an empty file
	fault func(point string)
}

// replace writes a file under its temporary name and renames it. It does not sync the
// folder.
func replace(path string, content [][]byte, o options) error {
	temp := temporaryPath(path)
	if err := create(temp, content, o); err != nil {
		return err
	}
	if o.fault != nil {
		o.fault("file written")
	}
	if err := putInPlace(temp, path, o.sync); err != nil {
		return errors.Join(err, ignoreGone(os.Remove(temp)))
	}
	if o.fault != nil {
		o.fault("file renamed")
	}
	return nil
}

// putInPlace gives a complete file its name, which another one may have.
//
// A file that was not synced must not take the place of another by a plain rename: ext4
// writes such a file out at once (mount option auto_da_alloc), for programs that forget to
// sync, and that costs more than all else. Exchanging the two does not.
func putInPlace(temp, path string, synced bool) error {
	if !synced && unix.Renameat2(unix.AT_FDCWD, temp, unix.AT_FDCWD, path, unix.RENAME_EXCHANGE) == nil {
		return os.Remove(temp) // the old file
	}
	return os.Rename(temp, path) // nothing stands there, or the file system knows no exchange
}

// Replace writes a file that is no part of a generation: whole or not at all, whatever
// happens, and with the given mode whatever mode a file of that name has.
func Replace(path string, content []byte, mode fs.FileMode) error {
	if err := replace(path, [][]byte{content}, options{mode: mode, sync: true}); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// create writes a new file. A leftover of that name is removed, never written into: it
// might be a hard link of a file in use, or readable by others.
func create(path string, content [][]byte, o options) (err error) {
	const flags = os.O_WRONLY | os.O_CREATE | os.O_EXCL
	file, err := os.OpenFile(path, flags, 0o600)
	if errors.Is(err, fs.ErrExist) {
		if err := os.Remove(path); err != nil {
			return err
		}
		file, err = os.OpenFile(path, flags, 0o600)
	}
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(path) // the first error is the one to tell
		}
	}()
	for _, part := range content {
		if err == nil {
			_, err = file.Write(part)
		}
	}
	if err == nil && o.mode != 0o600 {
		err = file.Chmod(o.mode)
	}
	if err == nil && o.sync {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// modeOf is the mode of a file of a generation.
func modeOf(file tree.File) fs.FileMode {
	if file.Secret != nil || file.Kind.Secret() || strings.HasPrefix(file.Path, keysName+"/") {
		return 0o600
	}
	return 0o644
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Batch is a row of changes of one generation. Each is in force at once; Sync makes all
// of them last, with one fsync per folder.
type Batch struct {
	folder *Folder
	root   string
	dirs   map[string]bool // folders to sync
	forget bool            // a key was removed that the last good generation has, too
}

// Batch begins changes of the current generation.
func (f *Folder) Batch() *Batch { return f.BatchIn(f.Generation()) }

// BatchIn begins changes of a generation, which may be a staged one.
func (f *Folder) BatchIn(n int) *Batch {
	return &Batch{folder: f, root: f.Dir(n), dirs: map[string]bool{}}
}

// Write replaces a file, which must have its content.
func (b *Batch) Write(file tree.File) error {
	return b.write(file, options{mode: modeOf(file), sync: true, fault: b.folder.fault})
}

// WriteAll replaces files, which must have their content, in the given order. All are
// written under their temporary names, then synced together, and only then renamed: so each
// prefix of the renames is on the disk in full, and many files cost about one sync.
func (b *Batch) WriteAll(list []tree.File) (err error) {
	paths := make([]string, 0, len(list))
	defer func() {
		if err != nil {
			for _, path := range paths {
				err = errors.Join(err, ignoreGone(os.Remove(temporaryPath(path))))
			}
		}
	}()
	for _, file := range list {
		path, content, err := b.prepare(file)
		if err != nil {
			return err
		}
		if err := create(temporaryPath(path), content, options{mode: modeOf(file)}); err != nil {
			return fmt.Errorf("write %s: %w", file.Path, err)
		}
		paths = append(paths, path)
		b.folder.fault("file written")
	}
	temps := make([]string, len(paths))
	for i, path := range paths {
		temps[i] = temporaryPath(path)
	}
	if err := b.syncFiles(temps); err != nil {
		return fmt.Errorf("sync files: %w", err)
	}
	for _, path := range paths {
		if err := os.Rename(temporaryPath(path), path); err != nil {
			return fmt.Errorf("rename: %w", err)
		}
		b.dirs[filepath.Dir(path)] = true
		b.folder.fault("file renamed")
	}
	return nil
}

// syncFiles makes the content of files last.
func (b *Batch) syncFiles(paths []string) error {
	if len(paths) > syncAllAbove {
		return syncFileSystem(b.root)
	}
	for _, path := range paths {
		if err := syncFile(path); err != nil {
			return err
		}
	}
	return nil
}

// WriteLoose replaces a file that need not survive a loss of power. It is not synced.
func (b *Batch) WriteLoose(file tree.File) error {
	return b.write(file, options{mode: modeOf(file), fault: b.folder.fault})
}

// prepare finds out what is to be written where, and makes the folder.
func (b *Batch) prepare(file tree.File) (path string, content [][]byte, err error) {
	if path, err = b.path(file.Path); err != nil {
		return "", nil, err
	}
	content = file.Pieces()
	if content == nil && file.Size != 0 {
		return "", nil, fmt.Errorf("write %s: its content is not known", file.Path)
	}
	dir := filepath.Dir(path)
	if _, err := os.Lstat(dir); err != nil {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", nil, fmt.Errorf("write %s: %w", file.Path, err)
		}
		b.dirs[filepath.Dir(dir)] = true
	}
	return path, content, nil
}

func (b *Batch) write(file tree.File, o options) error {
	path, content, err := b.prepare(file)
	if err != nil {
		return err
	}
	if err := replace(path, content, o); err != nil {
		return fmt.Errorf("write %s: %w", file.Path, err)
	}
	if o.sync {
		b.dirs[filepath.Dir(path)] = true
	}
	return nil
}

// Remove removes a file, and its folder where that is empty then. A file that is gone
// already is fine.
func (b *Batch) Remove(name string) error {
	path, err := b.path(name)
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	b.folder.fault("file removed")
	if strings.HasPrefix(name, keysName+"/") && b.root == b.folder.Dir(b.folder.Generation()) && b.folder.previous != 0 {
		_, err := os.Lstat(filepath.Join(b.folder.Dir(b.folder.previous), name))
		b.forget = b.forget || err == nil
	}
	b.dirs[filepath.Dir(path)] = true
	for dir := filepath.Dir(path); dir != b.root && !known(b.root, dir); dir = filepath.Dir(dir) {
		if os.Remove(dir) != nil {
			break // not empty
		}
		delete(b.dirs, dir)
		b.dirs[filepath.Dir(dir)] = true
	}
	return nil
}

// Sync makes all changes so far last, and forgets keys that were removed: see Prune.
func (b *Batch) Sync() error {
	for _, dir := range slices.Sorted(maps.Keys(b.dirs)) {
		if err := syncDir(dir); err != nil {
			return fmt.Errorf("sync folder: %w", err)
		}
		b.folder.fault("folder synced")
	}
	clear(b.dirs)
	if b.forget {
		b.forget = false
		return b.folder.discardPrevious()
	}
	return nil
}

// path refuses what would leave the generation: a bug, but one that must not reach the
// disk.
func (b *Batch) path(name string) (string, error) {
	if !filepath.IsLocal(name) || name == "." {
		return "", fmt.Errorf("%q is not a path below a generation", name)
	}
	return filepath.Join(b.root, filepath.FromSlash(name)), nil
}
