package shard

import (
	"encoding/json"
	"fmt"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/tree"
)

// Version is the version of the registry's own layout. A registry of another version is
// not read: the disk is compared with what is wanted and rewritten where it differs.
const Version = 1

// Header is the part of the registry that does not belong to one shard.
type Header struct {
	Version    int          `json:"version"`
	Shards     int          `json:"shards"`     // number of shards
	Templates  model.Digest `json:"templates"`  // of all templates that rendered the files
	Generation int          `json:"generation"` // N of the current gen-N
	BootID     string       `json:"bootID"`     // of the machine's current start: a pid means nothing after another
	PID        int          `json:"pid"`        // of the HAProxy master that this registry speaks of; 0: none
}

// Record is what is known of one shard. The zero Record is that of a shard without
// backends, which has no file.
type Record struct {
	Shard    int          `json:"shard"`
	Model    model.Digest `json:"model"` // of the digests of the buckets
	Path     string       `json:"path"`  // of the shard file below the generation
	File     model.Digest `json:"file"`  // of the shard file's content
	Size     int64        `json:"size"`  // of the shard file, bytes
	Backends []Member     `json:"backends"`
}

// Member is one backend of a shard.
type Member struct {
	Name   string       `json:"name"`
	Digest model.Digest `json:"digest"`
}

// Registry is the one memory. Header and Records are kept on disk; the other fields are
// recovered at start from the folder and the running worker.
type Registry struct {
	Header  Header
	Records []Record // the index is the number of the shard

	// Tree are the files of the current generation.
	Tree *tree.Tree
	// Scanned says that Tree need not be what Records and Served speak of: it was read from
	// the disk, or the worker was told something that is not in it. Then no file is taken
	// over because its part of the model is served; all is rendered and compared.
	Scanned bool
	// Served is what the running worker serves; nil if that is not known, for the reason
	// Unknown, a few words; none: nothing runs yet.
	Served  *model.Model
	Unknown string
	// Worker is what is known of the running worker besides what it serves.
	Worker Worker
	// Batch is the number of the last applied batch: key "generation" of maps/sluice.map.
	Batch uint64
}

// Worker is what a worker is able to do at run time. Its maps are never changed.
type Worker struct {
	Dynamic bool // it takes "add backend"
	// Sections are the "defaults" sections that it can add a backend from: those that it read
	// when it was loaded, by name, with a digest of their text. The files hold a part of them,
	// those in use.
	Sections map[string]model.Digest
	// Lists are address lists that it has loaded and that nothing refers to any more, with
	// the entries that they had then: a profile that comes back refers to them again.
	Lists map[string]*model.List
}

// HeaderName is the file name of the header in the registry folder.
const HeaderName = "registry.json"

// RecordName is the file name of a shard's record in the registry folder.
func RecordName(shard int) string { return fmt.Sprintf("shard-%03d.json", shard) }

// Encode is the content of the header's file.
func (h Header) Encode() []byte { return encode(h) }

// Encode is the content of the record's file.
func (r Record) Encode() []byte { return encode(r) }

// DecodeHeader reads what Encode wrote. A header of another version is an error.
func DecodeHeader(text []byte) (Header, error) {
	var h Header
	if err := json.Unmarshal(text, &h); err != nil {
		return Header{}, fmt.Errorf("registry header: %w", err)
	}
	if h.Version != Version {
		return Header{}, fmt.Errorf("registry header: version %d, not %d", h.Version, Version)
	}
	return h, nil
}

// DecodeRecord reads what Encode wrote.
func DecodeRecord(text []byte) (Record, error) {
	var r Record
	if err := json.Unmarshal(text, &r); err != nil {
		return Record{}, fmt.Errorf("registry record: %w", err)
	}
	return r, nil
}

func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("shard: %T does not encode: %v", v, err)) // plain types only
	}
	return append(text, '\n')
}
