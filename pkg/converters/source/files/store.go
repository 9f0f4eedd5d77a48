package files

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// file is what one file contributes. It is not modified: reading it again gives a new
// content, which put takes over.
type file struct {
	order   int    // of the path it was found by, among the paths given
	path    string // as shown
	content content
}

// content is what is in force of a file, and what is to be said about it.
type content struct {
	entries   []entry
	foreign   []foreign
	findings  []report.Finding
	digests   []model.Digest // of the newest text's documents
	documents []*document
}

// entry is one object that is in force.
type entry struct {
	key   snapshot.Key
	value any
	line  int
}

// read is the content of a file whose text is data. Documents whose text did not change
// are not decoded again. A document that can't be read leaves the former entries in
// force, an object that does not fit its type its own.
func (f *file) read(data []byte) content {
	chunks := split(bytes.TrimPrefix(data, []byte("\ufeff"))) // the mark that some editors begin a file with
	next := content{digests: make([]model.Digest, len(chunks))}
	for i, c := range chunks {
		next.digests[i] = c.digest
	}
	next.documents = f.decode(chunks, next.digests)
	broken := slices.ContainsFunc(next.documents, func(d *document) bool { return d.broken })
	if broken {
		next.entries, next.foreign = f.content.entries, f.content.foreign
	} else {
		next.entries = make([]entry, 0, len(chunks))
	}
	for i, d := range next.documents {
		if broken && !d.broken {
			continue
		}
		next.say(f, d.remarks, chunks[i].start)
		if !broken {
			next.take(f, d, chunks[i].start)
		}
	}
	return next
}

// decode decodes what is new, in parallel: at start that is everything.
func (f *file) decode(chunks []chunk, digests []model.Digest) []*document {
	documents := make([]*document, len(chunks))
	front, back := common(f.content.digests, digests, func(a, b model.Digest) bool { return a == b })
	moved := len(f.content.digests) - len(digests)
	copy(documents[:front], f.content.documents)
	for i := back; i < len(documents); i++ {
		documents[i] = f.content.documents[i+moved]
	}
	known := map[model.Digest]*document{}
	for i := front; i < back+moved; i++ {
		known[f.content.digests[i]] = f.content.documents[i]
	}
	json := isJSON(f.path)
	parallel(back-front, func(i int) {
		i += front
		if documents[i] = known[digests[i]]; documents[i] == nil {
			documents[i] = decode(chunks[i], json)
		}
	})
	return documents
}

// common tells how far two lists are equal from the front, and from which index of the
// second on they are equal to the end.
func common[T any](a, b []T, equal func(T, T) bool) (front, back int) {
	for front < min(len(a), len(b)) && equal(a[front], b[front]) {
		front++
	}
	back = len(b)
	for moved := len(a) - len(b); back > front && back+moved > front && equal(a[back+moved-1], b[back-1]); {
		back--
	}
	return front, back
}

// take puts the objects of a document in force.
func (c *content) take(f *file, d *document, start int) {
	for _, o := range d.objects {
		e := entry{o.key, o.value, start + o.line}
		if o.value == nil {
			fate := "the object is left out"
			if e.value = f.former(o.key); e.value != nil {
				fate = "its last good form stays in force"
			}
			finding := report.New(report.ManifestUnreadable, o.key.Origin(), "%s; %s", o.refusal, fate)
			finding.File, finding.Line = f.path, e.line
			c.findings = append(c.findings, finding)
		}
		if e.value != nil {
			c.entries = append(c.entries, e)
		}
	}
	for _, o := range d.foreign {
		o.line += start
		c.foreign = append(c.foreign, o)
	}
}

// former is the form of an object that is in force, nil if there is none.
func (f *file) former(key snapshot.Key) any {
	at := slices.IndexFunc(f.content.entries, func(e entry) bool { return e.key == key })
	if at < 0 {
		return nil
	}
	return f.content.entries[at].value
}

// say gives the remarks their places.
func (c *content) say(f *file, remarks []remark, start int) {
	for _, r := range remarks {
		finding := r.finding
		finding.File, finding.Line = f.path, start+r.line
		if finding.Object.IsZero() {
			finding.Object = fileOrigin(f.path)
		}
		if finding.Code == report.ManifestUnreadable {
			finding.Message += f.fate()
		}
		c.findings = append(c.findings, finding)
	}
}

// fate says what becomes of the file if it can't be read.
func (f *file) fate() string {
	if len(f.content.entries) > 0 {
		return "; the file's last good content stays in force"
	}
	return "; nothing of the file is used"
}

// fileOrigin is the origin of findings about a file rather than an object.
func fileOrigin(path string) model.Origin { return model.Origin{Kind: "File", Name: path} }

// claim is one file's right to say what an object is.
type claim struct {
	file  *file
	entry entry
}

func (c claim) String() string { return fmt.Sprintf("%s:%d", c.file.path, c.entry.line) }

// compareClaims orders by the rule of who wins.
func compareClaims(a, b claim) int {
	return cmp.Or(compareFiles(a.file, b.file), cmp.Compare(a.entry.line, b.entry.line))
}

func compareFiles(a, b *file) int {
	return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(a.path, b.path))
}

// store joins the files: it knows which object wins, and what was delivered already.
type store struct {
	talking   map[*file]struct{}       // there is something to say about them
	claims    map[snapshot.Key][]claim // by who wins; never empty
	contested map[snapshot.Key]struct{}
	dirty     map[snapshot.Key]struct{} // may differ from what was delivered
	delivered map[snapshot.Key]any
}

