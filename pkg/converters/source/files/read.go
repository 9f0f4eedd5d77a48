package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
)

// Stdin is the path that stands for standard input.
const Stdin = "-"

// Content is what the paths hold.
type Content struct {
	Changes  []snapshot.Change // one for each object, by key; never an end
	Findings []report.Finding  // sorted
}

// Read reads folders, files and, for "-", stdin once. Manifests that can't be read are
// findings; an error is a path that is missing, can't be opened or holds no manifest.
func Read(paths []string, stdin io.Reader) (*Content, error) {
	if len(paths) == 0 {
		return nil, errors.New("no source: name a folder, a file, or - for standard input")
	}
	s := newStore()
	paths = distinct(paths)
	t := newTree(paths, s, deaf{})
	t.once = true
	for _, n := range t.roots {
		if err := checkPath(n.path); err != nil {
			return nil, err
		}
	}
	t.refresh(t.all())
	for _, n := range t.roots {
		if err := checkRoot(n); err != nil {
			return nil, err
		}
	}
	if at := slices.Index(paths, Stdin); at >= 0 {
		if err := readStdin(s, at, stdin); err != nil {
			return nil, err
		}
	}
	return &Content{Changes: s.changes(), Findings: s.findings()}, nil
}

// checkPath tells what is wrong with a path that was given.
func checkPath(path string) error {
	_, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("source %s: there is no such file or folder; name a folder of manifests, a file, or - for standard input", path)
	case err != nil:
		return fmt.Errorf("source %s can't be read: %w", path, err)
	}
	return nil
}

// checkRoot tells whether a path that was read held manifests.
func checkRoot(n *node) error {
	if n.children == nil {
		if at := (*fs.PathError)(nil); errors.As(n.err, &at) {
			return fmt.Errorf("source %s can't be read: %w", n.path, n.err)
		}
		return nil
	}
	if n.file != nil {
		return fmt.Errorf("source %s: %s", n.path, n.file.content.findings[0].Message)
	}
	if !holdsFile(n) {
		return fmt.Errorf("source %s: the folder holds no *.yaml, *.yml or *.json file; put manifests there or name another folder", n.path)
	}
	return nil
}

func holdsFile(n *node) bool {
	if n.file != nil {
		return true
	}
	for _, child := range n.children {
		if holdsFile(child) {
			return true
		}
	}
	return false
}

func readStdin(s *store, order int, stdin io.Reader) error {
	f := &file{order: order, path: "stdin"}
	data, err := limited(stdin)
	if err != nil {
		return fmt.Errorf("standard input can't be read: %w", err)
	}
	if len(data) == 0 {
		return errors.New("standard input is empty; pipe manifests into the command")
	}
	s.put(f, f.read(data))
	return nil
}
