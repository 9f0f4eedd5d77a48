package property

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sluice-proxy/sluice/pkg/converters/ingress"
	"github.com/sluice-proxy/sluice/pkg/converters/memo"
	"github.com/sluice-proxy/sluice/pkg/converters/resolve"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/apply"
	"github.com/sluice-proxy/sluice/pkg/haproxy/files"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/plan"
	"github.com/sluice-proxy/sluice/pkg/haproxy/shard"
	"github.com/sluice-proxy/sluice/pkg/haproxy/tree"
	"github.com/sluice-proxy/sluice/pkg/template"
	"github.com/sluice-proxy/sluice/rootfs"
)

// tester is a testing.T or a rapid.T.
type tester interface {
	Helper()
	Logf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// world is a source of objects, a controller and a HAProxy, on folders of their own.
type world struct {
	t        tester
	dir      string
	haproxy  haproxy
	secrets  *secrets
	renderer *template.Renderer
	options  memo.Options
	now      time.Time
	shards   int                  // --backend-shards of the present life
	objects  map[snapshot.Key]any // what the source holds

	// One life of the controller.
	snapshot *snapshot.Snapshot
	memo     *memo.Memo
	model    *model.Model
	folder   *files.Folder
	apply    *apply.Apply
	old      bool // it has seen objects before
	done     int  // plans carried out
	added    int  // backends added by command, in all lives

	meanwhile map[string][]event // by the point of a reload at which they come
	flying    atomic.Bool        // a reload is
	killIn    atomic.Int32       // steps; 0: never
	killed    chan struct{}
	worried   bool   // trouble is on its way: a failure is in order
	aside     string // what failed in the midst of a reload
}

func newWorld(t tester, s *secrets, dir string, h haproxy, bind resolve.Bind) *world {
	renderer, err := template.New(rootfs.Templates())
	if err != nil {
		t.Fatalf("%v", err)
	}
	pair := s.authorities[1]
	return &world{
		t: t, dir: dir, haproxy: h, secrets: s, renderer: renderer, now: time.Now(), objects: map[snapshot.Key]any{},
		options: memo.Options{
			Class:                    ingress.Class{Name: "sluice", Controller: controller, Namespace: own},
			ConfigMap:                snapshot.Key{Kind: snapshot.ConfigMap, Namespace: own, Name: "sluice"},
			DefaultCertificate:       &model.Certificate{Name: "default.pem", PEM: model.NewSecret([]byte(pair.Certificate + pair.Key))},
			DefaultCertificateSecret: snapshot.Key{Kind: snapshot.Secret, Namespace: "a", Name: "d"},
			Bind:                     bind,
		},
	}
}

// open begins a life of the controller.
func (w *world) open() {
	w.t.Helper()
	var err error
	if w.folder, err = files.Open(filepath.Join(w.dir, "conf"), filepath.Join(w.dir, "state")); err != nil {
		w.t.Fatalf("open: %v", err)
	}
	w.snapshot, w.memo, w.model, w.old = snapshot.New(), memo.New(w.options), nil, false
	w.done = 0
	w.killIn.Store(0)
	w.meanwhile = nil
	config := apply.Config{Folder: w.folder, Fault: w.fault, Grace: -1}
	var life *apply.Apply
	w.haproxy.config(&config, func() int { return life.WorkerPID() }, w.fault)
	life = apply.New(config)
	w.apply = life
	if _, err := life.Open(context.Background()); err != nil {
		w.t.Fatalf("open: %v", err)
	}
}

func (w *world) close() {
	if err := w.folder.Close(); err != nil {
		w.t.Fatalf("close: %v", err)
	}
}

// fault is called between all steps.
func (w *world) fault(point string) {
	if w.killIn.Load() > 0 && w.killIn.Add(-1) == 0 {
		w.t.Logf("  killed at %q", point)
		close(w.killed)
		runtime.Goexit()
	}
	if events := w.meanwhile[point]; events != nil && w.flying.Load() {
		delete(w.meanwhile, point)
		w.take(events)
		p := w.plan()
		if p.Reload != nil || p.Empty() {
			return // it has to wait
		}
		w.t.Logf("  at %q: %v", point, events)
		if out := w.apply.Do(context.Background(), p); out.Err != nil || out.Drift {
			w.aside = fmt.Sprintf("at %q: %v, drift %v", point, out.Err, out.Drift)
		}
	}
}

// worry fails unless trouble was made.
func (w *world) worry(what string) {
	w.t.Helper()
	if what != "" && !w.worried {
		w.t.Fatalf("%s; HAProxy complains: %s", what, w.complaints())
	}
}

func (w *world) complaints() string {
	if f, ok := w.haproxy.(*fake); ok {
		return strings.Join(f.complaints, "; ")
	}
	return ""
}

// take gives events to the line, as cmd/internal/loop does: in its first batch a life
// sees all objects, and a change of the settings looks at the disk.
func (w *world) take(events []event) {
	w.t.Helper()
	var changes []snapshot.Change
	settings := false
	for _, e := range events {
		key, object := e.key(), w.secrets.object(e)
		if w.objects[key] = object; object == nil {
			delete(w.objects, key)
		}
		changes = append(changes, snapshot.Change{Key: key, Object: object})
		settings = settings || key.Kind == snapshot.ConfigMap
	}
	if !w.old {
		changes = nil
		for key, object := range w.objects {
			changes = append(changes, snapshot.Change{Key: key, Object: object})
		}
	} else if settings {
		w.rescan()
	}
	w.old = true
	w.model = w.memo.Update(w.snapshot, w.snapshot.Apply(changes), w.now)
}

func (w *world) rescan() {
	if _, _, err := w.apply.Rescan(); err != nil {
		w.t.Fatalf("rescan: %v", err)
	}
}

func (w *world) plan() *plan.Plan {
	w.t.Helper()
	old := w.apply.Expected()
	shards := cmp.Or(w.shards, w.model.Shards)
	layout := shard.Place(old, w.model, shard.Options{Shards: shards, Templates: w.renderer.Digest()})
	t, err := w.renderer.Render(template.Input{Model: w.model, Layout: layout, Old: old, RunDir: w.dir})
	if err != nil {
		w.t.Fatalf("render: %v", err)
	}
	return plan.Make(plan.Input{Old: old, Layout: layout, Tree: t, Model: w.model})
}

// converge carries out plans until there is nothing left to do. It returns false if the
// controller was killed meanwhile.
func (w *world) converge() bool {
	w.t.Helper()
	var last string
	for range 8 {
		p := w.plan()
		if p.Empty() {
			w.memo.Planned()
			w.memo.Applied()
			return true
		}
		w.t.Logf("  %s", describe(p))
		w.count(p)
		out, alive := w.run(p)
		w.done++
		if !alive {
			return false
		}
		last = fmt.Sprintf("%v, refusal %v, drift %v", out.Err, out.Refusal, out.Drift)
		if out.Refusal != nil {
			w.t.Fatalf("HAProxy refuses what was rendered: %s: %s", out.Refusal.File, out.Refusal.Output+out.Refusal.Message)
		}
		if out.Err != nil || out.Drift {
			w.worry(fmt.Sprintf("not applied: %v, drift %v, steps %s", out.Err, out.Drift, describe(p)))
		}
		w.worry(w.aside)
		w.aside = ""
	}
	w.t.Fatalf("no end of plans: %s, then %s", last, describe(w.plan()))
	return false
}

// count counts the backends that a plan adds by command, and fails where it reloads for one
// although the worker can add it.
func (w *world) count(p *plan.Plan) {
	w.t.Helper()
	if p.Reload == nil {
		for _, c := range p.Commands {
			if _, ok := c.Command.(plan.AddBackend); ok {
				w.added++
			}
		}
		return
	}
	for _, reason := range p.Reload.Reasons {
		kind := plan.ReasonKind(reason)
		if w.apply.Expected().Worker.Dynamic && (kind == "new backend" || kind == "backend gone") && !strings.Contains(reason, "DNS") {
			w.t.Fatalf("a reload for what could be done at run time: %s", reason)
		}
	}
}

// run carries out one plan, in a goroutine that the controller's death ends.
func (w *world) run(p *plan.Plan) (out apply.Outcome, alive bool) {
	w.killed = make(chan struct{})
	killed, done := w.killed, make(chan apply.Outcome, 1)
	w.flying.Store(p.Reload != nil)
	defer w.flying.Store(false)
	go func() {
		if p.Reload == nil {
			done <- w.apply.Do(context.Background(), p)
			return
		}
		select {
		case out := <-w.apply.Reload(context.Background(), p):
			done <- out
		case <-killed:
		}
	}()
	select {
	case out := <-done:
		return out, true
	case <-killed:
		return apply.Outcome{}, false
	}
}

func describe(p *plan.Plan) string {
	var words []string
	for _, step := range p.Steps() {
		switch s := step.(type) {
		case plan.RuntimeCommand:
			words = append(words, plan.Describe(s.Command))
		case plan.WriteFile:
			words = append(words, "write "+s.File.Path)
		case plan.RemoveFile:
			words = append(words, "remove "+s.Path)
		case plan.Reload:
			words = append(words, fmt.Sprintf("reload %q", s.Reasons))
		}
	}
	return strings.Join(words, "; ")
}

// scratch renders everything that the source holds from scratch, in as many shards as
// are asked for, or, where that is left to sluice, as there are.
func (w *world) scratch() (*model.Model, *tree.Tree, shard.Layout) {
	w.t.Helper()
	s := snapshot.New()
	var changes []snapshot.Change
	for key, object := range w.objects {
		changes = append(changes, snapshot.Change{Key: key, Object: object})
	}
	m := memo.New(w.options).Update(s, s.Apply(changes), w.now)
	// The number that a plan comes to, which the registry may not say yet: it is saved last.
	shards := shard.Place(&shard.Registry{Header: w.apply.Expected().Header}, m, shard.Options{Shards: cmp.Or(w.shards, m.Shards)}).Header.Shards
	layout := shard.Place(nil, m, shard.Options{Shards: shards, Templates: w.renderer.Digest()})
	t, err := w.renderer.Render(template.Input{Model: m, Layout: layout, RunDir: w.dir})
	if err != nil {
		w.t.Fatalf("render from scratch: %v", err)
	}
	return m, t, layout
}

// read is the content of all files below a folder.
func read(dir string) (map[string][]byte, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	content := map[string][]byte{}
	err = filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		short, _ := filepath.Rel(dir, name)
		text, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a link that leads nowhere
		}
		content[filepath.ToSlash(short)] = text
		return err
	})
	return content, err
}

// memory is a folder on a file system where fsync costs nothing, if there is one.
func memory() (string, error) {
	if dir, err := os.MkdirTemp("/dev/shm", "sluice-property-"); err == nil {
		return dir, nil
	}
	return os.MkdirTemp("", "slp")
}

func sorted[T ~string](list []T) []T {
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}