func newStore() *store {
	return &store{
		talking:   map[*file]struct{}{},
		claims:    map[snapshot.Key][]claim{},
		contested: map[snapshot.Key]struct{}{},
		dirty:     map[snapshot.Key]struct{}{},
		delivered: map[snapshot.Key]any{},
	}
}

// put takes over the new content of a file. It takes time for what changed in it, and
// little for the rest.
func (s *store) put(f *file, next content) {
	former := f.content.entries
	front, back := common(former, next.entries, func(a, b entry) bool { return a.key == b.key && a.value == b.value })
	moved := len(former) - len(next.entries)
	for _, e := range former[front : back+moved] {
		s.withdraw(f, e)
	}
	for i, e := range next.entries {
		switch {
		case i < front:
			s.move(f, former[i], e)
		case i >= back:
			s.move(f, former[i+moved], e)
		}
	}
	for _, e := range next.entries[front:back] {
		s.claim(claim{f, e})
	}
	f.content = next
	delete(s.talking, f)
	if len(next.findings)+len(next.foreign) > 0 {
		s.talking[f] = struct{}{}
	}
}

func (s *store) claim(c claim) {
	list := s.claims[c.entry.key]
	at, _ := slices.BinarySearchFunc(list, c, func(a, b claim) int {
		return cmp.Or(compareClaims(a, b), -1) // behind its equals
	})
	s.claims[c.entry.key] = slices.Insert(list, at, c)
	s.touch(c.entry.key)
}

// move notes that an entry stands on another line.
func (s *store) move(f *file, from, to entry) {
	if from.line == to.line {
		return
	}
	list := s.claims[from.key]
	list[slices.Index(list, claim{f, from})] = claim{f, to}
}

func (s *store) withdraw(f *file, e entry) {
	list := s.claims[e.key]
	at := slices.Index(list, claim{f, e})
	if list = slices.Delete(list, at, at+1); len(list) == 0 {
		delete(s.claims, e.key)
	} else {
		s.claims[e.key] = list
	}
	s.touch(e.key)
}

// fail says that a file can't be read; what is in force of it stays.
func (s *store) fail(f *file, line int, message string) {
	s.talking[f] = struct{}{}
	finding := report.New(report.ManifestUnreadable, fileOrigin(f.path), "%s", oneLine(message))
	finding.File, finding.Line = f.path, line
	f.content.findings = []report.Finding{finding}
}

// drop forgets a file and takes its objects out of force.
func (s *store) drop(f *file) {
	s.put(f, content{})
}

func (s *store) touch(key snapshot.Key) {
	s.dirty[key] = struct{}{}
	delete(s.contested, key)
	if len(s.claims[key]) > 1 {
		s.contested[key] = struct{}{}
	}
}

// changes are the differences from what was delivered, by key.
func (s *store) changes() []snapshot.Change {
	var changes []snapshot.Change
	for _, key := range slices.SortedFunc(maps.Keys(s.dirty), snapshot.CompareKeys) {
		old, had := s.delivered[key]
		list := s.claims[key]
		switch {
		case len(list) == 0 && had:
			changes = append(changes, snapshot.Change{Key: key})
		case len(list) == 0 || had && same(old, list[0].entry.value):
		default:
			position := snapshot.Position{File: list[0].file.path, Line: list[0].entry.line}
			changes = append(changes, snapshot.Change{Key: key, Object: list[0].entry.value, Position: position})
		}
	}
	return changes
}

// same compares pointers first: an object whose text did not change is the same one.
func same(a, b any) bool { return a == b || reflect.DeepEqual(a, b) }

// deliver notes that the changes reached the receiver.
func (s *store) deliver(changes []snapshot.Change) {
	for _, c := range changes {
		if c.Object == nil {
			delete(s.delivered, c.Key)
			continue
		}
		s.delivered[c.Key] = c.Object
	}
	clear(s.dirty)
}

// findings are all that is to be said at present.
func (s *store) findings() []report.Finding {
	files := slices.SortedFunc(maps.Keys(s.talking), compareFiles)
	var all []report.Finding
	for _, f := range files {
		all = append(all, f.content.findings...)
	}
	for key := range s.contested {
		winner := s.claims[key][0]
		for _, c := range s.claims[key][1:] {
			finding := report.New(report.ObjectInvalid, key.Origin(),
				"given twice: %s is used because it comes first, %s is not; remove one of them", winner, c)
			finding.File, finding.Line = c.file.path, c.entry.line
			all = append(all, finding)
		}
	}
	return report.Sort(append(all, foreignFindings(files)...))
}

// foreignFindings are one finding for each kind that sluice does not read.
func foreignFindings(files []*file) []report.Finding {
	index := map[foreign]int{} // without line -> place in the result
	var list []report.Finding
	var counts []int
	for _, f := range files {
		for _, o := range f.content.foreign {
			line := o.line
			o.line = 0
			at, ok := index[o]
			if !ok {
				at = len(list)
				index[o] = at
				finding := report.New(report.ObjectUnsupported, model.Origin{Kind: o.kind, Name: "*"},
					"of kind %s, version %s, not read by sluice%s", o.kind, o.apiVersion, foreignAdvice(o.kind))
				finding.Message, finding.File, finding.Line = oneLine(finding.Message), f.path, line
				list, counts = append(list, finding), append(counts, 0)
			}
			counts[at]++
		}
	}
	for i, n := range counts {
		objects := "objects"
		if n == 1 {
			objects = "object"
		}
		list[i].Message = fmt.Sprintf("%d %s %s", n, objects, list[i].Message)
	}
	return list
}
