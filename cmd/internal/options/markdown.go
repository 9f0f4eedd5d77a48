package options

import (
	"fmt"
	"strings"
)

// Markdown is docs/flags.md.
func Markdown() string {
	var b strings.Builder
	b.WriteString("# Flags\n\nThis page is generated from the table in cmd/internal/options; a test fails when it is stale.\n\n")
	b.WriteString("| flag | commands | default | meaning |\n| --- | --- | --- | --- |\n")
	for _, f := range table {
		fmt.Fprintf(&b, "| `--%s` | %s | %s | %s |\n", f.name, f.on, presetText(f.preset), f.usage)
	}
	return b.String()
}

func presetText(preset any) string {
	text := strings.Trim(fmt.Sprint(preset), "[]")
	if list, ok := preset.([]string); ok {
		text = strings.Join(list, ",")
	}
	if text == "" {
		return "none"
	}
	return "`" + text + "`"
}

// String is the names of the commands, as a user types them.
func (c Command) String() string {
	var names []string
	for i, name := range []string{"run", "render", "diff", "check"} {
		if c&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}
