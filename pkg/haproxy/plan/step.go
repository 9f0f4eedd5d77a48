package plan

import (
	"strings"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/shard"
	"github.com/sluice-proxy/sluice/pkg/haproxy/tree"
)

// Step is one thing to do: a WriteFile, RemoveFile, RuntimeCommand or Reload.
type Step interface{ Why() string }

// WriteFile writes a file of the current generation, or of the next one where the plan
// has a Reload.
type WriteFile struct {
	File   tree.File
	Reason string
}

// RemoveFile removes a file.
type RemoveFile struct {
	Path   string
	Kind   tree.Kind
	Reason string
}

// RuntimeCommand changes the running worker. Command is one of the types below.
type RuntimeCommand struct {
	Command Command
	Reason  string
}

// Reload asks for one validated reload. It is the last step. A reason is a kind of reason,
// a colon and what it is in particular.
type Reload struct{ Reasons []string }

// ReasonKind is the kind of a reason of a reload: few words, without names, for a metric.
func ReasonKind(reason string) string {
	kind, _, _ := strings.Cut(reason, ":")
	return kind
}

// Why is the reason of the step in words; so for the other kinds.
func (s WriteFile) Why() string { return s.Reason }

// Why is the reason of the step in words.
func (s RemoveFile) Why() string { return s.Reason }

// Why is the reason of the step in words.
func (s RuntimeCommand) Why() string { return s.Reason }

// Why is the first reason.
func (s Reload) Why() string { return s.Reasons[0] }

// Plan is what has to be done to get from the registry's state to the wanted one.
type Plan struct {
	Commands []RuntimeCommand // in the order to send them
	Writes   []WriteFile      // in an order in which every prefix loads
	Removals []RemoveFile
	Reload   *Reload // nil: none needed
	// Stage asks for a new generation that is swapped in by one rename although no reload
	// is needed: a backend moves from one shard file to another, and no prefix of single
	// writes would hold it exactly once; or one profile leaves the files with its backends
	// while another one comes back.
	Stage  bool
	Tree   *tree.Tree
	Layout shard.Layout    // that the tree was rendered from
	Next   *shard.Registry // what to save after success
}

// Empty tells whether there is nothing to do.
func (p *Plan) Empty() bool {
	return len(p.Commands) == 0 && len(p.Writes) == 0 && len(p.Removals) == 0 && p.Reload == nil
}

// Steps are all steps, in order.
func (p *Plan) Steps() []Step {
	var steps []Step
	for _, c := range p.Commands {
		steps = append(steps, c)
	}
	for _, w := range p.Writes {
		steps = append(steps, w)
	}
	for _, r := range p.Removals {
		steps = append(steps, r)
	}
	if p.Reload != nil {
		steps = append(steps, *p.Reload)
	}
	return steps
}

// Command is a change of the running worker, typed: the socket package alone turns it
// into text, checks the answer and knows which answers mean success.
type Command interface {
	// Verb is the label of the metric sluice_runtime_commands_total: what HAProxy calls the
	// command ("set server") or, where it takes a row of commands, what is done ("edit map").
	Verb() string
}

// AddBackend adds a backend from its profile with all its servers and publishes it. Where it
// is there already, waiting for its removal, it is brought into that form.
type AddBackend struct{ Backend *model.Backend }

// DelBackend takes a backend out that no route leads to: unpublished, it waits for its last
// stream, then it is deleted with all its servers.
type DelBackend struct{ Backend string }

// AddServer adds a server and brings it into its state.
type AddServer struct {
	Backend string
	Server  model.Server
	Options model.ServerOptions
}

// DelServer takes a server out: maint, wait for its last stream, delete.
type DelServer struct{ Backend, Server string }

// SetServer sets state and weight of a server that keeps its address.
type SetServer struct {
	Backend, Server string
	State           *model.ServerState // nil: leave
	Weight          *int               // nil: leave
}

// EditMap changes entries of the map file maps/<Map>.map.
type EditMap struct {
	Map   string
	Edits []model.Edit
}

// EditList changes the entries of lists/<List>.lst.
type EditList struct {
	List        string
	Add, Remove []string
}

// AddCertificate loads a certificate file: new, set and commit.
type AddCertificate struct{ Certificate *model.Certificate }

// AddCAFile loads a file of certificates that servers are verified with.
type AddCAFile struct{ Certificate *model.Certificate }

// DelCertificate unloads a certificate that no crt-list line names any more.
type DelCertificate struct{ Name string }

// AddCrtLine adds a line to the crt-list of the https frontend.
type AddCrtLine struct{ Line model.CrtLine }

// DelCrtLine removes a line from it.
type DelCrtLine struct{ Line model.CrtLine }

// Verb is the command's name; so for the other types.
func (AddBackend) Verb() string { return "add backend" }

// Verb is the command's name.
func (DelBackend) Verb() string { return "del backend" }

// Verb is the command's name.
func (AddServer) Verb() string { return "add server" }

// Verb is the command's name.
func (DelServer) Verb() string { return "del server" }

// Verb is the command's name.
func (SetServer) Verb() string { return "set server" }

// Verb is the command's name.
func (EditMap) Verb() string { return "edit map" }

// Verb is the command's name.
func (EditList) Verb() string { return "edit acl" }

// Verb is the command's name.
func (AddCertificate) Verb() string { return "add ssl cert" }

// Verb is the command's name.
func (AddCAFile) Verb() string { return "add ssl ca-file" }

// Verb is the command's name.
func (DelCertificate) Verb() string { return "del ssl cert" }

// Verb is the command's name.
func (AddCrtLine) Verb() string { return "add ssl crt-list" }

// Verb is the command's name.
func (DelCrtLine) Verb() string { return "del ssl crt-list" }
