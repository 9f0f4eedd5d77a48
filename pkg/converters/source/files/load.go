package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// maxSize is the size up to which a file is read, in bytes.
const maxSize = 64 << 20

// errChanged says that a file was written to while it was read.
var errChanged = errors.New("changed while it was read")

// load reads the files that were noted, in parallel, and hands them to the store in
// order. It returns the spots of those that changed meanwhile.
func (t *tree) load() (again []spot) {
	reads := t.toRead()
	contents := make([]content, len(reads))
	errs := make([]error, len(reads))
	parallel(len(reads), func(i int) {
		var data []byte
		if data, errs[i] = t.slurp(reads[i]); errs[i] == nil {
			contents[i] = reads[i].file.read(data)
		}
	})
	for i, n := range reads {
		n.err = errs[i]
		switch {
		case errs[i] == nil:
			t.store.put(n.file, contents[i])
		case errors.Is(errs[i], errChanged), !t.once && errors.Is(errs[i], fs.ErrNotExist):
			n.info = nil
			again = append(again, spotOf(n))
		default:
			t.trouble(n, "can't be read: %s%s", reason(errs[i]), n.file.fate())
		}
	}
	return again
}

// toRead are the nodes that were noted, once each, and without those that are gone or
// became something else since.
func (t *tree) toRead() []*node {
	seen := map[*node]struct{}{}
	var list []*node
	for _, n := range t.reads {
		if _, ok := seen[n]; ok || n.gone || n.info == nil {
			continue
		}
		seen[n] = struct{}{}
		t.fileOf(n)
		list = append(list, n)
	}
	t.reads = nil
	return list
}

// slurp is the text of a file.
func (t *tree) slurp(n *node) ([]byte, error) {
	f, err := os.Open(n.real)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	before, err := f.Stat()
	if err != nil {
		return nil, err
	}
	data, err := limited(f)
	if err != nil {
		return nil, err
	}
	if !t.once {
		after, err := f.Stat()
		if err != nil {
			return nil, err
		}
		if before.Size() != after.Size() || !before.ModTime().Equal(after.ModTime()) {
			return nil, errChanged
		}
	}
	// A shell's "command > file" empties the file before the command has run.
	if len(data) == 0 && len(n.file.content.entries) > 0 {
		return nil, errors.New("the file is empty (delete it to remove its objects)")
	}
	return data, nil
}

// limited reads up to maxSize.
func limited(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxSize+1))
	if err == nil && len(data) > maxSize {
		return nil, fmt.Errorf("larger than %d MB; split it into several files", maxSize>>20)
	}
	return data, err
}
