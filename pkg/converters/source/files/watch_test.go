package files

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	corev1 "k8s.io/api/core/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/converters/source"
)

// receiver runs a Source and adds up what it sends.
type receiver struct {
	out      chan source.Batch
	objects  map[snapshot.Key]snapshot.Change
	sent     []string // keys of changes, in order, "-" before those that ended
	findings []report.Finding
	stop     func() error
}

// listen starts a source and waits for the first batch.
func listen(t rapid.TB, paths ...string) *receiver {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &receiver{out: make(chan source.Batch), objects: map[snapshot.Key]snapshot.Change{}}
	done := make(chan error, 1)
	go func() { done <- New(paths, slog.New(slog.DiscardHandler)).Run(ctx, r.out) }()
	r.stop = func() error {
		cancel()
		return <-done
	}
	r.take(t, <-r.out)
	return r
}

func (r *receiver) take(t rapid.TB, b source.Batch) {
	t.Helper()
	if !b.Synced {
		t.Error("a batch that is not synced")
	}
	for _, c := range b.Changes {
		if c.Object == nil {
			if _, ok := r.objects[c.Key]; !ok {
				t.Errorf("the end of %s, which was never there", c.Key)
			}
			delete(r.objects, c.Key)
			r.sent = append(r.sent, "-"+c.Key.Name)
			continue
		}
		r.objects[c.Key] = c
		r.sent = append(r.sent, c.Key.Name)
	}
	r.findings = b.Findings
}

// state is what is in force: name:port of each Service, and the codes of findings.
func (r *receiver) state() string {
	var list []string
	for key, c := range r.objects {
		port := int32(0)
		if s := c.Object.(*corev1.Service); len(s.Spec.Ports) > 0 {
			port = s.Spec.Ports[0].Port
		}
		list = append(list, fmt.Sprintf("%s:%d", key.Name, port))
	}
	slices.Sort(list)
	for _, f := range r.findings {
		list = append(list, fmt.Sprintf("%s@%s:%d", f.Code, filepath.Base(f.File), f.Line))
	}
	return strings.Join(list, " ")
}

// await receives batches until the state is as wanted.
func (r *receiver) await(t rapid.TB, want string) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for r.state() != want {
		select {
		case b := <-r.out:
			r.take(t, b)
		case <-deadline:
			t.Fatalf("the state is %q, want %q; findings: %v", r.state(), want, r.findings)
		}
	}
}

func write(t rapid.TB, dir, name, text string) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
}

// replace writes as careful programs do: beside the file, and then over it.
func replace(t rapid.TB, dir, name, text string) {
	t.Helper()
	write(t, dir, ".new", text)
	must(t, os.Rename(filepath.Join(dir, ".new"), filepath.Join(dir, name)))
}

// watched runs cases on a source that watches a folder with one Service in it.
func watched(t *testing.T, cases map[string]func(t *testing.T, dir string, r *receiver)) {
	t.Helper()
	for sentence, do := range cases {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "above", "src")
			must(t, os.MkdirAll(dir, 0o755))
			write(t, dir, "a.yaml", service("a", 1))
			r := listen(t, dir)
			r.await(t, "a:1")
			do(t, dir, r)
			must(t, r.stop())
		})
	}
}

