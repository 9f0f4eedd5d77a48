package memo

import (
	"slices"

	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
)

// set is a small set of pointers. Most sets of a Memo have one member, some have ten
// thousand.
type set[T comparable] struct {
	one  T // the only member while more is nil; zero: none
	more map[T]struct{}
}

// with is the set with x in it. The receiver must not be used afterwards.
func (s set[T]) with(x T) set[T] {
	var zero T
	switch {
	case s.more != nil:
		s.more[x] = struct{}{}
	case s.one == zero || s.one == x:
		s.one = x
	default:
		s.more = map[T]struct{}{s.one: {}, x: {}}
		s.one = zero
	}
	return s
}

// without is the set with x taken out. The receiver must not be used afterwards.
func (s set[T]) without(x T) set[T] {
	var zero T
	if s.more != nil {
		delete(s.more, x)
		if len(s.more) == 0 {
			s.more = nil
		}
	} else if s.one == x {
		s.one = zero
	}
	return s
}

func (s set[T]) empty() bool {
	var zero T
	return s.more == nil && s.one == zero
}

// each calls f for each member, in no order.
func (s set[T]) each(f func(T)) {
	var zero T
	if s.one != zero {
		f(s.one)
	}
	for x := range s.more {
		f(x)
	}
}

// queue is a list without repetitions.
type queue[T comparable] struct {
	items []T
	known map[T]struct{} // of items; nil while they are few
}

// few is how many items are searched one by one.
const few = 8

func (q *queue[T]) add(x T) {
	if q.known == nil {
		if slices.Contains(q.items, x) {
			return
		}
		if len(q.items) == few {
			q.known = make(map[T]struct{}, 4*few)
			for _, item := range q.items {
				q.known[item] = struct{}{}
			}
		}
	}
	if q.known != nil {
		before := len(q.known)
		if q.known[x] = struct{}{}; len(q.known) == before {
			return
		}
	}
	q.items = append(q.items, x)
}

// drain yields the members in the order in which they came, those added meanwhile too, and
// leaves the queue empty.
func (q *queue[T]) drain(yield func(T) bool) {
	for i := 0; i < len(q.items); i++ {
		if !yield(q.items[i]) {
			return
		}
	}
	*q = queue[T]{}
}

// node is a unit of conversion, as the index knows it.
type node interface{ lookups() *[]snapshot.Key }

// seen is embedded in each unit: the keys that it looked up, sorted.
type seen []snapshot.Key

func (s *seen) lookups() *[]snapshot.Key { return (*[]snapshot.Key)(s) }

// index leads from a key to the units that looked it up, found or missing.
type index struct {
	units  map[snapshot.Key]set[node]
	wanted map[snapshot.Key]struct{} // as of the last call of turns
	turned map[snapshot.Key]struct{} // keys whose first unit came, or last one went, since then
}

func newIndex(size int) index {
	return index{
		units:  make(map[snapshot.Key]set[node], size),
		wanted: map[snapshot.Key]struct{}{},
		turned: map[snapshot.Key]struct{}{},
	}
}

// note replaces the look-ups of a unit; both lists are sorted.
func (x *index) note(unit node, after []snapshot.Key) {
	before := *unit.lookups()
	*unit.lookups() = after
	for len(before) > 0 || len(after) > 0 {
		switch order := compareHeads(before, after); {
		case order < 0:
			x.remove(before[0], unit)
			before = before[1:]
		case order > 0:
			x.add(after[0], unit)
			after = after[1:]
		default:
			before, after = before[1:], after[1:]
		}
	}
}

func (x *index) add(key snapshot.Key, unit node) {
	units := x.units[key]
	if units.empty() && onDemand(key.Kind) {
		x.turned[key] = struct{}{}
	}
	x.units[key] = units.with(unit)
}

func (x *index) remove(key snapshot.Key, unit node) {
	left := x.units[key].without(unit)
	if !left.empty() {
		x.units[key] = left
		return
	}
	delete(x.units, key)
	if onDemand(key.Kind) {
		x.turned[key] = struct{}{}
	}
}

// onDemand tells whether a source may read objects of a kind only where they are looked up.
func onDemand(kind snapshot.Kind) bool {
	return kind == snapshot.Secret || kind == snapshot.ConfigMap
}

// turns are the keys of such kinds that are looked up, or no longer are, other than at the
// last call; both lists are sorted.
func (x *index) turns() (wanted, unwanted []snapshot.Key) {
	for key := range x.turned {
		_, before := x.wanted[key]
		_, after := x.units[key]
		switch {
		case after && !before:
			x.wanted[key] = struct{}{}
			wanted = append(wanted, key)
		case before && !after:
			delete(x.wanted, key)
			unwanted = append(unwanted, key)
		}
	}
	clear(x.turned)
	slices.SortFunc(wanted, snapshot.CompareKeys)
	slices.SortFunc(unwanted, snapshot.CompareKeys)
	return wanted, unwanted
}

func compareHeads(a, b []snapshot.Key) int {
	switch {
	case len(a) == 0:
		return 1
	case len(b) == 0:
		return -1
	}
	return snapshot.CompareKeys(a[0], b[0])
}
