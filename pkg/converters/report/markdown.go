package report

import (
	"maps"
	"slices"
	"strings"
)

// Markdown is the page docs/findings.md.
func Markdown() string {
	var b strings.Builder
	b.WriteString(`# Findings

This page is generated from the catalogue in pkg/converters/report; a test fails when it is stale.

A finding says that something about an object is wrong, incomplete or overruled. It is shown by
` + "`sluice check`, `sluice render` and `sluice diff`, in the log of `sluice run` and in `/api/v1/state`" + `, and counted in the
metric ` + "`sluice_findings{code}`" + `. Severity *error*: a part of the object is not served, or denied; *warning*: something that it
asks for is not done; *info*: nothing is lost.

| Code | Severity | What it is | What it means and what to do |
|---|---|---|---|
`)
	for _, code := range slices.Sorted(maps.Keys(Catalogue)) {
		e := Catalogue[code]
		cells := []string{"`" + string(code) + "`", e.Severity.String(), e.Title, e.Text}
		for _, cell := range cells {
			b.WriteString("| " + strings.ReplaceAll(cell, "|", `\|`) + " ")
		}
		b.WriteString("|\n")
	}
	return b.String()
}
