package apply

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/plan"
	"github.com/sluice-proxy/sluice/pkg/haproxy/shard"
	"github.com/sluice-proxy/sluice/pkg/haproxy/socket"
	"github.com/sluice-proxy/sluice/pkg/haproxy/tree"
)

// generationIn reads what tree.GenerationFile wrote: zeroes where it is not there.
func generationIn(text []byte) (number uint64, of model.Digest) {
	for line := range bytes.Lines(text) {
		key, value, _ := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
		switch string(key) {
		case tree.GenerationKey:
			number, _ = strconv.ParseUint(string(value), 10, 64)
		case "tree":
			_ = of.UnmarshalText(value)
		}
	}
	return number, of
}

// written is the digest of the files that sluice writes.
func written(t *tree.Tree) model.Digest {
	own := t.Clone()
	for path, file := range t.All {
		if file.Kind == tree.Foreign {
			own.Remove(path)
		}
	}
	return own.Digest()
}

// Open reads the registry and the folder, and adopts a running HAProxy if its number is
// the one of the files: then Served is what the files say. Otherwise Served is nil, and
// the first plan has a reload or a start.
func (a *Apply) Open(ctx context.Context) (*shard.Registry, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	reg, err := a.cfg.Folder.LoadRegistry()
	if err != nil {
		return nil, err
	}
	a.saved = savedFrom(reg)
	standing, content, err := a.cfg.Folder.Scan()
	if err != nil {
		return nil, err
	}
	number, digest := generationIn(content[tree.GenerationPath])
	a.file, a.number = number, number
	reg.Header.Generation = a.cfg.Folder.Generation()
	reg.Tree, reg.Scanned = withoutGeneration(standing), true
	reg.Batch = a.file
	a.reg = reg
	a.disk = nil
	if a.cfg.Folder.Generation() != 0 {
		if a.disk, err = shard.Recover(content); err != nil {
			a.cfg.Log.Warn("the files of the current generation are not what sluice writes; they are written anew", "error", err)
			a.disk = nil
		}
		if digest != written(reg.Tree) {
			// What the worker was started on is not what stands there by now.
			a.cfg.Log.Warn("files of the configuration folder are not those that were last written; they are written anew")
			a.disk = nil
		}
	}
	a.adopt(ctx, content)
	return a.reg, nil
}

// adopt looks for a running HAProxy and compares its number with that of the files. A worker
// that serves what they say has loaded the profiles that stand there; those that it has
// besides, which lost their last backend in an earlier life, are not known, and cost a reload
// if they come back.
func (a *Apply) adopt(ctx context.Context, content map[string][]byte) {
	a.running, a.settled = false, false
	a.worker.Store(0)
	a.unknown(notRunning)
	if a.cfg.Folder.Generation() == 0 {
		a.unknown(firstStart)
	}
	if a.cfg.Supervisor != nil {
		if _, found := a.cfg.Supervisor.Adopt(ctx); !found {
			return
		}
		a.running = true
	}
	pid, err := a.cfg.Worker.PID(ctx)
	if err != nil {
		if a.running {
			a.unknown(noAnswer)
			a.cfg.Log.Warn("HAProxy runs, but its runtime socket does not answer: it is reloaded", "error", err)
		}
		return
	}
	a.running = true
	a.worker.Store(int64(pid))
	a.probe(ctx)
	a.sections = shard.Sections(content[tree.ProfilesPath])
	a.reg.Worker = shard.Worker{Dynamic: a.dynamic.Load(), Sections: a.sections}
	key, err := a.cfg.Worker.Generation(ctx)
	var lacks, besides []string
	if err == nil {
		lacks, besides, err = a.differing(ctx, shard.Proxies(content))
	}
	if err != nil || len(lacks) > 0 || key == 0 || key != a.file || a.disk == nil {
		a.number = max(key, a.file)
		switch {
		case err != nil:
			a.unknown(noAnswer)
		case key == a.file && key != 0 && len(lacks) == 0:
			a.unknown(edited)
		default:
			a.unknown(disagree)
		}
		a.cfg.Log.Info("the running HAProxy does not serve what the files say: it is reloaded", "worker", pid, "serves", key, "files", a.file, "lacks", lacks, "besides", besides)
		return
	}
	a.settled = true
	a.reg = with(a.reg, func(r *shard.Registry) { r.Served, r.Unknown = a.disk, "" })
	a.cfg.Log.Info("adopted the running HAProxy", "worker", pid, "generation", a.reg.Header.Generation, "batch", a.file)
	for _, name := range besides { // their removal was noted in an earlier life
		a.busy = append(a.busy, removal{command: plan.DelBackend{Backend: name}})
	}
	a.retry(ctx)
}

