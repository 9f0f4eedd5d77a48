package files

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/tree"
)

// syncAllAbove is the number of written files from which one syncfs costs less than an
// fsync of each file.
const syncAllAbove = 32

// Stage builds generation n: files that stand in the current one with the digest and
// size wanted are hard links of those, without being read; the others are written.
// Standing are the files of the current generation. All is synced. It returns how many
// files of each kind were written.
func (f *Folder) Stage(n int, wanted, standing *tree.Tree) (map[tree.Kind]int, error) {
	if err := f.Discard(n); err != nil {
		return nil, err
	}
	f.fault("generation cleared")
	s := stage{folder: f, batch: f.BatchIn(n), standing: standing, written: map[tree.Kind]int{}}
	if current := f.Generation(); current != 0 {
		s.from = f.Dir(current)
	}
	if err := s.folders(wanted); err != nil {
		return nil, fmt.Errorf("stage generation %d: %w", n, err)
	}
	for _, path := range wanted.Paths() {
		file, _ := wanted.Lookup(path)
		if err := s.put(file); err != nil {
			return nil, fmt.Errorf("stage generation %d: %w", n, err)
		}
	}
	f.fault("generation filled")
	if err := s.sync(); err != nil {
		return nil, fmt.Errorf("stage generation %d: %w", n, err)
	}
	f.fault("generation synced")
	return s.written, nil
}

// stage is one run of Stage.
type stage struct {
	folder   *Folder
	batch    *Batch
	from     string // the current generation; empty: none
	standing *tree.Tree
	loose    []string // written and not yet synced
	written  map[tree.Kind]int
}

// folders makes the folders of a generation, and conf.d, which HAProxy is started on.
func (s *stage) folders(wanted *tree.Tree) error {
	dirs := map[string]bool{s.batch.root: true}
	for _, name := range tree.Folders() {
		dirs[filepath.Join(s.batch.root, name)] = true
	}
	for path := range wanted.All {
		full, err := s.batch.path(path)
		if err != nil {
			return err
		}
		dirs[filepath.Dir(full)] = true
	}
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		s.batch.dirs[dir] = true
	}
	s.batch.dirs[s.folder.config] = true
	return nil
}

// put links or writes one file.
func (s *stage) put(file tree.File) error {
	path, err := s.batch.path(file.Path)
	if err != nil {
		return err
	}
	if s.stands(file) {
		old := filepath.Join(s.from, filepath.FromSlash(file.Path))
		if os.Link(old, path) == nil {
			return nil
		}
		if file.Bytes() == nil {
			return s.copyOf(old, path, file)
		}
	}
	content := file.Pieces()
	if content == nil && file.Size != 0 {
		return fmt.Errorf("%s: its content is not known and the current generation has another one", file.Path)
	}
	return s.write(path, content, file)
}

func (s *stage) stands(file tree.File) bool {
	if s.from == "" || s.standing == nil {
		return false
	}
	old, found := s.standing.Lookup(file.Path)
	return found && old.Digest == file.Digest && old.Size == file.Size
}

// copyOf takes the place of a hard link where the file system gives none.
func (s *stage) copyOf(old, path string, file tree.File) error {
	content, err := os.ReadFile(old)
	if err != nil {
		return err
	}
	if model.DigestOf(content) != file.Digest {
		return fmt.Errorf("%s was changed by somebody else: the folder has to be read again", file.Path)
	}
	return s.write(path, [][]byte{content}, file)
}

func (s *stage) write(path string, content [][]byte, file tree.File) error {
	if err := create(path, content, options{mode: modeOf(file)}); err != nil {
		return err
	}
	s.folder.fault("file written")
	s.loose = append(s.loose, path)
	s.written[file.Kind]++
	return nil
}

func (s *stage) sync() error {
	if len(s.loose) > syncAllAbove {
		return syncFileSystem(s.batch.root)
	}
	for _, path := range s.loose {
		if err := syncFile(path); err != nil {
			return err
		}
	}
	return s.batch.Sync()
}

// syncFileSystem syncs all of the file system that a folder stands on.
func syncFileSystem(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(d.Fd())), d.Close())
}

func syncFile(path string) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

// Swap makes generation n the current one, by one rename. The generation that was
// current is the last good one from then on. Swapping back to the last good one is
// allowed; then none is kept but n.
func (f *Folder) Swap(n int) error {
	if _, err := os.Stat(f.Dir(n)); err != nil {
		return fmt.Errorf("swap in generation %d: %w", n, err)
	}
	temp := filepath.Join(f.config, temporary(currentName))
	_ = os.Remove(temp) // a leftover; Symlink tells of what could not be removed
	if err := os.Symlink(generationName(n), temp); err != nil {
		return fmt.Errorf("swap in generation %d: %w", n, err)
	}
	f.fault("link written")
	if err := os.Rename(temp, f.Current()); err != nil {
		return fmt.Errorf("swap in generation %d: %w", n, err)
	}
	f.fault("link renamed")
	f.previous = 0
	if before := f.Generation(); n > before {
		f.previous = before
	}
	f.current.Store(int64(n))
	if err := syncDir(f.config); err != nil {
		return fmt.Errorf("swap in generation %d: %w", n, err)
	}
	return nil
}

// Discard removes a generation that is not current.
func (f *Folder) Discard(n int) error {
	if n == f.Generation() {
		panic(fmt.Sprintf("files: generation %d is the current one", n))
	}
	if err := os.RemoveAll(f.Dir(n)); err != nil {
		return fmt.Errorf("remove generation %d: %w", n, err)
	}
	return nil
}

// Prune removes all generations but the current and the last good one; that one, too, where
// it holds a key that the current one lacks.
func (f *Folder) Prune() error {
	entries, err := os.ReadDir(f.config)
	if err != nil {
		return fmt.Errorf("read the configuration folder: %w", err)
	}
	if err := f.forgetKeys(); err != nil {
		return err
	}
	for _, entry := range entries {
		n := generationOf(entry.Name())
		if n == 0 || n == f.Generation() || n == f.previous {
			continue
		}
		if err := f.Discard(n); err != nil {
			return err
		}
		f.fault("generation removed")
	}
	return nil
}

// forgetKeys removes the last good generation if it holds a file below certs/ that the
// current one lacks: a key leaves the disk with its Secret. Nothing is lost, since sluice
// never goes back to it once another generation has been loaded.
func (f *Folder) forgetKeys() error {
	if f.previous == 0 {
		return nil
	}
	entries, err := os.ReadDir(filepath.Join(f.Dir(f.previous), keysName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look for keys that are gone: %w", err)
	}
	for _, entry := range entries {
		_, err := os.Lstat(filepath.Join(f.Dir(f.Generation()), keysName, entry.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			return f.discardPrevious()
		}
	}
	return nil
}

func (f *Folder) discardPrevious() error {
	n := f.previous
	f.previous = 0
	if err := f.Discard(n); err != nil {
		return err
	}
	f.fault("generation removed")
	return nil
}
