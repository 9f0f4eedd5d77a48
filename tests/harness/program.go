package harness

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

var build = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "sluice-test-bin-")
	if err != nil {
		return "", err
	}
	command := exec.Command("go", "build", "-o", folder, "./cmd/...")
	command.Dir = root()
	if out, err := command.CombinedOutput(); err != nil {
		return "", errors.New(string(out))
	}
	return folder, nil
})

// Program is the path of a program of this repository ("sluice", "sluice-init", "sluice-echo"), built
// once for each test binary.
func Program(t testing.TB, name string) string {
	t.Helper()
	folder, err := build()
	if err != nil {
		t.Fatalf("building the programs: %v", err)
	}
	return filepath.Join(folder, name)
}

// Main runs the tests of a package and removes what Program built: to be called by
// TestMain.
func Main(m *testing.M) {
	code := m.Run()
	if folder, err := build(); err == nil {
		_ = os.RemoveAll(folder)
	}
	os.Exit(code)
}

// Ran is what a command line gave.
type Ran struct {
	Out, Err string
	Code     int
}

// Run runs a program of this repository to its end.
func Run(t testing.TB, stdin string, name string, args ...string) Ran {
	t.Helper()
	command := exec.Command(Program(t, name), args...)
	var out, errs bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = bytes.NewReader([]byte(stdin)), &out, &errs
	err := command.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s %v: %v", name, args, err)
	}
	return Ran{out.String(), errs.String(), command.ProcessState.ExitCode()}
}
