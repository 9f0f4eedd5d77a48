package model

import (
	"cmp"
	"slices"
)

// Buckets is the number of parts that the set of backends is divided in. A shard is a
// run of neighbouring buckets, so a bucket is the unit that moves between shards.
const Buckets = 1024

// Backends is the set of all backends, divided in buckets by a hash of the name. Sets
// that follow one another share their unchanged buckets.
type Backends struct {
	buckets [Buckets]*Bucket
	count   int
}

// Bucket holds the backends of one bucket, sorted by name.
type Bucket struct {
	Backends []*Backend
	Digest   Digest // of the digests of the backends
}

// BucketOf is the bucket of a backend's name.
func BucketOf(name string) int {
	// FNV-1a, written out: it must never change, since file names depend on it.
	h := uint32(2166136261)
	for i := range len(name) {
		h = (h ^ uint32(name[i])) * 16777619
	}
	h ^= h >> 15 // the low bits alone are the better mixed ones
	return int(h % Buckets)
}

// Len is the number of backends.
func (b *Backends) Len() int {
	if b == nil {
		return 0
	}
	return b.count
}

// Bucket is the i-th bucket; nil where it is empty.
func (b *Backends) Bucket(i int) *Bucket {
	if b == nil {
		return nil
	}
	return b.buckets[i]
}

// Lookup finds a backend by name; nil if there is none.
func (b *Backends) Lookup(name string) *Backend {
	bucket := b.Bucket(BucketOf(name))
	if bucket == nil {
		return nil
	}
	i, found := slices.BinarySearchFunc(bucket.Backends, name, compareName)
	if !found {
		return nil
	}
	return bucket.Backends[i]
}

// All calls yield for each backend, bucket by bucket.
func (b *Backends) All(yield func(*Backend) bool) {
	for i := range Buckets {
		bucket := b.Bucket(i)
		if bucket == nil {
			continue
		}
		for _, backend := range bucket.Backends {
			if !yield(backend) {
				return
			}
		}
	}
}

// With is the set with the given backends put in (or replaced) and the named ones taken
// out. A backend whose digest did not change leaves its bucket as it is.
func (b *Backends) With(put []*Backend, remove []string) *Backends {
	type edit struct {
		name string
		to   *Backend // nil: remove
	}
	edits := make(map[int][]edit)
	for _, name := range remove {
		i := BucketOf(name)
		edits[i] = append(edits[i], edit{name, nil})
	}
	for _, backend := range put {
		i := BucketOf(backend.Name)
		edits[i] = append(edits[i], edit{backend.Name, backend})
	}
	next := &Backends{}
	if b != nil {
		*next = *b
	}
	for i, list := range edits {
		var members []*Backend
		if old := b.Bucket(i); old != nil {
			members = slices.Clone(old.Backends)
		}
		before := len(members)
		changed := false
		for _, e := range list {
			at, found := slices.BinarySearchFunc(members, e.name, compareName)
			switch {
			case e.to == nil && found:
				members, changed = slices.Delete(members, at, at+1), true
			case e.to != nil && !found:
				members, changed = slices.Insert(members, at, e.to), true
			case e.to != nil && members[at].Digest != e.to.Digest:
				members[at], changed = e.to, true
			}
		}
		if changed {
			next.buckets[i] = newBucket(members)
			next.count += len(members) - before
		}
	}
	return next
}

func newBucket(members []*Backend) *Bucket {
	if len(members) == 0 {
		return nil
	}
	h := NewHasher()
	for _, backend := range members {
		h.Sum(backend.Digest)
	}
	return &Bucket{Backends: members, Digest: h.Digest()}
}

func compareName(b *Backend, name string) int { return cmp.Compare(b.Name, name) }
