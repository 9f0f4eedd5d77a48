package kube

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/tests/kube/internal/container"
	"github.com/sluice-proxy/sluice/tests/kube/internal/sandbox"
)

// Environment variables by which the sandbox learns what was prepared outside, where there
// is a network and a Go build cache.
const (
	folderVariable   = "SLUICE_KUBE_FOLDER"    // of this run
	assetsVariable   = "SLUICE_KUBE_ASSETS"    // with the control plane's programs
	rootVariable     = "SLUICE_KUBE_ROOT"      // of the repository
	productVariable  = "SLUICE_KUBE_PROGRAMS"  // with the repository's own programs
	registerVariable = "SLUICE_KUBE_REGISTERS" // names of those programs
)

// Main runs the tests of a package in a sandbox and ends the process with their exit code:
// it is all that TestMain does. The programs are built first: commands of the repository, by
// their names below cmd/, and others by their import paths (with a slash), in the versions of
// the test's module.
func Main(m *testing.M, programs ...string) {
	switch os.Getenv(sandbox.StageVariable) {
	case sandbox.StageContainer:
		container.Become()
	case sandbox.StageInit:
		sandbox.Init()
	case sandbox.StageTests:
		os.Exit(inside(m))
	default:
		code, err := outside(programs)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 2
		}
		os.Exit(code)
	}
}

// outside prepares what needs the machine's network and runs the sandbox.
func outside(programs []string) (int, error) {
	root, err := repository()
	if err != nil {
		return 0, err
	}
	folder, err := sandbox.Folder()
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(folder)
	built := filepath.Join(folder, "bin")
	if err := build(root, built, programs); err != nil {
		return 0, err
	}
	assets, err := output(root, "tests/tools/controlplane.sh", "path")
	if err != nil {
		return 0, err
	}
	return sandbox.Enter([]string{
		folderVariable + "=" + folder, assetsVariable + "=" + assets, rootVariable + "=" + root,
		productVariable + "=" + built, registerVariable + "=" + strings.Join(programs, ","),
	})
}

// repository is the folder of the product's go.mod, above the test's.
func repository() (string, error) {
	folder, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the repository: %w", err)
	}
	for ; folder != "/"; folder = filepath.Dir(folder) {
		text, err := os.ReadFile(filepath.Join(folder, "go.mod"))
		if err == nil && strings.HasPrefix(string(text), "module github.com/sluice-proxy/sluice\n") {
			return folder, nil
		}
	}
	return "", errors.New("the tests do not run below the repository of sluice")
}

func build(root, folder string, programs []string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("making a folder for programs: %w", err)
	}
	var own, others []string
	for _, name := range programs {
		if strings.Contains(name, "/") {
			others = append(others, name)
		} else {
			own = append(own, "./cmd/"+name)
		}
	}
	for module, packages := range map[string][]string{root: own, ".": others} {
		if len(packages) == 0 {
			continue
		}
		if _, err := output(module, "go", append([]string{"build", "-o", folder + "/"}, packages...)...); err != nil {
			return err
		}
	}
	return nil
}

// output runs a command in a folder and returns what it printed; what it has to say to
// people goes to people. A name with a slash is a file in the folder.
func output(folder, name string, args ...string) (string, error) {
	command := exec.Command(name, args...)
	command.Dir = folder
	// Static programs run in any container.
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	command.Stderr = os.Stderr
	if strings.Contains(name, "/") {
		command.Path = filepath.Join(folder, name)
	}
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// inside sets up the sandbox and runs the tests.
func inside(m *testing.M) int {
	// The tests' children must not take themselves for a stage.
	if err := os.Unsetenv(sandbox.StageVariable); err != nil {
		panic(err) // the name is fine
	}
	return m.Run()
}

// Program is the path of a program that Main was told to build.
func Program(t testing.TB, name string) string {
	t.Helper()
	if !strings.Contains(","+os.Getenv(registerVariable)+",", ","+name+",") {
		t.Fatalf("program %q was not built: name it in the call of kube.Main in TestMain", name)
	}
	return filepath.Join(os.Getenv(productVariable), path.Base(name))
}

// Root is the folder of the repository.
func Root() string { return os.Getenv(rootVariable) }
