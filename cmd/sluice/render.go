package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/sluice-proxy/sluice/cmd/internal/loop"
	"github.com/sluice-proxy/sluice/cmd/internal/options"
	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/status/writer"
	"github.com/sluice-proxy/sluice/pkg/haproxy/tree"
)

func renderCommand(s streams) *cobra.Command {
	o := &options.Options{}
	command := &cobra.Command{
		Use:   "render SOURCE... --out DIR",
		Short: "Write the HAProxy configuration that manifests ask for",
		Long: `Write the whole tree that HAProxy would be started on. A SOURCE is a file or folder
of manifests, or - for standard input. Private keys and password hashes are left out
unless --with-keys is given. With --out - the tree is printed.

With --bootstrap, and no SOURCE, DIR becomes a configuration folder as run has it, so that
HAProxy can be started on DIR/current/conf.d before sluice runs: it answers 503 to
everything, and 200 to /healthz of --health-address. A folder that holds a configuration
already is left as it is.`,
		Example: "  sluice render manifests/ --out /tmp/tree\n  kubectl get ingressclasses,ing,svc,endpointslices,cm,secrets -A -o yaml | sluice render - --out -",
		Args: func(command *cobra.Command, args []string) error {
			if o.Bootstrap {
				return cobra.NoArgs(command, args)
			}
			return cobra.MinimumNArgs(1)(command, args)
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if o.Bootstrap {
				return bootstrap(o, s)
			}
			return render(o, args, s)
		},
	}
	o.Bind(command.Flags(), options.Render)
	return command
}

func render(o *options.Options, sources []string, s streams) error {
	if o.Out == "" {
		return errors.New("--out is missing: name a folder to write to, or - to print the tree")
	}
	line, err := lineOf(o, sources, s.in)
	if err != nil {
		return err
	}
	p, err := rendered(line)
	if err != nil {
		return err
	}
	if o.Out == "-" {
		printTree(s, p.Tree, o.WithKeys)
	} else if err := writeTree(o.Out, p.Tree, o.WithKeys); err != nil {
		return fmt.Errorf("--out=%s: %w", o.Out, err)
	}
	findings := line.Report()
	if err := renderStatus(o, line, findings, s); err != nil {
		return err
	}
	if err := renderUDP(o, line.Model(), s); err != nil {
		return err
	}
	printFindings(s.err, findings)
	if bad(findings) {
		return errFindings
	}
	return nil
}

// renderStatus writes the statuses that objects get once HAProxy serves the tree.
func renderStatus(o *options.Options, line *loop.Line, findings []report.Finding, s streams) error {
	if o.Status == "" {
		return nil
	}
	line.Planned()
	file := writer.NewFile(o.Status, slog.New(slog.DiscardHandler), writer.Metrics{})
	file.Post(line.Applied())
	file.Notice(line.Notices(findings))
	if o.Status == "-" {
		_, err := s.out.Write(file.Text())
		return err
	}
	if err := os.WriteFile(o.Status, file.Text(), 0o644); err != nil {
		return fmt.Errorf("--status: %w", err)
	}
	return nil
}

// printTree prints each file behind a line with its name, in the txtar format.
func printTree(s streams, t *tree.Tree, withKeys bool) {
	for _, path := range t.Paths() {
		if file, _ := t.Lookup(path); file.Secret == nil || withKeys {
			fmt.Fprintf(s.out, "-- %s --\n%s", path, file.Bytes())
		}
	}
}

// writeTree writes the files of a tree below a folder that is new, empty, or holds an
// earlier rendering: nothing else is ever overwritten or removed.
func writeTree(folder string, t *tree.Tree, withKeys bool) error {
	if err := clearTree(folder); err != nil {
		return err
	}
	for _, path := range t.Paths() {
		file, _ := t.Lookup(path)
		if file.Secret != nil && !withKeys {
			continue
		}
		name := filepath.Join(folder, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		mode := os.FileMode(0o644)
		if file.Secret != nil {
			mode = 0o600
		}
		if err := os.WriteFile(name, file.Bytes(), mode); err != nil {
			return err
		}
	}
	return nil
}

// clearTree removes an earlier rendering from a folder.
func clearTree(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	for _, e := range entries {
		if !slices.Contains(tree.Folders(), e.Name()) {
			return fmt.Errorf("the folder holds %s, which is no part of a rendered tree; name a new folder", e.Name())
		}
	}
	for _, part := range tree.Folders() {
		if err := os.RemoveAll(filepath.Join(folder, part)); err != nil {
			return err
		}
	}
	return nil
}
