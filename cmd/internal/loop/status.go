package loop

import (
	"context"
	"log/slog"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/status"
	"github.com/sluice-proxy/sluice/pkg/haproxy/shard"
)

// publish shows the state of the loop on the admin address.
func (l *Loop) publish(reg *shard.Registry) {
	if reg != nil {
		l.status.Generation = reg.Header.Generation
		l.status.Shards = reg.Header.Shards
		l.status.HAProxyPID = reg.Header.PID
		l.status.Dynamic = reg.Worker.Dynamic
		l.status.Backends = l.Line.Model().Backends.Len()
	}
	l.status.Wanted = l.wanted
	l.status.Waiting = l.Apply.Waiting()
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
	before := l.status.Findings
	l.status.Findings = l.Line.Report()
	if found := refusals(l.Line.Model(), l.failing); len(found) > 0 {
		l.status.Findings = report.Sort(append(slices.Clone(l.status.Findings), found...))
	}
	l.logFindings(before, l.status.Findings)
	if l.Writer != nil {
		l.Writer.Notice(l.Line.Notices(l.status.Findings))
	}
	l.Metrics.Findings(countByCode(l.status.Findings), len(l.status.Quarantined))
}

// post hands statuses to the writer, now that HAProxy serves what they tell of.
func (l *Loop) post(items []status.Item) {
	if l.Writer == nil {
		return
	}
	if address := strings.Join(l.Line.Addresses(), " "); address != l.address {
		l.address = address
		if address == "" {
			l.Log.Warn("no address is known any more; the status of Ingresses stays as it is")
		} else {
			l.Log.Info("the status of Ingresses", "addresses", address)
		}
	}
	if len(items) > 0 {
		l.Writer.Post(items)
	}
}

// logFindings says what is new and what is gone, each finding once.
func (l *Loop) logFindings(before, after []report.Finding) {
	known := make(map[report.Finding]bool, len(before))
	for _, f := range before {
		known[f] = true
	}
	for _, f := range after {
		if !known[f] {
			l.Log.Log(context.Background(), levels[f.Severity()], "finding", "what", f.String())
		}
		delete(known, f)
	}
	for _, f := range before {
		if known[f] {
			l.Log.Info("finding is gone", "what", f.String())
		}
	}
}

// levels are the levels of the log by severity.
var levels = [...]slog.Level{report.Info: slog.LevelInfo, report.Warning: slog.LevelWarn, report.Error: slog.LevelError}

func countByCode(findings []report.Finding) map[string]int {
	counts := map[string]int{}
	for _, f := range findings {
		counts[string(f.Code)]++
	}
	return counts
}
