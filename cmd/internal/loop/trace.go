package loop

import (
	"bytes"
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/process"
	"github.com/sluice-proxy/sluice/pkg/haproxy/socket"
)

// refused is a refusal with what is needed to find out whose it is.
type refused struct {
	refusal *process.Refusal
	content func(path string) []byte // of the refused tree; nil: not known
	model   *model.Model
	global  model.Origin // of the global settings; zero: there are none
}

// trace finds the objects that made the text which HAProxy refuses: none where sluice
// itself is to blame.
//
// Every section of a file that users' objects shape is named after what made it, so the
// last section header at or above the line says whose it is.
func (r refused) trace() []model.Origin {
	header := r.refusal.Section
	if text := r.content(r.refusal.File); text != nil && r.refusal.Line > 0 {
		header = sectionAt(text, r.refusal.Line)
	}
	kind, name, _ := strings.Cut(header, " ")
	var origins []model.Origin
	switch kind {
	case "backend", "proxy": // HAProxy's word in some alerts is "Proxy"
		if b := r.model.Backends.Lookup(name); b != nil {
			origins = b.Origins
		}
	case "defaults":
		origins = r.traceProfile(name)
	case "userlist":
		for _, list := range r.model.Userlists {
			if list.Name == name {
				origins = append(origins, list.Origin)
			}
		}
	case "frontend":
		origins = r.traceFrontend(name)
	case "global", "resolvers":
		origins = append(origins, r.global)
	}
	if len(origins) == 0 {
		origins = traceFile(r.refusal, r.model)
	}
	origins = slices.Clone(origins)
	slices.SortFunc(origins, model.CompareOrigins)
	return slices.Compact(slices.DeleteFunc(origins, model.Origin.IsZero))
}

// traceFrontend blames who asks for the port of a TCP service; the other frontends are the
// global settings'.
func (r refused) traceFrontend(name string) []model.Origin {
	for _, f := range r.model.TCP {
		if f.Name() == name {
			return f.Origins
		}
	}
	return []model.Origin{r.global}
}

// traceProfile blames everybody who uses a profile: they all ask for the same.
func (r refused) traceProfile(name string) []model.Origin {
	if name == model.DefaultProfile || strings.HasPrefix(name, "base-") {
		return []model.Origin{r.global}
	}
	var origins []model.Origin
	for b := range r.model.Backends.All {
		if b.Profile.Name == name {
			origins = append(origins, b.Origins...)
		}
	}
	return origins
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

// bindAlert is HAProxy's word for an address of a TCP service that it can't have (tried with
// 3.2.26 and 3.4.7).
var bindAlert = regexp.MustCompile(`Binding \[[^\]]*\] for frontend (tcp-[0-9]+): .*`)

// traceBind finds the objects that ask for a port which HAProxy can't have, with its words.
// `haproxy -c` binds nothing, so that is seen when the worker starts.
func traceBind(err error, m *model.Model) (origins []model.Origin, message string) {
	output := ""
	if bind := (*process.BindError)(nil); errors.As(err, &bind) {
		output = bind.Output
	}
	if refused := (*socket.Refused)(nil); errors.As(err, &refused) {
		output = refused.Logs
	}
	for _, alert := range bindAlert.FindAllStringSubmatch(output, -1) {
		for _, f := range m.TCP {
			if f.Name() == alert[1] {
				origins = append(origins, f.Origins...)
				message = alert[0]
			}
		}
	}
	slices.SortFunc(origins, model.CompareOrigins)
	return slices.Compact(origins), message
}