func TestWatchFiles(t *testing.T) {
	one := service("a", 1)
	watched(t, map[string]func(t *testing.T, dir string, r *receiver){
		"a file is written in place": func(t *testing.T, dir string, r *receiver) {
			write(t, dir, "a.yaml", service("a", 2))
			r.await(t, "a:2")
		},
		"a file is renamed over another": func(t *testing.T, dir string, r *receiver) {
			replace(t, dir, "a.yaml", service("a", 2))
			r.await(t, "a:2")
		},
		"a file is created and deleted": func(t *testing.T, dir string, r *receiver) {
			write(t, dir, "b.yaml", service("b", 1))
			r.await(t, "a:1 b:1")
			must(t, os.Remove(filepath.Join(dir, "b.yaml")))
			r.await(t, "a:1")
			must(t, os.Remove(filepath.Join(dir, "a.yaml")))
			r.await(t, "")
		},
		"only what changed is sent": func(t *testing.T, dir string, r *receiver) {
			write(t, dir, "a.yaml", one+service("b", 1)+service("c", 1))
			r.await(t, "a:1 b:1 c:1")
			write(t, dir, "a.yaml", "# moved\n"+service("c", 2)+one)
			r.await(t, "a:1 c:2")
			if diff := cmp.Diff([]string{"a", "b", "c", "-b", "c"}, r.sent); diff != "" {
				t.Errorf("changes, -want +got:\n%s", diff)
			}
		},
		"a broken file keeps its last good content until it is mended": func(t *testing.T, dir string, r *receiver) {
			write(t, dir, "a.yaml", service("a", 2)+"---\n(\n")
			r.await(t, "a:1 ManifestUnreadable@a.yaml:7")
			write(t, dir, "a.yaml", service("a", 2)+service("b", 1))
			r.await(t, "a:2 b:1")
		},
		"a broken file does not hold up another": func(t *testing.T, dir string, r *receiver) {
			write(t, dir, "a.yaml", "(")
			write(t, dir, "b.yaml", service("b", 1))
			r.await(t, "a:1 b:1 ManifestUnreadable@a.yaml:1")
		},
		"an object that does not fit its type keeps its last good form": func(t *testing.T, dir string, r *receiver) {
			write(t, dir, "a.yaml", strings.Replace(one, "1}", "x}", 1)+service("b", 1))
			r.await(t, "a:1 b:1 ManifestUnreadable@a.yaml:2")
			write(t, dir, "a.yaml", service("b", 1))
			r.await(t, "b:1")
		},
		"a file that is emptied keeps its content": func(t *testing.T, dir string, r *receiver) {
			write(t, dir, "a.yaml", "")
			r.await(t, "a:1 ManifestUnreadable@a.yaml:1")
			write(t, dir, "a.yaml", service("a", 2))
			r.await(t, "a:2")
		},
		"the second file with an object takes over when the first goes": func(t *testing.T, dir string, r *receiver) {
			write(t, dir, "b.yaml", service("a", 2))
			r.await(t, "a:1 ObjectInvalid@b.yaml:2")
			must(t, os.Remove(filepath.Join(dir, "a.yaml")))
			r.await(t, "a:2")
			write(t, dir, "a.yaml", service("a", 3))
			r.await(t, "a:3 ObjectInvalid@b.yaml:2")
		},
	})
}

func TestWatchFolders(t *testing.T) {
	watched(t, map[string]func(t *testing.T, dir string, r *receiver){
		"sub-folders are created, filled, moved and deleted": func(t *testing.T, dir string, r *receiver) {
			must(t, os.MkdirAll(filepath.Join(dir, "x/y"), 0o755))
			write(t, dir, "x/y/b.yaml", service("b", 1))
			r.await(t, "a:1 b:1")
			write(t, dir, "x/y/b.yaml", service("b", 2))
			r.await(t, "a:1 b:2")
			must(t, os.Rename(filepath.Join(dir, "x"), filepath.Join(dir, "z")))
			write(t, dir, "z/y/c.yaml", service("c", 1))
			r.await(t, "a:1 b:2 c:1")
			write(t, dir, "z/y/c.yaml", service("c", 2))
			r.await(t, "a:1 b:2 c:2")
			must(t, os.RemoveAll(filepath.Join(dir, "z")))
			r.await(t, "a:1")
			must(t, os.Mkdir(filepath.Join(dir, "z"), 0o755))
			write(t, dir, "z/c.yaml", service("c", 3))
			r.await(t, "a:1 c:3")
			write(t, dir, "z/c.yaml", service("c", 4))
			r.await(t, "a:1 c:4")
		},
		"the folder is deleted and created again": func(t *testing.T, dir string, r *receiver) {
			must(t, os.RemoveAll(dir))
			r.await(t, "ManifestUnreadable@src:1")
			must(t, os.Mkdir(dir, 0o755))
			write(t, dir, "b.yaml", service("b", 1))
			r.await(t, "b:1")
			write(t, dir, "b.yaml", service("b", 2))
			r.await(t, "b:2")
		},
		"a folder above is moved away and back": func(t *testing.T, dir string, r *receiver) {
			above := filepath.Dir(dir)
			must(t, os.Rename(above, above+"-away"))
			r.await(t, "ManifestUnreadable@src:1")
			write(t, above+"-away/src", "a.yaml", service("a", 2))
			must(t, os.Rename(above+"-away", above))
			r.await(t, "a:2")
			write(t, dir, "a.yaml", service("a", 3))
			r.await(t, "a:3")
		},
		"a link leads elsewhere, and what it leads to is replaced": func(t *testing.T, dir string, r *receiver) {
			other := t.TempDir()
			write(t, other, "b1", service("b", 1))
			must(t, os.Symlink("b1", filepath.Join(other, "b")))
			must(t, os.Symlink(filepath.Join(other, "b"), filepath.Join(dir, "b.yaml")))
			r.await(t, "a:1 b:1")
			replace(t, other, "b1", service("b", 2))
			r.await(t, "a:1 b:2")
			write(t, other, "b2", service("b", 3))
			must(t, os.Symlink("b2", filepath.Join(other, ".b")))
			must(t, os.Rename(filepath.Join(other, ".b"), filepath.Join(other, "b")))
			r.await(t, "a:1 b:3")
			must(t, os.Remove(filepath.Join(dir, "b.yaml")))
			r.await(t, "a:1")
		},
		"a link to a folder that appears later": func(t *testing.T, dir string, r *receiver) {
			other := t.TempDir()
			must(t, os.Symlink(filepath.Join(other, "x"), filepath.Join(dir, "x")))
			write(t, dir, "b.yaml", service("b", 1))
			r.await(t, "a:1 b:1")
			must(t, os.Mkdir(filepath.Join(other, "x"), 0o755))
			write(t, other, "x/c.yaml", service("c", 1))
			r.await(t, "a:1 b:1 c:1")
		},
	})
}

