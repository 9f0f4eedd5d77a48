package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/apply"
	"github.com/sluice-proxy/sluice/pkg/haproxy/files"
	"github.com/sluice-proxy/sluice/pkg/haproxy/plan"
	"github.com/sluice-proxy/sluice/pkg/haproxy/process"
	"github.com/sluice-proxy/sluice/pkg/haproxy/socket"
	"github.com/sluice-proxy/sluice/pkg/haproxy/tree"
)

// patience bounds one reload of HAProxy.
const patience = 2 * time.Minute

// rig is a controller with its folders and its HAProxy.
type rig struct {
	setup
	bench      *bench
	dir        string
	line       *line // nil while the controller is down
	folder     *files.Folder
	supervisor *process.Supervisor
	apply      *apply.Apply
	registry   int               // files written in the registry folder
	files      map[tree.Kind]int // files written in the configuration folder
	told       time.Time         // when the worker had acknowledged the commands of the last batch
}

// newRig prepares the folders; nothing runs yet.
func (b *bench) newRig(name string) (*rig, error) {
	r := &rig{bench: b, dir: filepath.Join(b.dir, name)}
	if err := os.MkdirAll(r.path("run"), 0o755); err != nil {
		return nil, err
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	r.setup, err = newSetup(address, r.path("run"))
	return r, err
}

func (r *rig) path(elements ...string) string {
	return filepath.Join(append([]string{r.dir}, elements...)...)
}

// confDir is what HAProxy is started on.
func (r *rig) confDir() string { return r.path("conf", "current", "conf.d") }

// up starts the controller as `sluice run` does: it finds what an earlier one left.
func (r *rig) up(ctx context.Context) error {
	var err error
	if r.folder, err = files.Open(r.path("conf"), r.path("state")); err != nil {
		return err
	}
	stdout, err := os.OpenFile(r.path("stdout"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	binary, master, runtime := r.bench.binaries["3.4"], r.path("run", "master.sock"), r.path("run", "haproxy.sock")
	r.supervisor = process.New(process.Config{
		Binary: binary, ConfDir: r.confDir(), RunDir: r.path("run"), MasterSocket: master, StatsSocket: runtime,
		PIDFile: r.path("run", "haproxy.pid"), Stdout: stdout, Stderr: stdout, Log: r.bench.log,
	})
	r.apply = apply.New(apply.Config{
		Folder: r.folder, Worker: socket.NewRuntime(runtime, socket.Options{Worker: func() int { return r.apply.WorkerPID() }}),
		Master: socket.NewMaster(master), Supervisor: r.supervisor, Log: r.bench.log, CommandTimeout: patience, LoadTimeout: patience,
		Metrics: apply.Metrics{FileWritten: func(kind tree.Kind) { r.files[kind]++ }},
		Check:   func(ctx context.Context, confDir string) error { return process.Check(ctx, binary, confDir) },
		Fault: func(point string) {
			switch point {
			case "registry written":
				r.registry++
			case "commands sent":
				r.told = time.Now()
			}
		},
	})
	r.line = newLine(r.setup)
	_, err = r.apply.Open(ctx)
	return err
}

// down ends the controller; HAProxy goes on.
func (r *rig) down() error {
	r.line, r.apply = nil, nil
	return r.folder.Close()
}

// stop ends HAProxy, too.
func (r *rig) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = r.supervisor.Stop(ctx) // it is killed if it does not end
}

// step is what a batch of changes came to.
type step struct {
	line, apply usage
	out         apply.Outcome
	plan        *plan.Plan
	registry    int               // files written in the registry folder
	files       map[tree.Kind]int // files written in the configuration folder
}

// take takes a batch through the whole line.
func (r *rig) take(ctx context.Context, changes []snapshot.Change) (step, error) {
	var s step
	s.line = measure(func() {
		r.line.take(changes)
		s.plan = r.line.plan(r.apply.Expected())
	})
	return s, r.carryOut(ctx, &s)
}

// carryOut carries the plan of a step out.
func (r *rig) carryOut(ctx context.Context, s *step) error {
	r.registry, r.files = 0, map[tree.Kind]int{}
	s.apply = measure(func() {
		switch {
		case s.plan.Empty():
		case s.plan.Reload == nil:
			s.out = r.apply.Do(ctx, s.plan)
		default:
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			s.out = <-r.apply.Reload(ctx, s.plan)
		}
	})
	s.registry, s.files = r.registry, r.files
	switch {
	case s.out.Refusal != nil:
		return fmt.Errorf("HAProxy refuses the tree: %s", s.out.Refusal.Output)
	case s.out.Err != nil:
		return s.out.Err
	case s.out.Drift:
		return errors.New("HAProxy gave an unexpected answer to a command")
	}
	r.line.memo.Planned()
	r.line.memo.Applied()
	return nil
}

// written says which files a step wrote, but for the number of the batch: the kinds for
// what is known by kind, the paths for maps.
func (s step) written() string {
	var list []string
	for _, w := range s.plan.Writes {
		list = append(list, strings.TrimPrefix(strings.TrimSuffix(w.File.Path, filepath.Ext(w.File.Path)), "maps/"))
	}
	return strings.Join(list, ", ")
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// standing are the files below both folders with what tells one version from another.
func (r *rig) standing() (map[string]string, error) {
	list := map[string]string{}
	for _, folder := range []string{"conf", "state"} {
		err := filepath.WalkDir(r.path(folder), func(path string, entry os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := entry.Info()
			list[path] = fmt.Sprint(info.Size(), info.ModTime())
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}
