package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/shard"
	"github.com/sluice-proxy/sluice/pkg/haproxy/tree"
)

// Input is what is there and what is wanted.
type Input struct {
	Old    *shard.Registry // nil: nothing is there
	Layout shard.Layout
	Tree   *tree.Tree
	Model  *model.Model
}

// Make computes the way from the old registry to the wanted state. It takes time for
// what differs, the number of files and model.Buckets; not for the number of backends.
func Make(in Input) *Plan {
	if in.Old == nil {
		in.Old = &shard.Registry{}
	}
	p := &Plan{Tree: in.Tree, Layout: in.Layout, Next: next(in)}
	in.planFiles(p)
	commands, reasons := in.planWorker(p)
	switch {
	case in.Old.Served == nil:
		p.Reload = &Reload{[]string{"worker unknown: " + cmp.Or(in.Old.Unknown, "first start")}}
	case len(reasons) > 0:
		p.Reload = &Reload{reasons}
		p.Commands = append(early(commands), in.tighten()...)
	default:
		p.Commands = commands
		come, leave := in.profiles()
		p.Stage = p.touchesShards() && (in.Old.Header.Shards != in.Layout.Header.Shards || come && leave)
	}
	p.Next.Worker = in.worker(p)
	if p.Reload != nil || p.Stage {
		p.Next.Header.Generation++
	}
	return p
}

// next is the registry after success.
func next(in Input) *shard.Registry {
	records := slices.Clone(in.Layout.Records)
	for i := range records {
		if file, ok := in.Tree.Lookup(records[i].Path); ok {
			records[i].File, records[i].Size = file.Digest, file.Size
		}
	}
	return &shard.Registry{
		Header:  in.Layout.Header,
		Records: records,
		Tree:    in.Tree.Bare(),
		Served:  in.Model,
		Batch:   in.Old.Batch + 1,
	}
}

// worker is what is known of the worker after the plan: a reload makes another one, which
// has read the wanted files.
func (in Input) worker(p *Plan) shard.Worker {
	worker := in.Old.Worker
	if p.Reload == nil {
		worker.Lists = in.unused()
		return worker
	}
	worker.Lists = nil
	if file, _ := in.Tree.Lookup(tree.ProfilesPath); file.Content != nil {
		worker.Sections = shard.Sections(file.Content)
		return worker
	}
	// The file is the one that stands there: it holds the profiles in use and their bases.
	worker.Sections = maps.Clone(worker.Sections)
	maps.DeleteFunc(worker.Sections, func(name string, _ model.Digest) bool {
		return model.IsProfileName(name) && !slices.ContainsFunc(in.Model.Profiles, func(p *model.Profile) bool { return p.Name == name })
	})
	return worker
}

// rank orders writes so that every prefix of them loads: what is named by others first.
var rank = map[tree.Kind]int{
	tree.Cert: 0, tree.List: 1, tree.Map: 2, tree.Lua: 3, tree.Userlists: 3, tree.Profiles: 4, tree.Shard: 5,
	tree.CrtList: 6, tree.Frontends: 7, tree.Global: 8,
}

// lastly are the kinds that are written behind all others where profiles leave: the backends
// that name them are gone by then.
var lastly = map[tree.Kind]int{tree.Profiles: 1, tree.Userlists: 2}

func (in Input) planFiles(p *Plan) {
	differ, gone := in.Tree.Diff(in.Old.Tree)
	for _, file := range differ {
		_, exists := in.Old.Tree.Lookup(file.Path)
		p.Writes = append(p.Writes, WriteFile{file, in.whyWrite(file, exists)})
	}
	slices.SortStableFunc(p.Writes, func(a, b WriteFile) int { return cmp.Compare(rank[a.File.Kind], rank[b.File.Kind]) })
	if _, leave := in.profiles(); leave {
		slices.SortStableFunc(p.Writes, func(a, b WriteFile) int { return cmp.Compare(lastly[a.File.Kind], lastly[b.File.Kind]) })
	}
	for _, file := range gone {
		if file.Kind != tree.Generation {
			p.Removals = append(p.Removals, RemoveFile{file.Path, file.Kind, whyRemove(file)})
		}
	}
}

