package main

import (
	"fmt"
	"io"
	"time"

	"github.com/sluice-proxy/sluice/cmd/internal/loop"
	"github.com/sluice-proxy/sluice/cmd/internal/options"
	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/resolve"
	"github.com/sluice-proxy/sluice/pkg/converters/source/files"
)

// lineOf reads the sources once and runs the line up to the model. Offline commands show
// what would be rendered, so the controller's own certificate is a fresh one each time;
// it has a fixed file name.
func lineOf(o *options.Options, sources []string, in io.Reader) (*loop.Line, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	content, err := files.Read(sources, in)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	own, err := resolve.SelfSigned(nil, now)
	if err != nil {
		return nil, err
	}
	own.Name = loop.OwnCertificate
	line, err := loop.NewLine(o, own)
	if err != nil {
		return nil, err
	}
	line.Take(content.Changes, content.Findings, now)
	return line, nil
}

// printFindings writes one line for each finding and tells whether any is worse than
// a remark.
func printFindings(w io.Writer, findings []report.Finding) (bad bool) {
	for _, f := range findings {
		fmt.Fprintln(w, f)
		bad = bad || f.Severity() > report.Info
	}
	return bad
}