func TestWatchMountedConfigMap(t *testing.T) {
	dir := unpack(t, "-- ..2026_1/a.yaml --\n"+service("a", 1)+"-- ..data -> ..2026_1 --\n-- a.yaml -> ..data/a.yaml --\n")
	r := listen(t, dir)
	for i := 2; i < 6; i++ { // as kubelet's atomic writer does
		stamp := fmt.Sprintf("..2026_%d", i)
		must(t, os.Mkdir(filepath.Join(dir, stamp), 0o755))
		write(t, dir, stamp+"/a.yaml", service("a", i))
		want := fmt.Sprintf("a:%d", i)
		if i > 3 {
			write(t, dir, stamp+"/b.yaml", service("b", i))
			want += fmt.Sprintf(" b:%d", i)
		}
		must(t, os.Symlink(stamp, filepath.Join(dir, "..data_tmp")))
		must(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
		if i == 4 {
			must(t, os.Symlink("..data/b.yaml", filepath.Join(dir, "b.yaml")))
		}
		must(t, os.RemoveAll(filepath.Join(dir, fmt.Sprintf("..2026_%d", i-1))))
		r.await(t, want)
	}
	if slices.ContainsFunc(r.sent, func(s string) bool { return strings.HasPrefix(s, "-") }) {
		t.Errorf("objects were gone for a while: %v", r.sent)
	}
	must(t, r.stop())
}

func TestWatchPathsThatDoNotExistYet(t *testing.T) {
	dir := t.TempDir()
	r := listen(t, filepath.Join(dir, "x/y"), filepath.Join(dir, "f.yaml"))
	r.await(t, "ManifestUnreadable@f.yaml:1 ManifestUnreadable@y:1")
	must(t, os.MkdirAll(filepath.Join(dir, "x/y"), 0o755))
	write(t, dir, "x/y/a.yaml", service("a", 1))
	r.await(t, "a:1 ManifestUnreadable@f.yaml:1")
	write(t, dir, "f.yaml", service("b", 1))
	r.await(t, "a:1 b:1")
	replace(t, dir, "f.yaml", service("b", 2))
	r.await(t, "a:1 b:2")
	must(t, r.stop())
}

func TestWatchFollowsALinkGivenAsSource(t *testing.T) {
	dir := unpack(t, "-- v1/m/a.yaml --\n"+service("a", 1)+"-- v2/m/a.yaml --\n"+service("a", 2)+"-- current -> v1 --\n")
	r := listen(t, filepath.Join(dir, "current/m"))
	r.await(t, "a:1")
	must(t, os.Symlink("v2", filepath.Join(dir, "new")))
	must(t, os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "current")))
	r.await(t, "a:2")
	write(t, dir, "v2/m/a.yaml", service("a", 3))
	r.await(t, "a:3")
	must(t, r.stop())
}

