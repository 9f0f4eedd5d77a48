package memo

import (
	"cmp"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/pkg/converters/resolve"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// pool holds parts of the Model that several units may bring, by name, for as long as one
// of them does. Two units can bring different parts of one name, for example certificates
// of equal content from two Secrets: these are variants, told apart by a key, and the first
// one by key is in the Model.
type pool[T comparable] struct {
	nameOf   func(T) string
	variants map[string][]variant[T] // by name, each list sorted by key
	changed  queue[string]
	list     []T // what is in the Model, sorted by name
}

type variant[T comparable] struct {
	key     string // equal keys: equal parts
	value   T
	holders int
}

// holding is a unit's share in one variant.
type holding struct {
	pool      interface{ release(name, key string) }
	name, key string
}

func newPool[T comparable](nameOf func(T) string) *pool[T] {
	return &pool[T]{nameOf: nameOf, variants: map[string][]variant[T]{}}
}

// hold takes a share in a part and returns the one that stands for all that are equal.
func (p *pool[T]) hold(key string, value T) (T, holding) {
	name := p.nameOf(value)
	list := p.variants[name]
	i, found := slices.BinarySearchFunc(list, key, func(v variant[T], key string) int { return cmp.Compare(v.key, key) })
	if !found {
		list = slices.Insert(list, i, variant[T]{key: key, value: value})
		p.variants[name] = list
		p.changed.add(name)
	}
	list[i].holders++
	return list[i].value, holding{p, name, key}
}

func (p *pool[T]) release(name, key string) {
	list := p.variants[name]
	i := slices.IndexFunc(list, func(v variant[T]) bool { return v.key == key })
	list[i].holders--
	if list[i].holders > 0 {
		return
	}
	p.changed.add(name)
	if list = slices.Delete(list, i, i+1); len(list) == 0 {
		delete(p.variants, name)
	} else {
		p.variants[name] = list
	}
}

// settle brings the list in line with the variants. It tells whether anything changed.
func (p *pool[T]) settle() bool {
	var edits []edit[T]
	for name := range p.changed.drain {
		e := edit[T]{name: name}
		if list := p.variants[name]; len(list) > 0 {
			e.value, e.keep = list[0].value, true
		}
		edits = append(edits, e)
	}
	next, changed := merged(p.list, p.nameOf, edits)
	p.list = next
	return changed
}

// edit is a wanted change of a sorted list: what shall stand there under a name, or, with
// keep not set, that nothing shall.
type edit[T comparable] struct {
	name  string
	value T
	keep  bool
}

// merged is a list, sorted by name, after the edits, of which no two have one name. The
// given list stays as it is; where nothing changes, it is returned.
func merged[T comparable](list []T, nameOf func(T) string, edits []edit[T]) ([]T, bool) {
	if len(edits) == 0 {
		return list, false
	}
	slices.SortFunc(edits, func(a, b edit[T]) int { return cmp.Compare(a.name, b.name) })
	next := make([]T, 0, len(list)+len(edits))
	changed, from := false, 0
	for _, e := range edits {
		offset, found := slices.BinarySearchFunc(list[from:], e.name, func(t T, name string) int { return cmp.Compare(nameOf(t), name) })
		next = append(next, list[from:from+offset]...)
		from += offset
		if e.keep {
			next = append(next, e.value)
		}
		changed = changed || found != e.keep || found && list[from] != e.value
		if found {
			from++
		}
	}
	if !changed {
		return list, false
	}
	return append(next, list[from:]...), true
}

// pools are all pools of a Memo.
type pools struct {
	profiles     *pool[*model.Profile]
	lists        *pool[*model.List]
	userlists    *pool[*model.Userlist]
	certificates *pool[*model.Certificate]
	caFiles      *pool[*model.Certificate]
	resolvers    int // backends with servers by DNS name
}

func newPools() pools {
	file := func(c *model.Certificate) string { return c.Name }
	return pools{
		profiles:     newPool(func(p *model.Profile) string { return p.Name }),
		lists:        newPool(func(l *model.List) string { return l.Name }),
		userlists:    newPool(func(u *model.Userlist) string { return u.Name }),
		certificates: newPool(file),
		caFiles:      newPool(file),
	}
}

// hold takes shares in everything that a backend brings along. The default profile is not
// among them: it is held by the global settings. The backend gets the profile that stands
// for all equal ones.
func (p *pools) hold(f resolve.BackendFragment, web *model.Profile) []holding {
	var held []holding
	if f.Backend.Profile != web {
		f.Backend.Profile, held = p.holdProfile(f.Backend.Profile)
	}
	for _, file := range f.CAFiles {
		_, h := p.caFiles.hold(file.Origin.String(), file)
		held = append(held, h)
	}
	for _, file := range f.Certificates {
		_, h := p.certificates.hold(file.Origin.String(), file)
		held = append(held, h)
	}
	return held
}

// holdProfile takes shares in a profile, its lists and its users.
func (p *pools) holdProfile(profile *model.Profile) (*model.Profile, []holding) {
	var held []holding
	var key strings.Builder
	for _, list := range profile.Shape.Lists() {
		var h holding
		held, h = p.holdList(list, held)
		key.WriteString(h.key + "\x00")
	}
	if auth := profile.Shape.BasicAuth; auth != nil {
		_, h := p.userlists.hold(auth.Users.Origin.String(), auth.Users)
		held = append(held, h)
		key.WriteString(h.key)
	}
	canonical, h := p.profiles.hold(key.String(), profile)
	return canonical, append(held, h)
}

func (p *pools) holdList(list *model.List, held []holding) ([]holding, holding) {
	entries := model.NewHasher().Str(list.Entries...).Digest()
	_, h := p.lists.hold(list.Origin.String()+"\x00"+entries.String(), list)
	return append(held, h), h
}

// holdCertificate takes a share in the certificate of a TLS host; nil: none.
func (p *pools) holdCertificate(certificate *model.Certificate) []holding {
	if certificate == nil {
		return nil
	}
	_, h := p.certificates.hold(certificate.Origin.String(), certificate)
	return []holding{h}
}

func (p *pools) release(held []holding) {
	for _, h := range held {
		h.pool.release(h.name, h.key)
	}
}
