package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/tree"
)

// known tells whether a folder belongs to each generation.
func known(root, dir string) bool {
	return slices.ContainsFunc(tree.Folders(), func(name string) bool { return filepath.Join(root, name) == dir })
}

// stamp tells cheaply whether a file may have changed.
type stamp struct {
	size   int64
	mtime  time.Time
	mode   fs.FileMode
	digest model.Digest
}

// Scan reads the current generation: each file with its digest, and the content of
// those that hold no keys or passwords (for the others the path maps to nil). All that
// lies there is reported, so that plan removes what does not belong; what is not a
// regular file has a zero digest, and so has a file whose mode is not the one it is
// written with. It may be called from any goroutine; what is written meanwhile may be seen
// or not.
func (f *Folder) Scan() (*tree.Tree, map[string][]byte, error) {
	content := map[string][]byte{}
	t, err := f.walk(nil, func(file tree.File, text []byte) {
		if file.Kind.Secret() || file.Kind == tree.Foreign {
			text = nil
		}
		content[file.Path] = text
	})
	return t, content, err
}

// Compare tells what stands in the current generation, like Scan, but reads only those
// files whose size or time of change is another than when they were last read.
func (f *Folder) Compare() (*tree.Tree, error) {
	f.mu.Lock()
	before := f.stamps
	f.mu.Unlock()
	return f.walk(before, func(tree.File, []byte) {})
}

// walk looks at each file of the current generation and reads those that are not as they
// were before.
func (f *Folder) walk(before map[string]stamp, read func(file tree.File, text []byte)) (*tree.Tree, error) {
	t := &tree.Tree{}
	n := f.Generation()
	if n == 0 {
		return t, nil
	}
	root := f.Dir(n)
	stamps := make(map[string]stamp, len(before))
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return ignoreGone(err)
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		file := tree.File{Path: filepath.ToSlash(name)}
		file.Kind = tree.KindOf(file.Path)
		info, err := entry.Info()
		if err != nil {
			return ignoreGone(err)
		}
		if info.Mode().IsRegular() {
			now, text, err := look(path, info, before[file.Path])
			if err != nil {
				return ignoreGone(err)
			}
			stamps[file.Path] = now
			file.Size = now.size
			if text != nil {
				read(file, text)
			}
			if wellGuarded(file.Kind, info.Mode()) {
				file.Digest = now.digest
			}
		}
		t.Add(file)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the current generation: %w", err)
	}
	f.mu.Lock()
	f.stamps = stamps
	f.mu.Unlock()
	return t, nil
}

// look is the stamp of a file, and its content where it had to be read.
func look(path string, info fs.FileInfo, before stamp) (stamp, []byte, error) {
	now := stamp{size: info.Size(), mtime: info.ModTime(), mode: info.Mode(), digest: before.digest}
	if now == before && !now.digest.IsZero() {
		return now, nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return stamp{}, nil, err
	}
	if text == nil {
		text = []byte{}
	}
	now.size, now.digest = int64(len(text)), model.DigestOf(text)
	return now, text, nil
}

// wellGuarded tells whether nobody else can read a file that holds keys or passwords.
func wellGuarded(kind tree.Kind, mode fs.FileMode) bool {
	return !kind.Secret() || mode.Perm() == 0o600
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
