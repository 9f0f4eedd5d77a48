package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/tree"
)

// Foreign is the kind of a file that sluice does not write: plan removes it.
const Foreign tree.Kind = "foreign"

// knownFolders are the folders that each generation has, empty ones too.
func knownFolders() []string {
	return []string{"conf.d", "maps", "crt-lists", "lists", "lua", "certs", "pages"}
}

func known(root, dir string) bool {
	for _, name := range knownFolders() {
		if filepath.Join(root, name) == dir {
			return true
		}
	}
	return false
}

// KindOf is the kind of a file by its path below the generation.
func KindOf(path string) tree.Kind {
	switch path {
	case "conf.d/00-global.cfg":
		return tree.Global
	case "conf.d/10-profiles.cfg":
		return tree.Profiles
	case "conf.d/15-userlists.cfg":
		return tree.Userlists
	case "conf.d/20-frontends.cfg":
		return tree.Frontends
	case "maps/sluice.map":
		return tree.Generation
	}
	for _, k := range []struct {
		prefix, suffix string
		kind           tree.Kind
	}{
		{"conf.d/50-backends-", ".cfg", tree.Shard},
		{"maps/", ".map", tree.Map},
		{"crt-lists/", ".list", tree.CrtList},
		{"lists/", ".lst", tree.List},
		{"certs/", ".pem", tree.Cert},
		{"lua/", ".lua", tree.Lua},
		{"pages/", ".http", tree.Page},
	} {
		name, found := strings.CutPrefix(path, k.prefix)
		if found && strings.HasSuffix(name, k.suffix) && !strings.Contains(name, "/") && !strings.HasPrefix(name, ".") {
			return k.kind
		}
	}
	return Foreign
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
// written with.
func (f *Folder) Scan() (*tree.Tree, map[string][]byte, error) {
	content := map[string][]byte{}
	clear(f.stamps)
	t, err := f.walk(func(file tree.File, text []byte) {
		if file.Kind == tree.Cert || file.Kind == tree.Userlists || file.Kind == Foreign {
			text = nil
		}
		content[file.Path] = text
	})
	return t, content, err
}

// Compare tells what stands in the current generation, like Scan, but reads only those
// files whose size or time of change is another than when they were last read.
func (f *Folder) Compare() (*tree.Tree, error) {
	return f.walk(func(tree.File, []byte) {})
}

func (f *Folder) walk(read func(file tree.File, text []byte)) (*tree.Tree, error) {
	t := &tree.Tree{Files: map[string]tree.File{}}
	if f.current == 0 {
		return t, nil
	}
	root := f.Dir(f.current)
	stamps := make(map[string]stamp, len(f.stamps))
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return ignoreGone(err)
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		file := tree.File{Path: name, Kind: KindOf(name)}
		info, err := entry.Info()
		if err != nil {
			return ignoreGone(err)
		}
		if info.Mode().IsRegular() {
			now := stamp{size: info.Size(), mtime: info.ModTime(), mode: info.Mode()}
			old := f.stamps[name]
			now.digest = old.digest
			if old != now || now.digest.IsZero() {
				text, err := os.ReadFile(path)
				if err != nil {
					return ignoreGone(err)
				}
				now.digest = model.DigestOf(text)
				now.size = int64(len(text))
				read(file, text)
			}
			stamps[name] = now
			file.Size = now.size
			if wellGuarded(file.Kind, info.Mode()) {
				file.Digest = now.digest
			}
		}
		t.Files[name] = file
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the current generation: %w", err)
	}
	f.stamps = stamps
	return t, nil
}

// wellGuarded tells whether nobody else can read a file that holds keys or passwords.
func wellGuarded(kind tree.Kind, mode fs.FileMode) bool {
	return kind != tree.Cert && kind != tree.Userlists || mode.Perm() == 0o600
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
