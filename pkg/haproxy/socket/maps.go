package socket

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/plan"
	"github.com/sluice-proxy/sluice/pkg/haproxy/token"
	"github.com/sluice-proxy/sluice/pkg/haproxy/tree"
)

// manyAdds is the number of new entries above which they are sent as a payload.
const manyAdds = 50

// editMap sets and deletes entries. A key that "set map" does not find is added. "add
// map" is never sent to a key that may exist: HAProxy would hold it twice, and which of
// both counts depends on the lookup. "set map" takes no empty value: such an entry is
// deleted and added, which leaves it out for an instant where it existed.
func (s *session) editMap(c plan.EditMap) error {
	path, edits := mapPath(c.Map), lastOfEach(c.Edits)
	calls := make([]call, len(edits))
	for i, e := range edits {
		verb, value := "del map", []string(nil)
		if e.Value != nil && *e.Value != "" {
			verb, value = "set map", []string{*e.Value}
		}
		text, err := entryLine(verb, path, e.Key, value...)
		if err != nil {
			return err
		}
		calls[i] = call{verb, request{line: text}}
	}
	got, err := s.expect(calls...)
	if err != nil {
		return err
	}
	var add []pattern
	for i, e := range edits {
		if e.Value != nil && (got[i] == missing || *e.Value == "") {
			add = append(add, pattern{e.Key, *e.Value})
		}
	}
	return s.addToMap(path, add)
}

// pattern is an entry of a map.
type pattern struct{ key, value string }

// entryLine spells a command on a map or list. A key that begins with "#" would be
// taken for the number of an entry, one with a blank can't stand in a file.
func entryLine(verb, path, key string, value ...string) (string, error) {
	if key == "" || key[0] == '#' || strings.ContainsAny(key, " \t") {
		return "", &Invalid{What: verb, Why: fmt.Errorf("the key %q is empty, begins with # or holds a blank", key)}
	}
	return line(verb, append([]string{path, key}, value...)...)
}

// lastOfEach keeps the last edit of each key, in the order of these.
func lastOfEach(edits []model.Edit) []model.Edit {
	last := make(map[string]int, len(edits))
	for i, e := range edits {
		last[e.Key] = i
	}
	if len(last) == len(edits) {
		return edits
	}
	kept := make([]model.Edit, 0, len(last))
	for i, e := range edits {
		if last[e.Key] == i {
			kept = append(kept, e)
		}
	}
	return kept
}

// addToMap adds entries that are known not to exist.
func (s *session) addToMap(path string, entries []pattern) error {
	empty := func(e pattern) bool { return e.value == "" }
	if len(entries) > manyAdds || slices.ContainsFunc(entries, empty) {
		return s.addPayload(path, entries)
	}
	calls := make([]call, len(entries))
	for i, e := range entries {
		text, err := entryLine("add map", path, e.key, e.value)
		if err != nil {
			return err
		}
		calls[i] = call{"add map", request{line: text}}
	}
	_, err := s.expect(calls...)
	return err
}

// addPayload adds entries to a map with as few commands as their size allows. A line of
// the payload is a key, a blank and the value up to the end of the line; nothing is
// escaped, and an empty line would be taken for a part of the next key.
func (s *session) addPayload(path string, entries []pattern) error {
	head, err := line("add map", path)
	if err != nil {
		return err
	}
	room := s.limits.payload - len(head) - 64
	var b strings.Builder
	flush := func() error {
		if b.Len() == 0 {
			return nil
		}
		_, err := s.expect(call{"add map", request{line: head, payload: b.String()}})
		b.Reset()
		return err
	}
	for _, e := range entries {
		if err := token.CheckText(e.key+e.value, ""); err != nil {
			return &Invalid{What: "add map", Why: err}
		}
		l := e.key + " " + e.value + "\n"
		if b.Len()+len(l) > room {
			if err := flush(); err != nil {
				return err
			}
		}
		b.WriteString(l)
	}
	return flush()
}

// editList brings entries of an address list in and out. New ones first: an allow list
// is never shorter than both its states. "add acl" takes no payload. HAProxy deletes one entry per command (3.4) or
// all equal ones (3.2), so each is named by its reference.
func (s *session) editList(c plan.EditList) error {
	path := listPath(c.List)
	stands, err := s.listEntries(path)
	if err != nil {
		return err
	}
	var calls []call
	for _, entry := range c.Add {
		if len(stands[entry]) > 0 {
			continue
		}
		stands[entry] = []string{""} // an entry given twice is added once
		text, err := entryLine("add acl", path, entry)
		if err != nil {
			return err
		}
		calls = append(calls, call{"add acl", request{line: text}})
	}
	for _, entry := range c.Remove {
		for _, ref := range stands[entry] {
			calls = append(calls, call{"del acl", request{line: "del acl " + path + " #" + ref}})
		}
		delete(stands, entry)
	}
	_, err = s.expect(calls...)
	return err
}

// listEntries are the references of the entries of a list, by entry.
func (s *session) listEntries(path string) (map[string][]string, error) {
	text, err := line("show acl", path)
	if err != nil {
		return nil, err
	}
	answers, err := s.ask(request{line: text})
	if err != nil {
		return nil, err
	}
	stands := make(map[string][]string)
	for l := range strings.Lines(answers[0]) {
		ref, entry, ok := strings.Cut(strings.TrimSuffix(l, "\n"), " ")
		if !ok || !strings.HasPrefix(ref, "0x") {
			return nil, &UnexpectedAnswer{Command: text, Answer: quotable(answers[0])}
		}
		stands[entry] = append(stands[entry], ref)
	}
	return stands, nil
}

// mapEntry is the value of exactly this key in maps/<name>.map; of several, the first.
func (r *Runtime) mapEntry(ctx context.Context, name, key string) (string, bool, error) {
	text, err := entryLine("get map", mapPath(name), key)
	if err != nil {
		return "", false, err
	}
	answer, err := r.query(ctx, text)
	if err != nil {
		return "", false, err
	}
	for l := range strings.Lines(answer) {
		l = strings.TrimSuffix(l, "\n")
		if !strings.HasPrefix(l, "type=") {
			return "", false, &UnexpectedAnswer{Command: text, Answer: quotable(answer)}
		}
		// type=str, case=sensitive, found=yes, idx=tree, key="k", value="v", type="str"
		// A lookup by prefix may find a shorter key than the one asked for.
		_, rest, found := strings.Cut(l, `, key="`+key+`", value="`)
		if end := strings.LastIndex(rest, `", type="`); found && end >= 0 {
			return rest[:end], true, nil
		}
	}
	return "", false, nil
}

// Generation is the value of the key "generation" of maps/sluice.map; 0 where there is
// none.
func (r *Runtime) Generation(ctx context.Context) (uint64, error) {
	value, found, err := r.mapEntry(ctx, tree.GenerationMap, tree.GenerationKey)
	if err != nil || !found {
		return 0, err
	}
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the generation that haproxy holds is not a number: %w", err)
	}
	return n, nil
}

// SetGeneration sets the key "generation" of maps/sluice.map.
func (r *Runtime) SetGeneration(ctx context.Context, n uint64) error {
	value := strconv.FormatUint(n, 10)
	results, err := r.Run(ctx, []plan.Command{plan.EditMap{
		Map:   tree.GenerationMap,
		Edits: []model.Edit{{Key: tree.GenerationKey, Value: &value}},
	}})
	if err != nil {
		return err
	}
	return results[0].Err
}
