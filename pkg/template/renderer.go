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
var names = [...]string{"global", "profiles", "userlists", "frontends", "backends"}

// Renderer holds the parsed templates.
type Renderer struct {
	templates map[string]*template.Template
	digest    model.Digest
}

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
	r.digest = h.Digest()
	return r, nil
}

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
	for _, part := range []func(Input, *tree.Tree) error{r.sections, r.shards, tables, lists, certificates, crtLists} {
		if err := part(in, t); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// execute renders one template to the bytes of a file, which end in a line feed: HAProxy
// takes a file that does not for a truncated one.
func (r *Renderer) execute(name string, data any) ([]byte, error) {
	var b bytes.Buffer
	if err := r.templates[name].Execute(&b, data); err != nil {
		return nil, fmt.Errorf("render %s: %w", name, err)
	}
	return append(bytes.TrimRight(b.Bytes(), "\n"), '\n'), nil
}

// section is one file of conf.d that is no shard.
type section struct {
	name, path string
	kind       tree.Kind
	same       bool // its input is what the served model was rendered from
}

// sections renders the files that are no shards: global, profiles, userlists, frontends.
func (r *Renderer) sections(in Input, t *tree.Tree) error {
	data := struct {
		*model.Model
		RunDir string
	}{in.Model, in.RunDir}
	for _, part := range in.sections() {
		if part.kind == tree.Userlists && len(in.Model.Userlists) == 0 {
			continue // there is no such file, and one that stands there is not kept
		}
		if part.same && in.keep(part.path, t) {
			continue
		}
		text, err := r.execute(part.name, data)
		switch {
		case err != nil:
			return err
		case part.kind == tree.Userlists:
			t.Add(tree.NewSecretFile(part.path, part.kind, model.NewSecret(text)))
		default:
			t.Add(tree.NewFile(part.path, part.kind, text))
		}
	}
	return nil
}

func (in Input) sections() []section {
	var global, profiles, users, frontends bool
	if served := in.Old.Served; served != nil {
		timeouts := served.Defaults == in.Model.Defaults
		global = served.Process.Equal(in.Model.Process) && served.Resolvers == in.Model.Resolvers
		profiles = timeouts && slices.Equal(served.Profiles, in.Model.Profiles)
		users = slices.Equal(served.Userlists, in.Model.Userlists)
		frontends = timeouts && slices.Equal(served.Frontends, in.Model.Frontends)
	}
	return []section{
		{"global", "conf.d/00-global.cfg", tree.Global, global},
		{"profiles", "conf.d/10-profiles.cfg", tree.Profiles, profiles},
		{"userlists", "conf.d/15-userlists.cfg", tree.Userlists, users},
		{"frontends", "conf.d/20-frontends.cfg", tree.Frontends, frontends},
	}
}

func (r *Renderer) shards(in Input, t *tree.Tree) error {
	for i, record := range in.Layout.Records {
		switch {
		case record.Path == "":
		case !record.File.IsZero():
			t.Add(tree.File{Path: record.Path, Kind: tree.Shard, Digest: record.File, Size: record.Size})
		default:
			text, err := r.Backends(in.Layout.Backends(i))
			if err != nil {
				return err
			}
			t.Add(tree.NewFile(record.Path, tree.Shard, text))
		}
	}
	return nil
}

// Backends is the content of the shard file of the given backends.
func (r *Renderer) Backends(list []*model.Backend) ([]byte, error) {
	return r.execute("backends", list)
}

// keep takes a file over from the old tree; false if it is not there, or may not be what
// was rendered.
func (in Input) keep(path string, t *tree.Tree) bool {
	if in.Old.Tree == nil || in.Old.Scanned {
		return false
	}
	file, ok := in.Old.Tree.Files[path]
	if ok {
		file.Content, file.Secret = nil, nil
		t.Add(file)
	}
	return ok
}
