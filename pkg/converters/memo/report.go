package memo

import "github.com/sluice-proxy/sluice/pkg/converters/report"

// Report is what there is to say about all objects, sorted. It is compiled when it is asked
// for, which takes time for all findings.
func (m *Memo) Report() []report.Finding {
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
	return report.Sort(findings)
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
