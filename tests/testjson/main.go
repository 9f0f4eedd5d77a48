package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	save := flag.String("save", "", "also write the stream as it is to this `file`")
	counts := flag.String("counts", "", "write \"PASSED FAILED SKIPPED\" to this `file`")
	flag.Parse()
	if err := run(os.Stdin, os.Stdout, *save, *counts); err != nil {
		fmt.Fprintln(os.Stderr, "testjson:", err)
		os.Exit(1)
	}
}

// run shows a stream, and returns an error if it can't, or if a test failed.
func run(in io.Reader, out io.Writer, save, counts string) error {
	if save != "" {
		file, err := os.Create(save)
		if err != nil {
			return err
		}
		defer file.Close()
		in = io.TeeReader(in, file)
	}
	result, err := show(in, out)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d tests passed, %d failed, %d skipped\n", result.passed, result.failed, result.skipped)
	if counts != "" {
		line := fmt.Sprintf("%d %d %d\n", result.passed, result.failed, result.skipped)
		if err := os.WriteFile(counts, []byte(line), 0o644); err != nil {
			return err
		}
	}
	switch {
	case result.failed > 0:
		return errors.New("there are failed tests")
	case result.passed == 0:
		return errors.New("no test ran")
	}
	return nil
}

// event is one line of the stream; see `go doc test2json`.
type event struct {
	Action     string
	Package    string
	ImportPath string // of a build event
	Test       string
	Output     string
}

// result counts tests.
type result struct{ passed, failed, skipped int }

// name is a test, or a package where test is empty.
type name struct{ pkg, test string }

// show copies what a reader wants to see and counts. A test's output is held back until
// it is known whether it failed.
func show(in io.Reader, out io.Writer) (result, error) {
	var sum result
	held := map[name][]string{}
	failedIn := map[string]int{}
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) != nil {
				// Not of the stream: a message of the go command itself.
				fmt.Fprint(out, line)
			} else {
				sum.add(e, failedIn)
				write(out, e, held)
			}
		}
		if errors.Is(err, io.EOF) {
			return sum, nil
		}
		if err != nil {
			return sum, err
		}
	}
}

func (sum *result) add(e event, failedIn map[string]int) {
	isTest := e.Test != ""
	switch {
	case e.Action == "pass" && isTest:
		sum.passed++
	case e.Action == "skip" && isTest:
		sum.skipped++
	case e.Action == "fail" && isTest:
		sum.failed++
		failedIn[e.Package]++
	case e.Action == "fail" && failedIn[e.Package] == 0:
		sum.failed++
	}
}

func write(out io.Writer, e event, held map[name][]string) {
	key := name{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		fmt.Fprint(out, e.Output)
	case "output":
		if e.Test == "" && isVerdict(e.Output) {
			fmt.Fprint(out, e.Output)
			return
		}
		held[key] = append(held[key], e.Output)
	case "fail":
		fmt.Fprint(out, strings.Join(held[key], ""))
		delete(held, key)
	case "pass", "skip":
		delete(held, key)
	}
}

// isVerdict says whether a line is the one that `go test` ends a package with.
func isVerdict(line string) bool {
	for _, start := range []string{"ok  \t", "FAIL\t", "?   \t", "---\t"} {
		if strings.HasPrefix(line, start) {
			return true
		}
	}
	return false
}
