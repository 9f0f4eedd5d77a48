package model

import (
	"cmp"
	"slices"
	"strings"
)

// Names of the tables; each is the map file maps/<name>.map.
const (
	TableTLS       = "hosts-tls"      // host with TLS, wildcards with their "*." -> "t"
	TableHosts     = "hosts"          // exact host -> the backend that takes all its paths, else host flags
	TableWildcards = "hosts-wildcard" // what follows the first label of a wildcard host -> host flags
	TableExact     = "routes-exact"   // host#path -> backend
	TablePrefix    = "routes-prefix"  // host#path/ -> backend, the longest one wins
	TableTCP       = "tcp"            // port#host -> backend of a TCP service

	// Of the Gateway API; see package vhost for what stands in them.
	TableListeners  = "gateway-hosts"  // frontend#host -> virtual host
	TableRules      = "gateway-exact"  // virtual host#path -> backend, weighted set or list of rules
	TablePrefixes   = "gateway-prefix" // virtual host#path/ -> the same, the longest one wins
	TableConditions = "conditions"     // id of a list -> rules with conditions
	TableWeights    = "weights"        // id of a weighted set -> number of slots; id/slot -> backend
	TableValues     = "values"         // backend/slot -> text
)

// LeadsTo is the backend that an entry of a table leads to; empty where it leads to none.
func LeadsTo(table, value string) string {
	switch table {
	case TableExact, TablePrefix, TableTCP:
		return value
	case TableHosts:
		if strings.Contains(value, "_") { // as in every backend's name, and in no flags
			return value
		}
	}
	return ""
}

// Entry is one line of a map file.
type Entry struct{ Key, Value string }

// Table is the content of one map file: entries sorted by key, keys unique. A table
// that did not change is the same pointer in the next Model.
type Table struct {
	Name    string
	Entries []Entry
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
	merged := make([]Entry, 0, len(t.Entries)+len(edits))
	changed, from := false, 0
	for i, e := range edits {
		if i+1 < len(edits) && edits[i+1].Key == e.Key {
			continue
		}
		offset, found := slices.BinarySearchFunc(t.Entries[from:], e.Key, compareKey)
		at := from + offset
		merged = append(merged, t.Entries[from:at]...)
		from = at
		if found {
			from++
		}
		switch {
		case e.Value == nil:
			changed = changed || found
		default:
			merged = append(merged, Entry{e.Key, *e.Value})
			changed = changed || !found || t.Entries[at].Value != *e.Value
		}
	}
	if !changed {
		return t
	}
	return &Table{Name: t.Name, Entries: append(merged, t.Entries[from:]...)}
}

// Diff are the edits that make t of old, sorted by key. A nil table is an empty one.
func (t *Table) Diff(old *Table) []Edit {
	if t == old {
		return nil
	}
	var edits []Edit
	var before, after []Entry
	if old != nil {
		before = old.Entries
	}
	if t != nil {
		after = t.Entries
	}
	for len(before) > 0 || len(after) > 0 {
		switch order := compareHeads(before, after); {
		case order < 0:
			edits = append(edits, Edit{Key: before[0].Key})
			before = before[1:]
		case order > 0:
			edits = append(edits, Edit{Key: after[0].Key, Value: &after[0].Value})
			after = after[1:]
		default:
			if before[0].Value != after[0].Value {
				edits = append(edits, Edit{Key: after[0].Key, Value: &after[0].Value})
			}
			before, after = before[1:], after[1:]
		}
	}
	return edits
}

// Lookup is the value of a key.
func (t *Table) Lookup(key string) (string, bool) {
	i, found := slices.BinarySearchFunc(t.Entries, key, compareKey)
	if !found {
		return "", false
	}
	return t.Entries[i].Value, true
}

func compareKey(e Entry, key string) int { return cmp.Compare(e.Key, key) }

func compareHeads(a, b []Entry) int {
	switch {
	case len(a) == 0:
		return 1
	case len(b) == 0:
		return -1
	}
	return cmp.Compare(a[0].Key, b[0].Key)
}
