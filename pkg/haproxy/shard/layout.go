package shard

import (
	"fmt"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// The automatic number of shards starts so that a shard holds up to startFill backends,
// doubles where a shard would hold more than maxFill on average and halves below minFill.
// The gap between the two keeps a cluster that grows and shrinks from moving its backends
// to and fro.
const (
	startFill = 100
	maxFill   = 200
	minFill   = 25
)

// Options are what the user says about shards.
type Options struct {
	Shards    int          // --backend-shards; 0: automatic; at most model.Buckets
	Templates model.Digest // of the templates that render: another one renders every shard anew
}

// Layout is the division of the backends into shards.
type Layout struct {
	Header  Header
	Records []Record // File and Size are zero where the shard has to be rendered
	model   *model.Model
}

// Place divides the backends of m. It takes over the record of each shard whose backends
// and templates are those of the old registry, which may be nil.
func Place(old *Registry, m *model.Model, o Options) Layout {
	if old == nil {
		old = &Registry{}
	}
	header := old.Header
	header.Version = Version
	header.Templates = o.Templates
	header.Shards = count(old.Header.Shards, m.Backends.Len(), o.Shards)
	keep := old.Header.Shards == header.Shards && old.Header.Templates == o.Templates
	layout := Layout{Header: header, Records: make([]Record, header.Shards), model: m}
	for i := range layout.Records {
		keep := keep && i < len(old.Records) && old.stands(old.Records[i])
		if keep && layout.sameBuckets(old.Served, i) {
			layout.Records[i] = old.Records[i]
			continue
		}
		digest, empty := layout.digest(i)
		switch {
		case empty:
		case keep && old.Records[i].Model == digest:
			layout.Records[i] = old.Records[i]
		default:
			layout.Records[i] = Record{Shard: i, Model: digest, Path: Path(i), Backends: members(layout.Backends(i))}
		}
	}
	return layout
}

// Path is the path of a shard file below its generation.
func Path(shard int) string { return fmt.Sprintf("conf.d/50-backends-%03d.cfg", shard) }

// Backends are the backends of a shard, bucket by bucket and sorted by name in each.
func (l Layout) Backends(shard int) []*model.Backend {
	var list []*model.Backend
	for _, bucket := range l.Buckets(shard) {
		list = append(list, bucket.Backends...)
	}
	return list
}

// Buckets yields the buckets of a shard with their numbers, but those without backends.
func (l Layout) Buckets(shard int) func(func(int, *model.Bucket) bool) {
	return func(yield func(int, *model.Bucket) bool) {
		for i := range l.buckets(shard) {
			if bucket := l.model.Backends.Bucket(i); bucket != nil && !yield(i, bucket) {
				return
			}
		}
	}
}

// buckets yields the numbers of the buckets of a shard: a run, so that a change of the
// number of shards moves few backends.
func (l Layout) buckets(shard int) func(func(int) bool) {
	shards := len(l.Records)
	first := (shard*model.Buckets + shards - 1) / shards
	end := ((shard+1)*model.Buckets + shards - 1) / shards
	return func(yield func(int) bool) {
		for i := first; i < end; i++ {
			if !yield(i) {
				return
			}
		}
	}
}

// stands tells whether a shard's file is on disk as it was written.
func (r *Registry) stands(record Record) bool {
	if !r.Scanned || record.Path == "" {
		return true
	}
	file, ok := r.Tree.Lookup(record.Path)
	return ok && file.Digest == record.File
}

// sameBuckets tells whether the served model has the very buckets of a shard: the common
// case, for which nothing needs to be hashed. That a shard is empty on both sides says
// nothing: what is served may have been read from the files, and the record be older.
func (l Layout) sameBuckets(served *model.Model, shard int) bool {
	if served == nil {
		return false
	}
	same := false
	for i := range l.buckets(shard) {
		bucket := l.model.Backends.Bucket(i)
		if served.Backends.Bucket(i) != bucket {
			return false
		}
		same = same || bucket != nil
	}
	return same
}

func (l Layout) digest(shard int) (d model.Digest, empty bool) {
	var h *model.Hasher
	for i := range l.buckets(shard) {
		if bucket := l.model.Backends.Bucket(i); bucket != nil {
			if h == nil {
				h = model.NewHasher()
			}
			h.Int(int64(i)).Sum(bucket.Digest)
		}
	}
	if h == nil {
		return model.Digest{}, true
	}
	return h.Digest(), false
}

func members(backends []*model.Backend) []Member {
	list := make([]Member, len(backends))
	for i, b := range backends {
		list[i] = Member{b.Name, b.Digest}
	}
	return list
}

// count is the number of shards for n backends.
func count(old, n, wanted int) int {
	if wanted > 0 {
		return min(wanted, model.Buckets)
	}
	shards := old
	if shards == 0 {
		for shards = 1; n > shards*startFill && shards < model.Buckets; shards *= 2 {
		}
		return shards
	}
	for n > shards*maxFill && shards*2 <= model.Buckets {
		shards *= 2
	}
	for n < shards*minFill && shards > 1 {
		shards /= 2
	}
	return shards
}
