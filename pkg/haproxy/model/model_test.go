package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestSecretNeverPrintsItself(t *testing.T) {
	s := NewSecret([]byte("hunter2"))
	encoded, err := json.Marshal(struct{ S Secret }{s})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{fmt.Sprint(s), fmt.Sprintf("%v %+v %#v %s %q %x %d", s, s, s, s, s, s, s), fmt.Sprintf("%+v", struct{ S *Secret }{&s}), string(encoded), s.LogValue().String()} {
		if strings.Contains(text, "hunter2") || strings.Contains(text, "68756e746572") {
			t.Errorf("the secret shows in %q", text)
		}
	}
	if s.Reveal() != "hunter2" {
		t.Error("Reveal lost the content")
	}
}

func TestHasherKeepsPartsApart(t *testing.T) {
	if NewHasher().Str("ab", "c").Digest() == NewHasher().Str("a", "bc").Digest() {
		t.Error("two lists of parts have one digest")
	}
}

func entriesOf(t *Table) []Entry { return slices.Collect(t.All) }

// An edit of a large table copies one chunk of it, or splits it.
func TestTablesShareWhatDidNotChange(t *testing.T) {
	entries := make([]Entry, 10*chunkSize)
	for i := range entries {
		entries[i] = Entry{Key: fmt.Sprintf("host-%04d", i), Value: "t"}
	}
	before, value := NewTable("t", entries...), "-"
	after := before.With([]Edit{{"host-0300", &value}, {"zzz", &value}, {Key: "none"}})
	copied := 0
	for i, c := range after.chunks {
		if i >= len(before.chunks) || &c.entries[0] != &before.chunks[i].entries[0] {
			copied++
		}
	}
	if copied > 3 || after.Len() != len(entries)+1 {
		t.Errorf("%d chunks copied of %d, %d entries", copied, len(after.chunks), after.Len())
	}
}

// A Table after any edits holds what a map after the same edits holds, and Diff leads
// from one to the other.
func TestTableIsASortedMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, want := &Table{Name: "t"}, map[string]string{}
		for range rapid.IntRange(1, 5).Draw(t, "rounds") {
			var edits []Edit
			few := rapid.Bool().Draw(t, "few")
			for range rapid.IntRange(0, map[bool]int{true: 6, false: 4 * chunkSize}[few]).Draw(t, "edits") {
				key := rapid.StringMatching(map[bool]string{true: `[a-d]{1,2}`, false: `[a-d]{1,6}`}[few]).Draw(t, "key")
				if rapid.Bool().Draw(t, "remove") {
					edits = append(edits, Edit{Key: key})
					delete(want, key)
					continue
				}
				value := rapid.StringMatching(`[x-z]`).Draw(t, "value")
				edits = append(edits, Edit{Key: key, Value: &value})
				want[key] = value
			}
			before := table
			table = before.With(edits)
			got := map[string]string{}
			for e := range table.All {
				got[e.Key] = e.Value
			}
			if diff := cmp.Diff(want, got); diff != "" || !slices.IsSortedFunc(entriesOf(table), func(a, b Entry) int { return strings.Compare(a.Key, b.Key) }) {
				t.Fatalf("table %v: %s", entriesOf(table), diff)
			}
			if again := before.With(table.Diff(before)); !slices.Equal(entriesOf(again), entriesOf(table)) {
				t.Fatalf("Diff leads to %v, not to %v", entriesOf(again), entriesOf(table))
			}
			text := ""
			for e := range table.All {
				text += e.Key + " " + e.Value + "\n"
			}
			if string(bytes.Join(table.Text(), nil)) != text {
				t.Fatalf("the text is %q, not %q", bytes.Join(table.Text(), nil), text)
			}
			if table.Len() != len(want) {
				t.Fatalf("%d entries, and Len is %d", len(want), table.Len())
			}
			if len(table.Diff(before)) == 0 && table != before {
				t.Fatal("an unchanged table is another pointer")
			}
		}
	})
}

// Backends after any edits hold what a map holds, and buckets that nothing changed in
// are shared.
func TestBackendsAreAMap(t *testing.T) {
	profile := &Profile{Name: DefaultProfile}
	rapid.Check(t, func(t *rapid.T) {
		var set *Backends
		want := map[string]Digest{}
		for range rapid.IntRange(1, 6).Draw(t, "rounds") {
			var put []*Backend
			var remove []string
			names := rapid.SliceOfDistinct(rapid.StringMatching(`[ab]_[a-z]{1,2}_80`), rapid.ID[string]).Draw(t, "names")
			touched := map[int]bool{}
			for _, name := range names {
				touched[BucketOf(name)] = true
				if rapid.Bool().Draw(t, "remove") {
					remove = append(remove, name)
					delete(want, name)
					continue
				}
				b := &Backend{Name: name, Profile: profile, Static: rapid.StringMatching(`[xy]?`).Draw(t, "static")}
				put = append(put, b.Seal())
				want[name] = b.Digest
			}
			before := set
			set = set.With(put, remove)
			got := map[string]Digest{}
			for b := range set.All {
				got[b.Name] = b.Digest
			}
			if !maps.Equal(got, want) || set.Len() != len(want) {
				t.Fatalf("set %v (%d), want %v", got, set.Len(), want)
			}
			for i := range Buckets {
				if !touched[i] && set.Bucket(i) != before.Bucket(i) {
					t.Fatalf("bucket %d changed without a reason", i)
				}
			}
		}
	})
}

func TestShapeIsNamedByWhatItIs(t *testing.T) {
	list := func(entries ...string) *List { return &List{Name: "allow_1", Entries: entries} }
	a, b := NewProfile(Shape{AllowList: list("10.0.0.0/8")}), NewProfile(Shape{AllowList: list("192.0.2.1")})
	if a.Name != b.Name {
		t.Error("the entries of a list change the profile, though they change at run time")
	}
	if a.Name == NewProfile(Shape{AllowList: list(), Deny: 503}).Name {
		t.Error("two shapes have one name")
	}
}
