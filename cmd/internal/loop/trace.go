package loop

import (
	"bytes"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/process"
	"github.com/sluice-proxy/sluice/pkg/haproxy/tree"
)

// Trace finds the objects that made the text which HAProxy refuses: none where sluice
// itself, or the whole, is to blame.
//
// Every section of a file that users' objects shape is named after what made it, so the
// last section header at or above the line says whose it is.
func Trace(refusal *process.Refusal, t *tree.Tree, m *model.Model) []model.Origin {
	name := refusal.Section
	if file, ok := t.Files[refusal.File]; ok && refusal.Line > 0 {
		name = sectionAt(file.Bytes(), refusal.Line)
	}
	kind, name, _ := strings.Cut(name, " ")
	var origins []model.Origin
	switch kind {
	case "backend":
		if b := m.Backends.Lookup(name); b != nil {
			origins = b.Origins
		}
	case "defaults":
		for b := range m.Backends.All {
			if b.Profile.Name == name && name != model.DefaultProfile {
				origins = append(origins, b.Origins...)
			}
		}
	case "userlist":
		for _, list := range m.Userlists {
			if list.Name == name {
				origins = append(origins, list.Origin)
			}
		}
	}
	if origins == nil {
		origins = traceFile(refusal, m)
	}
	origins = slices.Clone(origins)
	slices.SortFunc(origins, model.CompareOrigins)
	return slices.Compact(slices.DeleteFunc(origins, model.Origin.IsZero))
}

// traceFile blames the object behind a file that HAProxy names in its message.
func traceFile(refusal *process.Refusal, m *model.Model) []model.Origin {
	var origins []model.Origin
	for _, c := range slices.Concat(m.Certificates, m.CAFiles) {
		if strings.Contains(refusal.Message, c.Name) {
			origins = append(origins, c.Origin)
		}
	}
	for _, list := range m.Lists {
		if strings.Contains(refusal.Message, "lists/"+list.Name+".lst") {
			origins = append(origins, list.Origin)
		}
	}
	return origins
}

// sectionAt is the header, without "from", of the section that a line stands in.
func sectionAt(text []byte, line int) string {
	header := ""
	for i, l := range bytes.Split(text, []byte("\n")) {
		if i >= line {
			break
		}
		if len(l) > 0 && l[0] != ' ' && l[0] != '#' {
			words := strings.Fields(string(l))
			header = strings.Join(words[:min(2, len(words))], " ")
		}
	}
	return header
}
