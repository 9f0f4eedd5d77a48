package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Folder is a new folder of this run below the system's temporary folder, locked as long
// as this process lives. Folders of runs that are dead are removed first.
func Folder() (string, error) {
	parent := filepath.Join(os.TempDir(), "sluice-kube")
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return "", fmt.Errorf("making the folder of runs: %w", err)
	}
	guard, err := lock(filepath.Join(parent, ".lock"), unix.LOCK_EX)
	if err != nil {
		return "", err
	}
	defer guard.Close()
	if err := sweep(parent); err != nil {
		return "", err
	}
	folder, err := os.MkdirTemp(parent, "run-")
	if err != nil {
		return "", fmt.Errorf("making the folder of the run: %w", err)
	}
	// It stays open, and with it the lock, until the process ends.
	if _, err := lock(filepath.Join(folder, "lock"), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return "", err
	}
	return folder, nil
}

// sweep removes the folders whose lock nobody holds.
func sweep(parent string) error {
	runs, err := filepath.Glob(filepath.Join(parent, "run-*"))
	if err != nil {
		return fmt.Errorf("listing old runs: %w", err)
	}
	for _, run := range runs {
		held, err := lock(filepath.Join(run, "lock"), unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			continue
		}
		if err == nil {
			_ = held.Close()
		}
		if err := os.RemoveAll(run); err != nil {
			return fmt.Errorf("removing what a dead run left: %w", err)
		}
	}
	return nil
}

// lock opens a file, makes it if need be, and locks it until it is closed. Children don't
// inherit it.
func lock(name string, how int) (*os.File, error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening a lock: %w", err)
	}
	if err := unix.Flock(int(file.Fd()), how); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("locking %s: %w", name, err)
	}
	return file, nil
}

// Memory mounts a file system in memory on a folder: fast for etcd, and gone with the
// sandbox.
func Memory(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("making a mount point: %w", err)
	}
	if err := unix.Mount("tmpfs", folder, "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mounting memory on %s: %w", folder, err)
	}
	return nil
}
