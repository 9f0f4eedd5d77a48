package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	markerName   = ".sluice"
	currentName  = "current"
	registryName = "registry"
	keysName     = "certs" // folder of certificates with their private keys
	// layoutVersion is the content of the marker: how the folder is laid out.
	layoutVersion = "1\n"
	// How long Open waits for the lock.
	lockTries = 10
	lockPause = 50 * time.Millisecond
)

// Folder is the configuration folder with its generations, and the registry folder.
type Folder struct {
	config   string // absolute path
	registry string // absolute path
	lock     *os.File
	current  atomic.Int64 // N of the current gen-N; 0: none
	previous int          // N of the last good generation; 0: none

	mu     sync.Mutex       // of stamps
	stamps map[string]stamp // what Scan and Compare saw last
	fault  func(point string)
}

// Open prepares both folders. An empty stateDir is for somebody who writes one generation
// and has no registry. It creates what is missing, takes the lock, and removes
// temporary leftovers and all generations but the current and the last good one. It
// refuses a folder that sluice does not own, and one that another process uses.
func Open(configDir, stateDir string) (*Folder, error) {
	config, err := filepath.Abs(configDir)
	if err != nil {
		return nil, fmt.Errorf("configuration folder: %w", err)
	}
	state, err := filepath.Abs(stateDir)
	if err != nil {
		return nil, fmt.Errorf("state folder: %w", err)
	}
	f := &Folder{config: config, fault: func(string) {}}
	if stateDir != "" {
		f.registry = filepath.Join(state, registryName)
	}
	if err := f.own(); err != nil {
		return nil, err
	}
	for _, step := range []func() error{f.settle, f.sweep} {
		if err := step(); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	return f, nil
}

// OnStep sets the function that is called between all steps of a change; the tests kill
// the process in it.
func (f *Folder) OnStep(fault func(point string)) { f.fault = fault }

// Close gives the lock back.
func (f *Folder) Close() error { return f.lock.Close() }

// Generation is the N of the current gen-N; 0: there is none yet.
func (f *Folder) Generation() int { return int(f.current.Load()) }

// Current is the path of the symbolic link to the current generation: what HAProxy is
// started on lies below it, at conf.d.
func (f *Folder) Current() string { return filepath.Join(f.config, currentName) }

// Dir is the path of a generation.
func (f *Folder) Dir(n int) string { return filepath.Join(f.config, generationName(n)) }

func generationName(n int) string { return "gen-" + strconv.Itoa(n) }

// generationOf reads a generation's name; 0: it is not one.
func generationOf(name string) int {
	text, found := strings.CutPrefix(name, "gen-")
	n, err := strconv.Atoi(text)
	if !found || err != nil || n < 1 || generationName(n) != name {
		return 0
	}
	return n
}

// own creates the folders, checks or writes the marker, and locks it.
func (f *Folder) own() error {
	for _, dir := range []string{f.config, f.registry} {
		if dir == "" {
			continue
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("create folder: %w", err)
		}
	}
	marker := filepath.Join(f.config, markerName)
	text, err := os.ReadFile(marker)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := f.mustBeEmpty(); err != nil {
			return err
		}
		if err := replace(marker, [][]byte{[]byte(layoutVersion)}, options{mode: 0o644, sync: true}); err != nil {
			return fmt.Errorf("write the marker: %w", err)
		}
	case err != nil:
		return fmt.Errorf("read the marker: %w", err)
	case string(text) != layoutVersion:
		return fmt.Errorf("the configuration folder %s has layout %q, this sluice knows %q: "+
			"give it an empty --config-dir, or start the version that wrote it", f.config, strings.TrimSpace(string(text)), strings.TrimSpace(layoutVersion))
	}
	return f.takeLock(marker)
}

func (f *Folder) mustBeEmpty() error {
	entries, err := os.ReadDir(f.config)
	if err != nil {
		return fmt.Errorf("read the configuration folder: %w", err)
	}
	for _, entry := range entries {
		// The root of a file system has lost+found; the temporary marker is our own.
		if name := entry.Name(); name != "lost+found" && name != temporary(markerName) {
			return fmt.Errorf("the configuration folder %s is not empty (it holds %q) and has no %s file, so it is not sluice's: "+
				"give an empty or new folder as --config-dir, or empty this one", f.config, name, markerName)
		}
	}
	return nil
}

// takeLock keeps a second sluice away. The kernel drops the lock with the process.
func (f *Folder) takeLock(marker string) error {
	file, err := os.Open(marker)
	if err != nil {
		return fmt.Errorf("open the marker: %w", err)
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	for range lockTries {
		if err == nil {
			break
		}
		// A process that was killed while it started another leaves the lock with that
		// one for the moment between fork and exec.
		time.Sleep(lockPause)
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err != nil {
		_ = file.Close() // nothing was written
		return fmt.Errorf("the configuration folder %s is in use (%w): stop the other sluice, or give this one a --config-dir of its own", f.config, err)
	}
	f.lock = file
	return nil
}

// settle finds the current generation and the last good one, and removes the others:
// later ones were staged and never swapped in.
func (f *Folder) settle() error {
	if err := f.readCurrent(); err != nil {
		return err
	}
	entries, err := os.ReadDir(f.config)
	if err != nil {
		return fmt.Errorf("read the configuration folder: %w", err)
	}
	var rest []int
	for _, entry := range entries {
		if n := generationOf(entry.Name()); n != 0 && n != f.Generation() {
			rest = append(rest, n)
		}
	}
	slices.Sort(rest)
	f.previous = 0
	for _, n := range rest {
		if n < f.Generation() {
			f.previous = n
		}
	}
	for _, n := range rest {
		if n == f.previous {
			continue
		}
		if err := os.RemoveAll(f.Dir(n)); err != nil {
			return fmt.Errorf("remove generation %d: %w", n, err)
		}
	}
	return f.forgetKeys()
}

// readCurrent reads the link. One that leads nowhere is removed: all is written anew.
func (f *Folder) readCurrent() error {
	f.current.Store(0)
	target, err := os.Readlink(f.Current())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("%s is not a symbolic link to a generation: move it away (%w)", f.Current(), err)
	}
	n := generationOf(target)
	if info, err := os.Lstat(filepath.Join(f.config, target)); n == 0 || err != nil || !info.IsDir() {
		return os.Remove(f.Current())
	}
	f.current.Store(int64(n))
	return nil
}

// sweep removes the temporary files that a killed process left behind.
func (f *Folder) sweep() error {
	var dirs []string
	if f.registry != "" {
		dirs = append(dirs, f.registry)
	}
	if n := f.Generation(); n != 0 {
		dirs = append(dirs, f.Dir(n))
	}
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !isTemporary(entry.Name()) {
				return err
			}
			return os.Remove(path)
		})
		if err != nil {
			return fmt.Errorf("remove temporary files: %w", err)
		}
	}
	for _, name := range []string{markerName, currentName} {
		if err := os.Remove(filepath.Join(f.config, temporary(name))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove temporary files: %w", err)
		}
	}
	return nil
}