// differing are the backends that the worker lacks of those in the files, and those that it
// has besides. Other backends than those of Services are none of ours.
func (a *Apply) differing(ctx context.Context, wanted map[string]bool) (lacks, besides []string, err error) {
	names, err := a.cfg.Worker.Backends(ctx)
	if err != nil {
		return nil, nil, err
	}
	has := make(map[string]bool, len(names))
	for _, name := range names {
		has[name] = true
		if at := strings.Index(name, "_"); at > 0 && !wanted[name] {
			besides = append(besides, name)
		}
	}
	for name := range wanted {
		if !has[name] {
			lacks = append(lacks, name)
		}
	}
	slices.Sort(lacks)
	return lacks, besides, nil
}

// sectionsIn are the profiles of a generation.
func (a *Apply) sectionsIn(n int) map[string]model.Digest {
	text, err := os.ReadFile(filepath.Join(a.cfg.Folder.Dir(n), filepath.FromSlash(tree.ProfilesPath)))
	if err != nil {
		a.cfg.Log.Warn("the profiles that HAProxy reads can't be read; new backends need a reload", "error", err)
		return nil
	}
	return shard.Sections(text)
}

// Rescan compares the folder with what was last written there, without reading files
// whose size and time are the same. It returns the registry that plans are to be made
// against, and the paths that somebody else changed. While a reload is in flight it does
// nothing.
func (a *Apply) Rescan() (*shard.Registry, []string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.flight != nil {
		return a.flight.expected, nil, nil
	}
	found, err := a.cfg.Folder.Compare()
	if err != nil {
		return a.reg, nil, err
	}
	marked, _ := found.Lookup(tree.GenerationPath)
	if file := tree.GenerationFile(a.file, a.reg.Tree.Digest()); a.settled && marked.Digest != file.Digest {
		if err := a.cfg.Folder.Batch().WriteLoose(file); err != nil {
			return a.reg, nil, err
		}
	}
	now := withoutGeneration(found)
	changed := differences(a.reg.Tree, now)
	if len(changed) == 0 {
		return a.reg, nil, nil
	}
	a.stands(now, a.reg.Served)
	a.disk = nil
	return a.reg, changed, nil
}

// stands notes that the disk holds other files than the registry says.
func (a *Apply) stands(now *tree.Tree, served *model.Model) {
	a.reg = with(a.reg, func(r *shard.Registry) {
		r.Header.Generation = a.cfg.Folder.Generation()
		r.Tree, r.Scanned, r.Served = now, true, served
	})
}

func withoutGeneration(t *tree.Tree) *tree.Tree {
	next := t.Clone()
	next.Remove(tree.GenerationPath)
	return next
}

// differences are the paths that two trees do not have in common, sorted.
func differences(a, b *tree.Tree) []string {
	differ, gone := a.Diff(b)
	var list []string
	for _, file := range slices.Concat(differ, gone) {
		list = append(list, file.Path)
	}
	slices.Sort(list)
	return list
}

// newWorker waits until the worker of a load that has just ended is known, which is
// another one than the old, notes it, and returns its pid; 0: it could not be found out,
// then any worker may answer.
func (a *Apply) newWorker(ctx context.Context, old int) int {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.CommandTimeout)
	defer cancel()
	for {
		processes, err := a.cfg.Master.Processes(ctx)
		for _, p := range processes {
			if err == nil && p.Type == "worker" && !p.Old && p.PID != old {
				a.replaced.Store(int64(old))
				a.worker.Store(int64(p.PID))
				a.probe(ctx)
				return p.PID
			}
		}
		if !pause(ctx, moment) {
			a.worker.Store(0)
			return 0
		}
	}
}

// probe finds out what the worker's binary takes. Without an answer the least is assumed.
func (a *Apply) probe(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.CommandTimeout)
	defer cancel()
	var can socket.Abilities
	err := a.ask(ctx, func() (err error) {
		can, err = a.cfg.Worker.Probe(ctx)
		return err
	})
	if err != nil {
		a.cfg.Log.Warn("it is not known what the worker takes; new backends and long certificate chains are loaded by reloads", "error", err)
	}
	a.dynamic.Store(can.Backends)
}

// masterPID is the pid of the master, where this process supervises it.
func (a *Apply) masterPID() int {
	if a.cfg.Supervisor == nil {
		return 0
	}
	return a.cfg.Supervisor.PID()
}

// bootID tells one start of the machine from another.
func bootID() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "" // it only says how far a pid in the registry can be believed
	}
	return string(bytes.TrimSpace(text))
}
