package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/sluice-proxy/sluice/cmd/internal/loop"
	"github.com/sluice-proxy/sluice/cmd/internal/options"
	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/resolve"
	"github.com/sluice-proxy/sluice/pkg/converters/source/files"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/plan"
	"github.com/sluice-proxy/sluice/pkg/haproxy/tree"
)

// lineOf reads the sources once and runs the line up to the model.
func lineOf(o *options.Options, sources []string, in io.Reader) (*loop.Line, error) {
	line, err := emptyLine(o)
	if err != nil {
		return nil, err
	}
	content, err := files.Read(sources, in)
	if err != nil {
		return nil, err
	}
	line.Take(content.Changes, content.Findings, time.Now())
	return line, nil
}

// emptyLine is a line that has taken nothing yet. Offline commands show what would be
// rendered, so the controller's own certificate is a fresh one each time; it has a fixed
// file name.
func emptyLine(o *options.Options) (*loop.Line, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	own, err := resolve.SelfSigned(time.Now())
	if err != nil {
		return nil, err
	}
	own.Name = loop.OwnCertificate
	return loop.NewLine(o, own)
}

// rendered is the way from nothing to the line's model, with the file in the tree that apply
// writes: it holds the number of no batch and the digest of no tree, since nobody adopts
// what was rendered offline, and equal manifests shall give equal bytes.
func rendered(line *loop.Line) (*plan.Plan, error) {
	p, err := line.Plan(nil)
	if err != nil {
		return nil, err
	}
	p.Tree.Add(tree.GenerationFile(0, model.Digest{}))
	return p, nil
}

// printFindings writes one line for each finding.
func printFindings(w io.Writer, findings []report.Finding) {
	for _, f := range findings {
		fmt.Fprintln(w, f)
	}
}

// bad tells whether any finding is worse than a remark.
func bad(findings []report.Finding) bool {
	return slices.ContainsFunc(findings, func(f report.Finding) bool { return f.Severity() > report.Info })
}

// printJSON writes a value for programs.
func printJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return nil
}
