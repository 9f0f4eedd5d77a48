package memo

import (
	"slices"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
)

// Report is what there is to say about all objects, sorted, with the positions in their
// manifests. It is compiled when it is asked for, once for each Update. Don't change it.
func (m *Memo) Report() []report.Finding {
	if m.reported != nil {
		return m.reported
	}
	findings := m.quarantine.findings()
	for about, list := range m.findings {
		switch about := about.(type) {
		case *backendUnit:
			findings = append(findings, about.addressed(list)...)
		case *certificateUnit:
			findings = append(findings, about.addressed(list)...)
		default:
			findings = append(findings, list...)
		}
	}
	for i := range findings {
		m.locate(&findings[i])
	}
	m.reported = slices.Clip(report.Sort(findings))
	return m.reported
}

// addressed are the findings of a backend unit with those about its asker, for example of a
// missing Service, said of each object that asks.
func (u *backendUnit) addressed(findings []report.Finding) []report.Finding {
	var list []report.Finding
	for _, f := range findings {
		if f.Object != u.ref.Origin {
			list = append(list, f)
			continue
		}
		for _, asker := range u.askers() {
			f.Object = asker
			list = append(list, f)
		}
	}
	return list
}

// addressed are the findings of a certificate unit without those about a Secret that does
// not exist: they are said of the objects that name it.
func (u *certificateUnit) addressed(findings []report.Finding) []report.Finding {
	var list []report.Finding
	for _, f := range findings {
		if f.Code != report.SecretMissing || u.pinned {
			list = append(list, f)
		}
	}
	return list
}

// locate adds where the object stands in its source.
func (m *Memo) locate(f *report.Finding) {
	if m.snapshot == nil || f.File != "" {
		return
	}
	key := snapshot.Key{Kind: snapshot.Kind(f.Object.Kind), Namespace: f.Object.Namespace, Name: f.Object.Name}
	position := m.snapshot.Position(key)
	f.File, f.Line = position.File, position.Line
}
