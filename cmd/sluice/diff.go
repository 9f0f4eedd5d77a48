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
	"github.com/sluice-proxy/sluice/pkg/haproxy/tree"
)

func diffCommand(s streams) *cobra.Command {
	o := &options.Options{}
	command := &cobra.Command{
		Use:   "diff SOURCE... (--against DIR | --running URL)",
		Short: "Say what manifests would change",
		Long: `Compare the configuration that manifests ask for with the one in a folder or of a
running sluice: first as a unified diff, then as the steps that the change would take,
each with its reason. Exit code 0 says that nothing would change, 1 that something would.`,
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
	old, err := before.registry(line.Templates())
	if err != nil {
		return err
	}
	p, err := line.Plan(old)
	if err != nil {
		return err
	}
	before.forget(p)
	printFindings(s.err, line.Report())
	if p.Empty() {
		return nil
	}
	if err := printDiff(s.out, before, p); err != nil {
		return err
	}
	printSteps(s.out, p)
	return errFindings
}

// printDiff writes a unified diff of all files whose content may be shown.
func printDiff(w io.Writer, before *standing, p *plan.Plan) error {
	for _, write := range p.Writes {
		if write.File.Secret != nil {
			fmt.Fprintf(w, "secret %s: %s\n", write.File.Path, write.Reason)
			continue
		}
		if err := printFileDiff(w, write.File.Path, before.content[write.File.Path], write.File.Content); err != nil {
			return err
		}
	}
	for _, removal := range p.Removals {
		if removal.Kind == tree.Cert || removal.Kind == tree.Userlists {
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

// printSteps writes what would be done, a line each, and why.
func printSteps(w io.Writer, p *plan.Plan) {
	fmt.Fprintln(w, "\nSteps:")
	for _, step := range p.Steps() {
		switch step := step.(type) {
		case plan.WriteFile:
			fmt.Fprintf(w, "  write %s: %s\n", step.File.Path, step.Reason)
		case plan.RemoveFile:
			fmt.Fprintf(w, "  remove %s: %s\n", step.Path, step.Reason)
		case plan.RuntimeCommand:
			fmt.Fprintf(w, "  runtime: %s: %s\n", plan.Describe(step.Command), step.Reason)
		case plan.Reload:
			fmt.Fprintf(w, "  reload: %s\n", strings.Join(step.Reasons, "; "))
		}
	}
	if p.Reload == nil {
		fmt.Fprintln(w, "  no reload")
	}
}
