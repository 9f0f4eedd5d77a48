package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/shard"
)

// LoadRegistry reads the header and the records. What is missing, damaged or of another
// version is the zero Header or Record, never an error: it costs a rewrite. Records that
// are not part of the registry are removed: nobody would overwrite them. An error means
// that the disk could not be read.
func (f *Folder) LoadRegistry() (*shard.Registry, error) {
	r := &shard.Registry{}
	text, err := f.readRegistry(shard.HeaderName)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	header, err := shard.DecodeHeader(text)
	if err != nil || header.Shards < 0 || header.Shards > model.Buckets {
		return r, f.dropRecords(known)
	}
	r.Header = header
	r.Records = make([]shard.Record, header.Shards)
	for i := range r.Records {
		text, err := f.readRegistry(shard.RecordName(i))
		if err != nil {
			return nil, err
		}
		if record, err := shard.DecodeRecord(text); err == nil && record.Shard == i && record.Path == shard.Path(i) {
			r.Records[i] = record
			known[shard.RecordName(i)] = true
		}
	}
	return r, f.dropRecords(known)
}

// dropRecords removes all records but the known ones: they are damaged, were written
// before a kill in the midst of a change of the number of shards, or are somebody else's.
func (f *Folder) dropRecords(known map[string]bool) error {
	paths, err := filepath.Glob(filepath.Join(f.registry, "shard-*.json"))
	for _, path := range paths {
		if !known[filepath.Base(path)] {
			err = errors.Join(err, os.Remove(path))
		}
	}
	if err != nil {
		return fmt.Errorf("remove leftovers of the registry: %w", err)
	}
	return nil
}

func (f *Folder) readRegistry(name string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(f.registry, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the registry: %w", err)
	}
	return text, nil
}

// SaveHeader replaces the header's file.
func (f *Folder) SaveHeader(h shard.Header) error {
	return f.saveRegistry(shard.HeaderName, h.Encode())
}

// SaveRecord replaces the file of a shard's record.
func (f *Folder) SaveRecord(r shard.Record) error {
	return f.saveRegistry(shard.RecordName(r.Shard), r.Encode())
}

// RemoveRecord removes the file of a shard's record.
func (f *Folder) RemoveRecord(n int) error {
	err := os.Remove(filepath.Join(f.registry, shard.RecordName(n)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("save the registry: %w", err)
	}
	f.fault("registry written")
	return nil
}

// saveRegistry does not sync: see the package comment.
func (f *Folder) saveRegistry(name string, text []byte) error {
	path := filepath.Join(f.registry, name)
	if err := replace(path, [][]byte{text}, options{mode: 0o644, fault: f.fault}); err != nil {
		return fmt.Errorf("save the registry: %w", err)
	}
	f.fault("registry written")
	return nil
}