func TestWatchMergesWhileTheReceiverIsBusy(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.yaml", service("a", 0))
	w := listen(t, dir)
	for i := range 50 {
		replace(t, dir, "a.yaml", service("a", i+1))
		replace(t, dir, "b.yaml", service("b", i+1))
	}
	must(t, os.Remove(filepath.Join(dir, "b.yaml")))
	w.await(t, "a:50")
	must(t, w.stop())
}

func TestWatchReadsEverythingAgainWhenEventsAreLost(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.yaml", service("a", 1))
	watcher, err := fsnotify.NewWatcher()
	must(t, err)
	defer watcher.Close()
	ctx, cancel := context.WithCancel(t.Context())
	r := &receiver{out: make(chan source.Batch), objects: map[snapshot.Key]snapshot.Change{}}
	done := make(chan error, 1)
	go func() { done <- newWatch([]string{dir}, watcher, slog.New(slog.DiscardHandler)).run(ctx, r.out) }()
	r.await(t, "a:1")
	must(t, watcher.Remove(dir)) // the source hears nothing of what follows
	write(t, dir, "a.yaml", service("a", 2))
	write(t, dir, "b.yaml", service("b", 1))
	watcher.Errors <- fsnotify.ErrEventOverflow
	r.await(t, "a:2 b:1")
	write(t, dir, "b.yaml", service("b", 2)) // and listens again
	r.await(t, "a:2 b:2")
	cancel()
	must(t, <-done)
}

func TestWatchRefusesStandardInput(t *testing.T) {
	if err := New([]string{Stdin}, slog.New(slog.DiscardHandler)).Run(t.Context(), nil); err == nil {
		t.Error("standard input was accepted")
	}
}

// TestWatchEqualsRead holds that after any sequence of operations on files, whatever
// their timing, what was sent adds up to what a one-shot read gives.
func TestWatchEqualsRead(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		must(rt, err)
		r := listen(rt, dir)
		names := rapid.SampledFrom([]string{"a.yaml", "b.json", "x/a.yaml", "x/y/b.yml", "x", "x/y", "z", "l.yaml", "z/x"})
		operation := func() {
			path, other := filepath.Join(dir, names.Draw(rt, "name")), filepath.Join(dir, names.Draw(rt, "other"))
			switch rapid.IntRange(0, 6).Draw(rt, "operation") {
			case 0, 1: // errors are part of it: folders are missing or in the way
				_ = os.MkdirAll(filepath.Dir(path), 0o755)
				_ = os.WriteFile(path, []byte(services(rt)), 0o644)
			case 2:
				_ = os.WriteFile(filepath.Join(dir, "z.tmp"), []byte(services(rt)), 0o644)
				_ = os.Rename(filepath.Join(dir, "z.tmp"), path)
			case 3:
				_ = os.RemoveAll(path)
			case 4:
				_ = os.Rename(path, other)
			case 5:
				_ = os.MkdirAll(path, 0o755)
			case 6:
				_ = os.Symlink(other, path)
			}
			if rapid.IntRange(0, 9).Draw(rt, "wait") == 0 { // let a batch come in between
				select {
				case b := <-r.out:
					r.take(rt, b)
				case <-time.After(quiet + 5*time.Millisecond):
				}
			}
		}
		for range rapid.IntRange(1, 25).Draw(rt, "operations") {
			operation()
		}
		r.await(rt, wanted(dir))
		must(rt, r.stop())
	})
}

// services is a file that parses and is not empty.
func services(rt *rapid.T) string {
	text := "# \n"
	for _, name := range rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 3).Draw(rt, "services") {
		text += service(name, rapid.IntRange(1, 3).Draw(rt, "port"))
	}
	return text
}

// wanted is the state that a one-shot read gives.
func wanted(dir string) string {
	r := &receiver{objects: map[snapshot.Key]snapshot.Change{}}
	if content, err := Read([]string{dir}, nil); err == nil {
		r.findings = content.Findings
		for _, c := range content.Changes {
			r.objects[c.Key] = c
		}
	}
	return r.state()
}
