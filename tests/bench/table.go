package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"unicode/utf8"
)

// row is one measured value with its target.
type row struct {
	section, what, target, value, verdict string
}

// Verdicts of rows. A row without a target has none.
const (
	ok     = "ok"
	missed = "MISSED"
)

// table are all rows, in the order in which they were measured.
type table struct {
	rows    []row
	section string
}

// begin starts a section.
func (t *table) begin(section string) { t.section = section }

// claim adds a value that must hold.
func (t *table) claim(what, target, value string, holds bool) {
	verdict := missed
	if holds {
		verdict = ok
	}
	t.add(row{t.section, what, target, value, verdict})
}

// ratio adds a ratio that must not exceed a limit.
func (t *table) ratio(what string, value, limit float64) {
	t.claim(what, fmt.Sprintf("<= %.1f", limit), fmt.Sprintf("%.2f", value), value <= limit)
}

// atLeast adds a ratio that must not fall below a limit.
func (t *table) atLeast(what string, value, limit float64) {
	t.claim(what, fmt.Sprintf(">= %.1f", limit), fmt.Sprintf("%.2f", value), value >= limit)
}

// inform adds a value for the reader.
func (t *table) inform(what, value string) { t.add(row{t.section, what, "", value, ""}) }

func (t *table) add(r row) {
	t.rows = append(t.rows, r)
	progress("%s: %s %s", r.what, r.value, r.verdict)
}

func (t *table) missed() bool {
	for _, r := range t.rows {
		if r.verdict == missed {
			return true
		}
	}
	return false
}

// print writes the table for a terminal.
func (t *table) print(w io.Writer) {
	wide := [3]int{}
	for _, r := range t.rows {
		for i, cell := range []string{r.what, r.target, r.value} {
			wide[i] = max(wide[i], utf8.RuneCountInString(cell))
		}
	}
	section := ""
	for _, r := range t.rows {
		if r.section != section {
			section = r.section
			fmt.Fprintf(w, "\n%s\n", section)
		}
		line := fmt.Sprintf("  %-*s  %-*s  %-*s  %s", wide[0], r.what, wide[1], r.target, wide[2], r.value, r.verdict)
		fmt.Fprintln(w, strings.TrimRight(line, " "))
	}
}

// page writes docs/performance.md.
func (b *bench) page(name string) error {
	var text strings.Builder
	fmt.Fprintf(&text, pageHead, runtime.NumCPU(), runtime.Version(), version(b.binaries["3.4"]), version(b.binaries["3.2"]))
	section := ""
	for _, r := range b.table.rows {
		if r.section != section {
			section = r.section
			fmt.Fprintf(&text, "\n## %s\n\n| what | target | measured | |\n| --- | --- | --- | --- |\n", section)
		}
		fmt.Fprintf(&text, "| %s | %s | %s | %s |\n", r.what, r.target, r.value, r.verdict)
	}
	text.WriteString(clusterPart(name))
	return os.WriteFile(name, []byte(text.String()), 0o644)
}

// clusterPart is the part of the page that `make bench-cluster` writes: it stays.
func clusterPart(name string) string {
	old, err := os.ReadFile(name)
	if err != nil {
		return "" // there is no page yet
	}
	_, part, found := strings.Cut(string(old), clusterMark)
	if !found {
		return ""
	}
	return clusterMark + part
}

// clusterMark begins that part.
const clusterMark = "\n<!-- Written by: make bench-cluster -->\n"

const pageHead = `# Performance

<!-- Written by: make bench BENCH_FLAGS="-out docs/performance.md" -->

What sluice costs, and what it promises. All values were measured in one run on one machine (%d cores, %s, HAProxy %s;
%s for comparison), most of them as ratios, which say the same on any machine. Run it on yours with
` + "`make bench`" + `: it fails if a target is missed. What exactly is measured, and how, stands at each part of
[tests/bench](../tests/bench/doc.go).

CPU is user and system time of the controller, garbage collection included. The shape is one Ingress with one host for each
Service, and 10 endpoints for each Service. "The parse" is the CPU time of ` + "`haproxy -c`" + ` on the rendered tree: whatever the
controller does, HAProxy has to do that much for each reload.
`
