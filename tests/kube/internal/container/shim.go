package container

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// specVariable names the environment variable with the path of the Spec.
const specVariable = "SLUICE_KUBE_CONTAINER"

// Descriptors that a shim is started with.
const (
	failureFD = 3 // gets the message of a failure; closes when the program runs
	networkFD = 4 // the pod's network namespace, if it has one
)

// Spec says what a container is.
type Spec struct {
	Argv         []string
	Env          []string // NAME=VALUE
	Dir          string   // working folder inside
	Hostname     string   // empty: the machine's
	UID, GID     int
	Groups       []int
	Layer        string // folder for what the container writes; new and empty
	Mounts       []Mount
	Open         []string // paths whose parent folders anybody may enter
	ReadOnlyRoot bool
	OwnNetwork   bool // networkFD is there
}

// Mount shows a file or folder of the machine at a path of the container.
type Mount struct {
	Source, Target string
	ReadOnly       bool
}

// Become turns this process into the program of a container. It does not return.
func Become() {
	// Namespaces belong to threads; the one that calls exec is the one that stays.
	runtime.LockOSThread()
	unix.CloseOnExec(failureFD)
	unix.CloseOnExec(networkFD)
	err := become()
	_, _ = os.NewFile(failureFD, "failure").WriteString(err.Error())
	os.Exit(128)
}

func become() error {
	text, err := os.ReadFile(os.Getenv(specVariable))
	if err != nil {
		return fmt.Errorf("reading what to run: %w", err)
	}
	var spec Spec
	if err := json.Unmarshal(text, &spec); err != nil {
		return fmt.Errorf("reading what to run: %w", err)
	}
	if spec.OwnNetwork {
		if err := unix.Setns(networkFD, unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("entering the pod's network: %w", err)
		}
	}
	if spec.Hostname != "" {
		if err := unix.Sethostname([]byte(spec.Hostname)); err != nil {
			return fmt.Errorf("setting the host name: %w", err)
		}
	}
	if err := spec.enterRoot(); err != nil {
		return err
	}
	if err := os.MkdirAll(spec.Dir, 0o755); err != nil && !errors.Is(err, unix.EROFS) {
		return fmt.Errorf("making the working folder: %w", err)
	}
	if err := os.Chdir(spec.Dir); err != nil {
		return fmt.Errorf("entering the working folder: %w", err)
	}
	if err := errors.Join(syscall.Setgroups(spec.Groups), syscall.Setgid(spec.GID), syscall.Setuid(spec.UID)); err != nil {
		return fmt.Errorf("becoming user %d: %w", spec.UID, err)
	}
	return spec.exec()
}

func (s *Spec) exec() error {
	os.Clearenv()
	for _, variable := range s.Env {
		name, value, _ := strings.Cut(variable, "=")
		if err := os.Setenv(name, value); err != nil {
			return fmt.Errorf("setting %s: %w", name, err)
		}
	}
	path, err := exec.LookPath(s.Argv[0])
	if err != nil {
		return fmt.Errorf("finding the program: %w", err)
	}
	if err := syscall.Exec(path, s.Argv, s.Env); err != nil {
		return fmt.Errorf("starting %s: %w", path, err)
	}
	panic("exec returned")
}

// machine is where the machine's root stands while mounts are made.
const machine = "/.machine"

// enterRoot builds the container's file system and makes it the root.
func (s *Spec) enterRoot() error {
	root := filepath.Join(s.Layer, "root")
	upper, work := filepath.Join(s.Layer, "upper"), filepath.Join(s.Layer, "work")
	for _, folder := range []string{root, upper, work} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return fmt.Errorf("making the container's layer: %w", err)
		}
	}
	if err := unix.Mount("overlay", root, "overlay", 0, "lowerdir=/,upperdir="+upper+",workdir="+work); err != nil {
		return fmt.Errorf("mounting the container's layer (the kernel needs overlayfs): %w", err)
	}
	if err := s.system(root); err != nil {
		return err
	}
	for i := range s.Mounts {
		source, err := filepath.EvalSymlinks(s.Mounts[i].Source)
		if err != nil {
			return fmt.Errorf("what to mount: %w", err)
		}
		s.Mounts[i].Source = machine + source
	}
	if err := os.Mkdir(root+machine, 0o700); err != nil {
		return fmt.Errorf("making room for the machine's root: %w", err)
	}
	if err := errors.Join(unix.PivotRoot(root, root+machine), os.Chdir("/")); err != nil {
		return fmt.Errorf("changing the root: %w", err)
	}
	return s.furnish()
}

// furnish makes the container's mounts. It runs within the new root: links on the way to a
// mount point, such as /var/run, must lead to places of the container and never of the
// machine.
func (s *Spec) furnish() error {
	for _, m := range s.Mounts {
		if err := m.bind(); err != nil {
			return fmt.Errorf("mounting %s: %w", m.Target, err)
		}
	}
	for _, name := range s.Open {
		if err := openParents(name); err != nil {
			return err
		}
	}
	if err := errors.Join(unix.Unmount(machine, unix.MNT_DETACH), os.Remove(machine)); err != nil {
		return fmt.Errorf("leaving the machine's root: %w", err)
	}
	if s.ReadOnlyRoot {
		if err := unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
			return fmt.Errorf("making the root read-only: %w", err)
		}
	}
	return nil
}

// system mounts what every container has.
func (s *Spec) system(root string) error {
	for _, name := range []string{"/dev", "/sys"} {
		if err := unix.Mount(name, root+name, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("mounting %s: %w", name, err)
		}
	}
	if err := unix.Mount("proc", root+"/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	if s.ReadOnlyRoot {
		return os.MkdirAll(root+"/tmp", 0o755) // an image without a volume there
	}
	// Not the machine's: programs would meet what other tests keep there.
	if err := unix.Mount("tmpfs", root+"/tmp", "tmpfs", 0, "mode=1777"); err != nil {
		return fmt.Errorf("mounting /tmp: %w", err)
	}
	return nil
}

// bind makes the mount point, in the container's layer, and mounts.
func (m Mount) bind() error {
	target := m.Target
	info, err := os.Stat(m.Source)
	if err != nil {
		return fmt.Errorf("what to mount: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return fmt.Errorf("making the mount point: %w", err)
	}
	if info.IsDir() {
		err = os.MkdirAll(target, 0o755)
	} else {
		var file *os.File
		if file, err = os.OpenFile(target, os.O_CREATE|os.O_RDONLY, 0o644); err == nil {
			err = file.Close()
		}
	}
	if err != nil {
		return fmt.Errorf("making the mount point: %w", err)
	}
	if err := unix.Mount(m.Source, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	if m.ReadOnly {
		return unix.Mount("", target, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")
	}
	return nil
}

// openParents lets everybody pass the folders above a path, within the container: a tool
// that lies in root's home must be there for a container that is not root.
func openParents(name string) error {
	for folder := filepath.Dir(name); folder != "/"; folder = filepath.Dir(folder) {
		info, err := os.Stat(folder)
		if err != nil {
			return fmt.Errorf("opening %s: %w", folder, err)
		}
		if info.Mode().Perm()&0o001 != 0 {
			continue
		}
		if err := os.Chmod(folder, info.Mode().Perm()|0o011); err != nil {
			return fmt.Errorf("opening %s: %w", folder, err)
		}
	}
	return nil
}
