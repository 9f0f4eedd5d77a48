package model

import (
	"cmp"
	"slices"
)

// Table is the content of one map file: entries sorted by key, keys unique. A table
// that did not change is the same pointer in the next Model.
//
// Entries are kept in chunks, which tables that follow one another share: a change of one of
// a hundred thousand routes copies some hundred entries, and so much is compared.
type Table struct {
	Name   string
	chunks []chunk // none is empty
	size   int     // entries
}

// chunk holds its text too: the map file is written anew with each change, and to collect
// ten thousand keys from all over the heap takes longer than everything else together.
type chunk struct {
	entries []Entry
	text    []byte
}

func newChunk(entries []Entry) chunk {
	size := 0
	for _, e := range entries {
		size += len(e.Key) + len(e.Value) + len(" \n")
	}
	text := make([]byte, 0, size)
	for _, e := range entries {
		text = append(text, e.Key...)
		text = append(text, ' ')
		text = append(text, e.Value...)
		text = append(text, '\n')
	}
	return chunk{entries, text}
}

func (c chunk) last() string { return c.entries[len(c.entries)-1].Key }

// Entry is one line of a map file.
type Entry struct{ Key, Value string }

// chunkSize is what chunks are made of in entries; one with more than the double is split.
const chunkSize = 128

// NewTable is a table of entries in any order. Of two entries of one key the later one counts.
func NewTable(name string, entries ...Entry) *Table {
	edits := make([]Edit, len(entries))
	for i, e := range entries {
		edits[i] = Edit{e.Key, &e.Value}
	}
	return (&Table{Name: name}).With(edits)
}

// Len is the number of entries.
func (t *Table) Len() int { return t.size }

// All yields the entries in order.
func (t *Table) All(yield func(Entry) bool) {
	for _, c := range t.chunks {
		for _, e := range c.entries {
			if !yield(e) {
				return
			}
		}
	}
}

// Text is the map file, in parts, which tables share. HAProxy splits a line at the first blank (configuration manual,
// converter "map"). Keys and values passed token.MapKey and token.MapValue when they were put
// into the table: here that would cost all of them each time.
func (t *Table) Text() [][]byte {
	parts := make([][]byte, len(t.chunks))
	for i, c := range t.chunks {
		parts[i] = c.text
	}
	return parts
}

// Lookup is the value of a key.
func (t *Table) Lookup(key string) (string, bool) {
	at := t.chunkOf(key)
	if at == len(t.chunks) {
		return "", false
	}
	entries := t.chunks[at].entries
	i, found := slices.BinarySearchFunc(entries, key, compareKey)
	if !found {
		return "", false
	}
	return entries[i].Value, true
}

// chunkOf is the first chunk that does not end before a key.
func (t *Table) chunkOf(key string) int {
	at, _ := slices.BinarySearchFunc(t.chunks, key, func(c chunk, key string) int { return cmp.Compare(c.last(), key) })
	return at
}

// Edit is a wanted change of a table: Value nil takes the key out.
type Edit struct {
	Key   string
	Value *string
}

// With is the table after the edits, the same pointer where none of them changes
// anything. Of two edits of one key the later one counts.
func (t *Table) With(edits []Edit) *Table {
	edits = slices.Clone(edits)
	slices.SortStableFunc(edits, func(a, b Edit) int { return cmp.Compare(a.Key, b.Key) })
	next := &Table{Name: t.Name, chunks: make([]chunk, 0, len(t.chunks)+1), size: t.size}
	changed, from := false, 0
	for len(edits) > 0 {
		// What goes behind the last entry belongs to the last chunk.
		at := max(min(t.chunkOf(edits[0].Key), len(t.chunks)-1), 0)
		next.chunks = append(next.chunks, t.chunks[from:at]...)
		from = at
		var old chunk // of no entries: the table is empty
		n := len(edits)
		if at < len(t.chunks) {
			old = t.chunks[at]
			from++
			if from < len(t.chunks) {
				n, _ = slices.BinarySearchFunc(edits, old.last()+"\x00", func(e Edit, key string) int { return cmp.Compare(e.Key, key) })
			}
		}
		merged, differs := merge(old.entries, edits[:n])
		edits = edits[n:]
		if !differs {
			if len(old.entries) > 0 {
				next.chunks = append(next.chunks, old)
			}
			continue
		}
		changed = true
		next.size -= len(old.entries)
		next.add(merged)
	}
	if !changed {
		return t
	}
	next.chunks = append(next.chunks, t.chunks[from:]...)
	return next
}

// merge is a chunk after edits that are sorted by key, and whether it differs.
func merge(old []Entry, edits []Edit) (merged []Entry, differs bool) {
	merged = make([]Entry, 0, len(old)+len(edits))
	for i, e := range edits {
		if i+1 < len(edits) && edits[i+1].Key == e.Key {
			continue
		}
		at, found := slices.BinarySearchFunc(old, e.Key, compareKey)
		merged = append(merged, old[:at]...)
		before := ""
		if old = old[at:]; found {
			before, old = old[0].Value, old[1:]
		}
		if e.Value == nil {
			differs = differs || found
			continue
		}
		merged = append(merged, Entry{e.Key, *e.Value})
		differs = differs || !found || before != *e.Value
	}
	return append(merged, old...), differs
}

// add puts entries behind the others, in as many chunks as they need.
func (t *Table) add(entries []Entry) {
	for len(entries) > 0 {
		n := len(entries)
		if n > 2*chunkSize {
			n = chunkSize
		}
		t.chunks = append(t.chunks, newChunk(entries[:n:n]))
		t.size += n
		entries = entries[n:]
	}
}

// Diff are the edits that make t of old, sorted by key. A nil table is an empty one.
func (t *Table) Diff(old *Table) []Edit {
	if t == old {
		return nil
	}
	var edits []Edit
	var before, after cursor
	if old != nil {
		before.chunks = old.chunks
	}
	if t != nil {
		after.chunks = t.chunks
	}
	for {
		for before.same(after) {
			before.chunks, after.chunks = before.chunks[1:], after.chunks[1:]
		}
		b, a := before.head(), after.head()
		switch {
		case b == nil && a == nil:
			return edits
		case a == nil || b != nil && b.Key < a.Key:
			edits = append(edits, Edit{Key: b.Key})
			before.next()
		case b == nil || a.Key < b.Key:
			edits = append(edits, Edit{Key: a.Key, Value: &a.Value})
			after.next()
		default:
			if b.Value != a.Value {
				edits = append(edits, Edit{Key: a.Key, Value: &a.Value})
			}
			before.next()
			after.next()
		}
	}
}

// cursor walks through a table.
type cursor struct {
	chunks []chunk
	at     int // in the first of them
}

// head is the next entry, nil at the end.
func (c *cursor) head() *Entry {
	if len(c.chunks) == 0 {
		return nil
	}
	return &c.chunks[0].entries[c.at]
}

func (c *cursor) next() {
	if c.at++; c.at == len(c.chunks[0].entries) {
		c.chunks, c.at = c.chunks[1:], 0
	}
}

// same is whether both are about to begin the same chunk.
func (c *cursor) same(other cursor) bool {
	if len(c.chunks) == 0 || len(other.chunks) == 0 || c.at > 0 || other.at > 0 {
		return false
	}
	a, b := c.chunks[0].entries, other.chunks[0].entries
	return &a[0] == &b[0] && len(a) == len(b)
}

func compareKey(e Entry, key string) int { return cmp.Compare(e.Key, key) }