func (in Input) whyWrite(file tree.File, exists bool) string {
	switch {
	case file.Kind == tree.Shard:
		return in.whyShard(file.Path)
	case !exists:
		return "is not there"
	default:
		return "content differs"
	}
}

func whyRemove(file tree.File) string {
	if file.Kind == tree.Shard {
		return "the last backend of the shard is gone"
	}
	return "nothing refers to it"
}

// whyShard names the backends that a shard file is written for.
func (in Input) whyShard(path string) string {
	var wanted, stands shard.Record
	for i, record := range in.Layout.Records {
		if record.Path != path {
			continue
		}
		wanted = record
		if i < len(in.Old.Records) {
			stands = in.Old.Records[i]
		} else {
			stands = in.recovered(path, record)
		}
	}
	digests := make(map[string]model.Digest, len(stands.Backends))
	for _, m := range stands.Backends {
		digests[m.Name] = m.Digest
	}
	var added, changed []string
	for _, m := range wanted.Backends {
		digest, ok := digests[m.Name]
		switch {
		case !ok:
			added = append(added, m.Name)
		case digest != m.Digest:
			changed = append(changed, m.Name)
		}
		delete(digests, m.Name)
	}
	var parts []string
	for _, part := range []struct {
		verb  string
		names []string
	}{{"adds", added}, {"changes", changed}, {"drops", slices.Sorted(maps.Keys(digests))}} {
		if len(part.names) > 0 {
			parts = append(parts, part.verb+" "+few(part.names))
		}
	}
	if len(parts) == 0 {
		return "content differs"
	}
	return strings.Join(parts, "; ")
}

// recovered is what a record would say of a shard file that was not written by this
// process: the names of its backends. Whether one of them differs is not known.
func (in Input) recovered(path string, wanted shard.Record) shard.Record {
	var record shard.Record
	if in.Old.Served == nil {
		return record
	}
	digests := make(map[string]model.Digest, len(wanted.Backends))
	for _, m := range wanted.Backends {
		digests[m.Name] = m.Digest
	}
	shards := len(in.Layout.Records)
	for b := range in.Old.Served.Backends.All {
		if shard.Path(model.BucketOf(b.Name)*shards/model.Buckets) == path {
			record.Backends = append(record.Backends, shard.Member{Name: b.Name, Digest: digests[b.Name]})
		}
	}
	return record
}

// few is a list of names that a person reads: the first three and the number of others.
func few(names []string) string {
	const shown = 3
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}

// early are the commands that are worth sending to the old worker before a reload: those
// on servers, which requests wait for. All else comes with the new worker.
func early(commands []RuntimeCommand) []RuntimeCommand {
	var list []RuntimeCommand
	for _, c := range commands {
		switch c.Command.(type) {
		case AddServer, DelServer, SetServer:
			list = append(list, c)
		}
	}
	return list
}

func (p *Plan) touchesShards() bool {
	return slices.ContainsFunc(p.Writes, func(w WriteFile) bool { return w.File.Kind == tree.Shard })
}

// profiles tells whether there are profiles that are new to the files, and ones that leave them.
func (in Input) profiles() (come, leave bool) {
	if in.Old.Served == nil || slices.Equal(in.Old.Served.Profiles, in.Model.Profiles) {
		return false, false
	}
	stand := map[string]bool{}
	for _, profile := range in.Old.Served.Profiles {
		stand[profile.Name] = true
	}
	for _, profile := range in.Model.Profiles {
		come = come || !stand[profile.Name]
		delete(stand, profile.Name)
	}
	return come, len(stand) > 0
}
