package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/source"
)

// How long the source waits after an event, so that a file is read when its writer is
// done with it and events that belong together make one batch.
const (
	quiet = 20 * time.Millisecond  // without an event
	hold  = 200 * time.Millisecond // at most, for files that are quiet while others are not
	busy  = 2 * time.Second        // at most, for a file that is written to all the time
)

// Source reads paths and goes on to watch them.
type Source struct {
	paths []string
	log   *slog.Logger
}

// New is a source of the given folders and files. They may be created later.
func New(paths []string, log *slog.Logger) *Source { return &Source{paths, log} }

// Run sends the whole content as the first batch, and then what changes, until ctx ends;
// it returns nil then. An error says that files can't be watched. While a batch waits for
// the receiver, later changes are merged into it.
func (s *Source) Run(ctx context.Context, out chan<- source.Batch) error {
	if len(s.paths) == 0 || slices.Contains(s.paths, Stdin) {
		return errors.New("the source of a running controller is a folder or a file; standard input can't be watched")
	}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("files can't be watched (raise fs.inotify.max_user_instances if there are too many watchers): %w", err)
	}
	defer watcher.Close()
	w := newWatch(distinct(s.paths), watcher, s.log)
	return w.run(ctx, out)
}

// watch is one run of a Source. One goroutine owns it.
type watch struct {
	watcher *fsnotify.Watcher
	log     *slog.Logger
	tree    *tree
	store   *store
	err     error // why a folder can't be watched

	pending map[spot]*span // what events named
	all     bool           // events were lost: look at everything
	burst   time.Time      // when the source last stopped waiting for quiet
	timer   *time.Timer

	batch    *source.Batch    // to be sent
	findings []report.Finding // of the last batch sent
	synced   bool
}

// span is when a spot's first and last event came.
type span struct{ first, last time.Time }

func newWatch(paths []string, watcher *fsnotify.Watcher, log *slog.Logger) *watch {
	w := &watch{watcher: watcher, log: log, store: newStore(), pending: map[spot]*span{}, timer: time.NewTimer(time.Hour)}
	w.timer.Stop()
	w.tree = newTree(paths, w.store, w)
	return w
}

func (w *watch) run(ctx context.Context, out chan<- source.Batch) error {
	defer w.timer.Stop()
	w.refresh(w.tree.all(), time.Now())
	for w.err == nil {
		var send chan<- source.Batch
		var batch source.Batch
		if w.batch != nil {
			send, batch = out, *w.batch
		}
		select {
		case <-ctx.Done():
			return nil
		case send <- batch:
			w.sent()
		case event, ok := <-w.watcher.Events:
			if !ok {
				return errors.New("the watch on the source ended")
			}
			w.note(event, time.Now())
		case err := <-w.watcher.Errors:
			w.log.Warn("source events may be lost; reading everything again", "error", err)
			w.all = true
			w.arm(time.Now())
		case <-w.timer.C:
			w.flush(time.Now())
		}
	}
	return w.err
}

// note turns an event into spots to look at.
func (w *watch) note(event fsnotify.Event, now time.Time) {
	path := filepath.Clean(event.Name)
	dir, name := filepath.Dir(path), filepath.Base(path)
	if !hidden(name) {
		for n := range w.tree.folders[dir] {
			w.touch(spot{n, name}, now)
		}
	}
	for n := range w.tree.anchors[step{dir, name}] {
		w.touch(spotOf(n), now)
	}
	for n := range w.tree.folders[path] { // the folder itself
		w.touch(spotOf(n), now)
	}
}

func (w *watch) touch(s spot, now time.Time) {
	if at, ok := w.pending[s]; ok {
		at.last = now
	} else {
		w.pending[s] = &span{now, now}
	}
	w.arm(now)
}

// arm lets the timer ring when it is quiet, or has not been for long.
func (w *watch) arm(now time.Time) {
	if w.burst.IsZero() {
		w.burst = now
	}
	w.timer.Reset(min(quiet, w.burst.Add(hold).Sub(now)))
}

// flush looks at the spots that are quiet.
func (w *watch) flush(now time.Time) {
	w.burst = time.Time{}
	if w.all {
		w.all = false
		clear(w.pending)
		w.tree.forced = true
		w.refresh(w.tree.all(), now)
		w.tree.forced = false
		return
	}
	var due []spot
	for s, at := range w.pending {
		if now.Sub(at.last) >= quiet || now.Sub(at.first) >= busy {
			due = append(due, s)
			delete(w.pending, s)
		}
	}
	if len(w.pending) > 0 {
		w.arm(now)
	}
	w.refresh(due, now)
}

// refresh looks at spots and prepares the batch.
func (w *watch) refresh(spots []spot, now time.Time) {
	for _, s := range w.tree.refresh(spots) {
		w.touch(s, now)
	}
	changes, findings := w.store.changes(), w.store.findings()
	w.batch = nil
	if len(changes) > 0 || !w.synced || !slices.Equal(findings, w.findings) {
		w.batch = &source.Batch{Changes: changes, Findings: findings, Synced: true}
	}
}

// sent notes that the batch was received.
func (w *watch) sent() {
	w.log.Debug("source changes", "objects", len(w.batch.Changes), "findings", len(w.batch.Findings))
	w.store.deliver(w.batch.Changes)
	w.findings, w.synced, w.batch = w.batch.Findings, true, nil
}

// add listens to a folder. That it can't be read, or is gone again, is left to who
// reads it; its parent tells when that changes.
func (w *watch) add(dir string) {
	err := w.watcher.Add(dir)
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.ENOTDIR):
	case w.err == nil:
		w.err = fmt.Errorf("folder %s can't be watched (raise fs.inotify.max_user_watches if there are too many folders): %w", dir, err)
	}
}

// drop ends listening. The kernel has done so already where the folder is gone.
func (w *watch) drop(dir string) { _ = w.watcher.Remove(dir) }
