package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/sluice-proxy/sluice/cmd/internal/loop"
	"github.com/sluice-proxy/sluice/cmd/internal/options"
	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/haproxy/process"
)

func checkCommand(s streams) *cobra.Command {
	o := &options.Options{}
	command := &cobra.Command{
		Use:   "check SOURCE...",
		Short: "Say what is wrong with manifests",
		Long: `Say what is wrong with manifests, by file and line. With --haproxy, HAProxy itself
checks the configuration, too, and what it refuses is traced to the object behind it.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			return check(command.Context(), o, args, s)
		},
	}
	o.Bind(command.Flags(), options.Check)
	return command
}

func check(ctx context.Context, o *options.Options, sources []string, s streams) error {
	line, err := lineOf(o, sources, s.in)
	if err != nil {
		return err
	}
	findings := line.Report()
	if o.HAProxy != "" {
		refused, err := checkWithHAProxy(ctx, o, line)
		if err != nil {
			return err
		}
		findings = report.Sort(append(findings, refused...))
	}
	if o.Output == "json" {
		if err := printJSON(s.out, append([]report.Finding{}, findings...)); err != nil { // never null
			return err
		}
	} else {
		printFindings(s.err, findings)
	}
	switch {
	case bad(findings):
		return errFindings
	case o.Output == "json":
	case len(findings) > 0:
		fmt.Fprintf(s.out, "%d backends, nothing is wrong\n", line.Model().Backends.Len())
	default:
		fmt.Fprintf(s.out, "%d backends, no complaints\n", line.Model().Backends.Len())
	}
	return nil
}

// checkWithHAProxy lets HAProxy read the tree and traces a refusal to its objects.
func checkWithHAProxy(ctx context.Context, o *options.Options, line *loop.Line) ([]report.Finding, error) {
	binary, err := o.Binary()
	if err != nil {
		return nil, err
	}
	p, err := rendered(line)
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "sluice-check-")
	if err != nil {
		return nil, fmt.Errorf("making a folder for the check: %w", err)
	}
	defer os.RemoveAll(folder)
	if err := writeTree(folder, p.Tree, true); err != nil {
		return nil, fmt.Errorf("writing the tree that HAProxy checks: %w", err)
	}
	err = process.Check(ctx, binary, filepath.Join(folder, "conf.d"))
	var refusal *process.Refusal
	if !errors.As(err, &refusal) {
		return nil, err
	}
	var findings []report.Finding
	for _, origin := range line.Trace(refusal, p) {
		findings = append(findings, line.Locate(report.New(report.Quarantined, origin, "HAProxy refuses what the object asks for: %s", refusal.Message)))
	}
	if len(findings) == 0 {
		return nil, fmt.Errorf("HAProxy refuses the configuration, and no object is to blame: %s", refusal.Output)
	}
	return findings, nil
}
