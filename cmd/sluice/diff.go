package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	"github.com/spf13/cobra"

	"github.com/sluice-proxy/sluice/cmd/internal/options"
	"github.com/sluice-proxy/sluice/pkg/haproxy/plan"
)

func diffCommand(s streams) *cobra.Command {
	o := &options.Options{}
	command := &cobra.Command{
		Use:   "diff SOURCE... (--against DIR | --running URL)",
		Short: "Say what manifests would change",
		Long: `Compare the configuration that manifests ask for with the one in a folder or of a
running sluice: first as a unified diff, then as the steps that the change would take,
each with its reason. Exit code 0 says that nothing would change and nothing is wrong with
the manifests, 1 that one of the two is so.`,
		Example: "  sluice diff manifests/ --against /etc/haproxy/sluice\n  sluice diff manifests/ --running http://127.0.0.1:9090",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return diff(o, args, s)
		},
	}
	o.Bind(command.Flags(), options.Diff)
	return command
}

func diff(o *options.Options, sources []string, s streams) error {
	var before *standing
	var err error
	switch {
	case (o.Against == "") == (o.Running == ""):
		return errors.New("name what to compare with: either --against DIR or --running URL")
	case o.Against != "":
		before, err = readStanding(o.Against)
	default:
		before, err = fetchStanding(o.Running)
	}
	if err != nil {
		return err
	}
	line, err := lineOf(o, sources, s.in)
	if err != nil {
		return err
	}
	old, err := before.registry(line)
	if err != nil {
		return err
	}
	p, err := line.Plan(old)
	if err != nil {
		return err
	}
	findings := line.Report()
	printFindings(s.err, findings)
	if err := printDifference(s.out, o.Output, before, p); err != nil {
		return err
	}
	if !p.Empty() || bad(findings) {
		return errFindings
	}
	return nil
}

// printDifference writes what differs and the steps in the wanted format. As text, nothing
// is written where nothing differs.
func printDifference(w io.Writer, format string, before *standing, p *plan.Plan) error {
	if format == "json" {
		var text strings.Builder
		if err := printDiff(&text, before, p); err != nil {
			return err
		}
		return printJSON(w, difference{Diff: text.String(), Steps: stepsOf(p), Reload: p.Reload != nil})
	}
	if p.Empty() {
		return nil
	}
	if err := printDiff(w, before, p); err != nil {
		return err
	}
	printSteps(w, p)
	return nil
}

// printDiff writes a unified diff of all files whose content may be shown.
func printDiff(w io.Writer, before *standing, p *plan.Plan) error {
	for _, write := range p.Writes {
		if write.File.Secret != nil {
			fmt.Fprintf(w, "secret %s: %s\n", write.File.Path, write.Reason)
			continue
		}
		if err := printFileDiff(w, write.File.Path, before.content[write.File.Path], write.File.Bytes()); err != nil {
			return err
		}
	}
	for _, removal := range p.Removals {
		if removal.Kind.Secret() {
			fmt.Fprintf(w, "secret %s: %s\n", removal.Path, removal.Reason)
			continue
		}
		if err := printFileDiff(w, removal.Path, before.content[removal.Path], nil); err != nil {
			return err
		}
	}
	return nil
}

func printFileDiff(w io.Writer, path string, before, after []byte) error {
	d := difflib.UnifiedDiff{
		A: difflib.SplitLines(strings.TrimSuffix(string(before), "\n")), B: difflib.SplitLines(strings.TrimSuffix(string(after), "\n")),
		FromFile: "a/" + path, ToFile: "b/" + path, Context: 3,
	}
	if before == nil {
		d.A, d.FromFile = nil, "/dev/null"
	}
	if after == nil {
		d.B, d.ToFile = nil, "/dev/null"
	}
	if err := difflib.WriteUnifiedDiff(w, d); err != nil {
		return fmt.Errorf("writing the diff: %w", err)
	}
	return nil
}

// difference is what diff prints as JSON.
type difference struct {
	Diff   string `json:"diff"`  // unified, with a line for each secret
	Steps  []step `json:"steps"` // in their order; never null
	Reload bool   `json:"reload"`
}

// step is one step of a plan, for people and programs to read.
type step struct {
	Do   string `json:"do"` // write, remove, runtime or reload
	What string `json:"what,omitempty"`
	Why  string `json:"why"`
}

// String is a line of text.
func (s step) String() string {
	switch s.Do {
	case "reload":
		return s.Do + ": " + s.Why
	case "runtime":
		return s.Do + ": " + s.What + ": " + s.Why
	}
	return s.Do + " " + s.What + ": " + s.Why
}

// stepsOf are the steps of a plan.
func stepsOf(p *plan.Plan) []step {
	list := []step{}
	for _, s := range p.Steps() {
		switch s := s.(type) {
		case plan.WriteFile:
			list = append(list, step{"write", s.File.Path, s.Reason})
		case plan.RemoveFile:
			list = append(list, step{"remove", s.Path, s.Reason})
		case plan.RuntimeCommand:
			list = append(list, step{"runtime", plan.Describe(s.Command), s.Reason})
		case plan.Reload:
			list = append(list, step{"reload", "", strings.Join(s.Reasons, "; ")})
		}
	}
	return list
}

// printSteps writes what would be done, a line each, and why.
func printSteps(w io.Writer, p *plan.Plan) {
	fmt.Fprintln(w, "\nSteps:")
	for _, s := range stepsOf(p) {
		fmt.Fprintf(w, "  %s\n", s)
	}
	if p.Reload == nil {
		fmt.Fprintln(w, "  no reload")
	}
}
