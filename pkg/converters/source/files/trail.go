package files

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// step is one name that was looked up in one folder on the way to a file. Where a step
// changes, the way may lead elsewhere.
type step struct{ dir, name string }

// maxLinks is the number of symbolic links after which a way is a loop, as in the kernel
// (path_resolution(7)).
const maxLinks = 40

// trail follows a path from a folder, itself without symbolic links, to what it leads
// to, and notes each step. Steps up to the failing one are returned with an error.
func trail(dir, path string) (real string, steps []step, err error) {
	rest := components(path)
	if filepath.IsAbs(path) {
		dir = "/"
	}
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		if name == ".." {
			dir = filepath.Dir(dir)
			continue
		}
		steps = append(steps, step{dir, name})
		full := filepath.Join(dir, name)
		info, err := os.Lstat(full)
		if err != nil {
			return full, steps, err
		}
		if info.Mode()&os.ModeSymlink == 0 {
			dir = full
			continue
		}
		if links++; links > maxLinks {
			return full, steps, fmt.Errorf("%s: %w", full, syscall.ELOOP)
		}
		target, err := os.Readlink(full)
		if err != nil {
			return full, steps, err
		}
		if filepath.IsAbs(target) {
			dir = "/"
		}
		rest = append(components(target), rest...)
	}
	return dir, steps, nil
}

// components are the names of a path, ".." included and "." left out.
func components(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(name string) bool { return name == "" || name == "." })
}

// hidden tells whether a name is ignored in a folder.
func hidden(name string) bool { return strings.HasPrefix(name, ".") }

// isManifest tells whether a file of a folder is read.
func isManifest(name string) bool {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}

func isJSON(name string) bool { return strings.EqualFold(filepath.Ext(name), ".json") }

// distinct drops paths that are given twice, or that a folder given too would lead to.
func distinct(paths []string) []string {
	var list []string
	for i, path := range paths {
		if !slices.ContainsFunc(paths, func(other string) bool { return leadsTo(other, path) }) &&
			!slices.ContainsFunc(paths[:i], func(other string) bool { return equal(other, path) }) {
			list = append(list, path)
		}
	}
	return list
}

// leadsTo tells whether reading a folder finds a path below it.
func leadsTo(folder, path string) bool {
	rest, ok := below(folder, path)
	return ok && rest != "." && seenIn(path, rest)
}

func equal(a, b string) bool {
	rest, ok := below(a, b)
	return a == b || ok && rest == "."
}

// below gives the way from folder to path if path is the folder or stands in it.
func below(folder, path string) (string, bool) {
	if folder == Stdin || path == Stdin {
		return "", false
	}
	rest, err := filepath.Rel(absolute(folder), absolute(path))
	return rest, err == nil && filepath.IsLocal(rest)
}

// seenIn tells whether reading a folder would find the path that stands at rest in it.
func seenIn(path, rest string) bool {
	for _, name := range components(rest) {
		if hidden(name) {
			return false
		}
	}
	info, err := os.Stat(path)
	return isManifest(path) || err != nil || info.IsDir()
}

// absolute is a path from the root, without resolving symbolic links.
func absolute(path string) string {
	full, err := filepath.Abs(path)
	if err != nil { // the working folder is gone
		return filepath.Clean(path)
	}
	return full
}
