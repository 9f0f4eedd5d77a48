package template

import (
	"bytes"
	"fmt"
	"io/fs"
	"slices"
	"text/template"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/shard"
	"github.com/sluice-proxy/sluice/pkg/haproxy/tree"
)

// names are the templates that a folder of templates must hold, each as NAME.tmpl.
var names = [...]string{"global", "profiles", "userlists", "frontends", "tcp", "backends"}

// Renderer holds the parsed templates. It belongs to one goroutine.
type Renderer struct {
	templates map[string]*template.Template
	lua       map[string][]byte // route.lua, mirror.lua
	digest    model.Digest
	// buckets are the sections that were last rendered of each bucket of backends.
	buckets [model.Buckets]rendered
}

// rendered are the sections of the backends of a bucket. A bucket never changes, so its
// pointer says all, and so does that of a backend.
type rendered struct {
	bucket   *model.Bucket
	text     []byte
	sections map[*model.Backend]span // where they stand in the text
}

// span is a part of a text, in bytes.
type span struct{ from, to int }

// New parses the templates of a folder. An error names the file and line to correct.
func New(folder fs.FS) (*Renderer, error) {
	r := &Renderer{templates: map[string]*template.Template{}}
	h := model.NewHasher()
	for _, name := range names {
		text, err := fs.ReadFile(folder, name+".tmpl")
		if err != nil {
			return nil, fmt.Errorf("template %s.tmpl: %w", name, err)
		}
		t, err := template.New(name + ".tmpl").Funcs(functions()).Option("missingkey=error").Parse(string(text))
		if err != nil {
			return nil, fmt.Errorf("template %s.tmpl: %w", name, err)
		}
		r.templates[name] = t
		h.Str(name, string(text))
	}
	r.lua = map[string][]byte{}
	for _, name := range []string{luaRoute, luaMirror} {
		text, err := fs.ReadFile(folder, name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		r.lua[name] = text
		h.Str(name, string(text))
	}
	r.digest = h.Digest()
	return r, nil
}

// The Lua that is loaded where it is needed.
const luaRoute, luaMirror = "route.lua", "mirror.lua"

// Digest identifies the templates.
func (r *Renderer) Digest() model.Digest { return r.digest }

// Input is what Render makes a tree of.
type Input struct {
	Model  *model.Model
	Layout shard.Layout
	Old    *shard.Registry // nil: render everything
	RunDir string          // folder of HAProxy's stats socket
}

// Render is the tree of a model: every file of the owned folder but maps/sluice.map,
// which apply writes. An error says that a template or a value in it can't be rendered.
func (r *Renderer) Render(in Input) (*tree.Tree, error) {
	if in.Old == nil || in.Old.Header.Templates != r.digest {
		in.Old = &shard.Registry{}
	}
	t := &tree.Tree{}
	if anyGateway(in.Model.Frontends) {
		t.Add(tree.NewFile("lua/"+luaRoute, tree.Lua, r.lua[luaRoute]))
	}
	if anyMirror(in.Model.Profiles) {
		t.Add(tree.NewFile("lua/"+luaMirror, tree.Lua, r.lua[luaMirror]))
	}
	for _, part := range []func(Input, *tree.Tree) error{r.sections, r.shards, tables, lists, certificates, crtLists} {
		if err := part(in, t); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// execute appends what one template makes of the data. It ends in one line feed: HAProxy
// takes a file that ends otherwise for a truncated one.
func (r *Renderer) execute(b *bytes.Buffer, name string, data any) error {
	if err := r.templates[name].Execute(b, data); err != nil {
		return fmt.Errorf("render %s: %w", name, err)
	}
	b.Truncate(len(bytes.TrimRight(b.Bytes(), "\n")))
	b.WriteByte('\n')
	return nil
}

// section is one file of conf.d that is no shard.
type section struct {
	name, path string
	kind       tree.Kind
	same       bool // its input is what the served model was rendered from
	empty      bool // there is no such file
}

// sections renders the files that are no shards.
func (r *Renderer) sections(in Input, t *tree.Tree) error {
	data := struct {
		*model.Model
		RunDir string
	}{in.Model, in.RunDir}
	for _, part := range in.sections() {
		if part.empty {
			continue // there is no such file, and one that stands there is not kept
		}
		if part.same && in.keep(part.path, t) {
			continue
		}
		var text bytes.Buffer
		if err := r.execute(&text, part.name, data); err != nil {
			return err
		}
		if part.kind == tree.Userlists {
			t.Add(tree.NewSecretFile(part.path, part.kind, model.NewSecret(text.Bytes())))
		} else {
			t.Add(tree.NewFile(part.path, part.kind, text.Bytes()))
		}
	}
	return nil
}

func (in Input) sections() []section {
	var global, profiles, users, frontends, tcp bool
	if served := in.Old.Served; served != nil {
		timeouts := served.Defaults == in.Model.Defaults
		global = served.Process.Equal(in.Model.Process) && served.Resolvers == in.Model.Resolvers && anyGateway(served.Frontends) == anyGateway(in.Model.Frontends)
		mirrors := anyMirror(served.Profiles) == anyMirror(in.Model.Profiles)
		global = global && mirrors
		profiles = timeouts && slices.Equal(served.Profiles, in.Model.Profiles)
		users = slices.Equal(served.Userlists, in.Model.Userlists)
		frontends = timeouts && slices.Equal(served.Frontends, in.Model.Frontends) && served.Health.Equal(in.Model.Health) && mirrors
		tcp = timeouts && slices.Equal(served.TCP, in.Model.TCP) && global
	}
	return []section{
		{"global", "conf.d/00-global.cfg", tree.Global, global, false},
		{"profiles", "conf.d/10-profiles.cfg", tree.Profiles, profiles, false},
		{"userlists", "conf.d/15-userlists.cfg", tree.Userlists, users, len(in.Model.Userlists) == 0},
		{"frontends", "conf.d/20-frontends.cfg", tree.Frontends, frontends, false},
		{"tcp", "conf.d/25-tcp.cfg", tree.Frontends, tcp, len(in.Model.TCP) == 0},
	}
}

func (r *Renderer) shards(in Input, t *tree.Tree) error {
	for i, record := range in.Layout.Records {
		switch {
		case record.Path == "":
		case !record.File.IsZero():
			t.Add(tree.File{Path: record.Path, Kind: tree.Shard, Digest: record.File, Size: record.Size})
		default:
			text, err := r.Shard(in.Layout, i)
			if err != nil {
				return err
			}
			t.Add(tree.NewFile(record.Path, tree.Shard, text))
		}
	}
	return nil
}

// Shard is the content of a shard's file: a section for each of its backends, with an empty
// line between two.
func (r *Renderer) Shard(layout shard.Layout, i int) ([]byte, error) {
	var parts [][]byte
	for n, bucket := range layout.Buckets(i) {
		part, err := r.bucket(n, bucket)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	return bytes.Join(parts, []byte("\n")), nil
}

// bucket are the sections of the backends of a bucket, with an empty line between two. Of
// those that did not change the text is taken over: where a thousand backends change at once,
// nearly all buckets do.
func (r *Renderer) bucket(n int, bucket *model.Bucket) ([]byte, error) {
	last := &r.buckets[n]
	if last.bucket == bucket {
		return last.text, nil
	}
	size := 0
	for _, b := range bucket.Backends {
		size += lineSize * (1 + len(b.Servers))
	}
	var text bytes.Buffer
	text.Grow(size)
	sections := make(map[*model.Backend]span, len(bucket.Backends))
	for i, b := range bucket.Backends {
		if i > 0 {
			text.WriteByte('\n')
		}
		from := text.Len()
		if old, ok := last.sections[b]; ok {
			text.Write(last.text[old.from:old.to])
		} else if err := r.execute(&text, "backends", b); err != nil {
			return nil, err
		}
		sections[b] = span{from, text.Len()}
	}
	*last = rendered{bucket, text.Bytes(), sections}
	return last.text, nil
}

// lineSize is the usual length of a line of a section, in bytes.
const lineSize = 64

// keep takes a file over from the old tree; false if it is not there, or may not be what
// was rendered.
func (in Input) keep(path string, t *tree.Tree) bool {
	if in.Old.Tree == nil || in.Old.Scanned {
		return false
	}
	file, ok := in.Old.Tree.Lookup(path)
	if ok {
		file.Content, file.Parts, file.Secret = nil, nil, nil
		t.Add(file)
	}
	return ok
}

// keepFolder takes a whole folder over from the old tree, where it is just what was
// rendered.
func (in Input) keepFolder(name string, t *tree.Tree) bool {
	if in.Old.Tree == nil || in.Old.Scanned {
		return false
	}
	t.Take(name, in.Old.Tree)
	return true
}
