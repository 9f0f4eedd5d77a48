package loop

import (
	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/haproxy/shard"
)

// publish shows the state of the loop on the admin address.
func (l *Loop) publish(reg *shard.Registry) {
	if reg != nil {
		l.status.Generation = reg.Header.Generation
		l.status.Shards = reg.Header.Shards
		l.status.HAProxyPID = reg.Header.PID
		l.status.Backends = l.Line.Model().Backends.Len()
	}
	l.status.Wanted = l.wanted
	l.status.Quarantined = nil
	for _, origin := range l.Line.Quarantined() {
		l.status.Quarantined = append(l.status.Quarantined, origin.String())
	}
	if !l.reported {
		l.report()
	}
	status := l.status
	l.Metrics.Generations(l.wanted, l.status.Applied)
	l.Metrics.Conversions(l.Line.Conversions())
	l.Publish(&status)
}

// report compiles the findings. That takes time for all of them, so it is done when the
// first events are through and then once in a while, not for each event.
func (l *Loop) report() {
	l.reported = true
	l.status.Findings = l.Line.Report()
	l.Metrics.Findings(countByCode(l.status.Findings), len(l.status.Quarantined))
}

func countByCode(findings []report.Finding) map[string]int {
	counts := map[string]int{}
	for _, f := range findings {
		counts[string(f.Code)]++
	}
	return counts
}
