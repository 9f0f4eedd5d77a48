package apply

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-proxy/sluice/pkg/haproxy/files"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/plan"
	"github.com/sluice-proxy/sluice/pkg/haproxy/process"
	"github.com/sluice-proxy/sluice/pkg/haproxy/shard"
	"github.com/sluice-proxy/sluice/pkg/haproxy/socket"
	"github.com/sluice-proxy/sluice/pkg/haproxy/tree"
)

// Worker is the runtime socket of the worker; *socket.Runtime is one.
type Worker interface {
	Run(ctx context.Context, commands []plan.Command) ([]socket.Result, error)
	PID(ctx context.Context) (int, error)
	Generation(ctx context.Context) (uint64, error)
	SetGeneration(ctx context.Context, n uint64) error
	Probe(ctx context.Context) (socket.Abilities, error) // finds out what the worker's binary takes
	Backends(ctx context.Context) ([]string, error)      // names, in any order
}

// Master is the master's socket; *socket.Master is one.
type Master interface {
	Reload(ctx context.Context) (logs string, err error)
	Processes(ctx context.Context) ([]socket.Process, error)
}

// Supervisor starts and finds HAProxy; *process.Supervisor is one.
type Supervisor interface {
	Start(ctx context.Context) error
	Adopt(ctx context.Context) (pid int, ok bool)
	PID() int // of the master; 0: none is known to run
}

// ErrStale tells that a plan was made against a registry that is no longer the expected
// one, since a reload ended in between. Nothing was done: plan again.
var ErrStale = errors.New("the plan was made before the last reload ended; it has to be made again")

// Config is what an Apply works with.
type Config struct {
	Folder     *files.Folder
	Worker     Worker
	Master     Master
	Supervisor Supervisor // nil: HAProxy is started and ended by somebody else
	// Check asks HAProxy whether a folder loads: nil, *process.Refusal, or the failure of
	// the check itself.
	Check   func(ctx context.Context, confDir string) error
	Log     *slog.Logger
	Fault   func(point string) // nil in production; called between all steps
	Metrics Metrics
	// CommandTimeout bounds one batch of runtime commands; 0: 10 s.
	CommandTimeout time.Duration
	// LoadTimeout bounds one check of a tree by HAProxy, and one reload or start of it, so
	// that one which hangs does not hold up all later changes; 0: 60 s.
	LoadTimeout time.Duration
	// Pace bounds the rate of reloads: it returns when the next one may begin; nil: at once.
	// The servers of a reload that waits are told to the old worker before, as always.
	Pace func(ctx context.Context) error
	Room Room // bounds the old workers
	// Grace is how long a backend stays as it is after the last route to it is gone, so that a
	// request that has just looked up its route finds it; 0: 1 s, negative: not at all.
	Grace time.Duration
}

// Metrics are called as things happen, from any goroutine; each may be nil.
type Metrics struct {
	FileWritten func(kind tree.Kind)
	CommandSent func(verb string, ok bool)
	Reloaded    func(reasons []string) // a reload or a cold start that succeeded
}

// Outcome is what became of a plan.
type Outcome struct {
	// Registry is what stands now: the next plan is made against it. While a reload is in
	// flight it is what will stand after its success.
	Registry *shard.Registry
	Refusal  *process.Refusal // HAProxy refused the tree; nothing was swapped
	Err      error            // the machine failed, or ErrStale; what was not done has to be planned again
	// Drift tells that it is not known what the worker serves: Registry.Served is nil, and
	// so the next plan has a reload.
	Drift    bool
	Reloaded bool     // a new worker was loaded
	Reasons  []string // of the reload
}

// Apply carries out plans. Its zero value is not usable: see New.
type Apply struct {
	cfg    Config
	bootID string

	// worker is the pid of the worker that commands are meant for, replaced that of the
	// one before it; 0: any. They are read by the socket in the midst of a batch.
	worker, replaced atomic.Int64

	// mu is held for a whole batch: Do and the goroutine of a reload take turns.
	mu      sync.Mutex
	reg     *shard.Registry // what stands on the disk, and in the worker
	disk    *model.Model    // what the files of the current generation say; nil: not known
	number  uint64          // the highest number of a batch seen so far
	file    uint64          // the number in maps/sluice.map of the current generation
	settled bool            // the worker holds that number
	running bool            // a worker is known to run
	flight  *flight         // the reload in flight

	// asPromised is what the last reload ended with, where that is what was expected of it, and
	// promised the number that the expected registry had.
	asPromised *shard.Registry
	promised   uint64

	dynamic  atomic.Bool             // the worker takes "add backend"
	sections map[string]model.Digest // of shard.Worker: those that the worker has loaded

	waiting atomic.Pointer[string] // see Waiting

	busy  []removal
	saved saved
}

// New is an Apply that knows nothing yet: call Open first.
func New(cfg Config) *Apply {
	if cfg.CommandTimeout == 0 {
		cfg.CommandTimeout = 10 * time.Second
	}
	if cfg.LoadTimeout == 0 {
		cfg.LoadTimeout = time.Minute
	}
	if cfg.Grace == 0 {
		cfg.Grace = time.Second
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Fault == nil {
		cfg.Fault = func(string) {}
	}
	cfg.Folder.OnStep(cfg.Fault)
	return &Apply{cfg: cfg, bootID: bootID(), reg: &shard.Registry{Tree: &tree.Tree{}, Unknown: firstStart}}
}

// WorkerPID is the pid of the worker that must answer on the runtime socket; 0: any. It
// is the Worker of socket.Options.
func (a *Apply) WorkerPID() int { return int(a.worker.Load()) }

// Expected is what the next plan is made against: what stands, or, while a reload is in
// flight, what will stand after its success.
func (a *Apply) Expected() *shard.Registry {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.expected()
}

func (a *Apply) expected() *shard.Registry {
	if a.flight != nil {
		return a.flight.expected
	}
	return a.reg
}

// stale tells whether a plan was made against another registry than the expected one. The
// one that a reload was expected to end with is as good as the one it did end with.
func (a *Apply) stale(p *plan.Plan) bool {
	base := p.Next.Batch - 1
	return base != a.expected().Batch && (a.reg != a.asPromised || base != a.promised)
}
