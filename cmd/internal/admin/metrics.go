package admin

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/sluice-proxy/sluice/pkg/haproxy/plan"
	"github.com/sluice-proxy/sluice/pkg/haproxy/tree"
)

// Metrics are what sluice counts. Their names are part of the program's contract.
type Metrics struct {
	registry    *prometheus.Registry
	reloads     *prometheus.CounterVec
	writes      *prometheus.CounterVec
	commands    *prometheus.CounterVec
	conversions *prometheus.CounterVec
	latency     prometheus.Histogram
	findings    *prometheus.GaugeVec
	quarantined prometheus.Gauge
	wanted      prometheus.Gauge
	applied     prometheus.Gauge
	leader      prometheus.Gauge
	statuses    *prometheus.CounterVec

	converted map[string]int // as of the last Conversions
}

// NewMetrics is a set of metrics with a registry of its own.
func NewMetrics() *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sluice_" + name, Help: help}, labels)
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "sluice_" + name, Help: help})
	}
	m := &Metrics{
		registry:    prometheus.NewRegistry(),
		reloads:     counter("reloads_total", "Reloads of HAProxy, by reason.", "reason"),
		writes:      counter("file_writes_total", "Files written, by kind.", "kind"),
		commands:    counter("runtime_commands_total", "Runtime commands sent, by command and result.", "command", "result"),
		conversions: counter("conversions_total", "Units converted, by kind of unit.", "unit"),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "sluice_event_to_applied_seconds", Help: "Time from an event's arrival until HAProxy serves it.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 16),
		}),
		findings:    prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "sluice_findings", Help: "Findings in force, by code."}, []string{"code"}),
		quarantined: gauge("quarantined_objects", "Objects left out because HAProxy refuses what they ask for."),
		wanted:      gauge("generation_wanted", "Number of the batch that the source asks for."),
		applied:     gauge("generation_applied", "Number of the batch that HAProxy serves."),
		leader:      gauge("leader", "1 while this replica writes statuses and Events."),
		statuses:    counter("status_writes_total", "Statuses and Events written, by kind and result.", "kind", "result"),
		converted:   map[string]int{},
	}
	m.registry.MustRegister(m.reloads, m.writes, m.commands, m.conversions, m.latency, m.findings, m.quarantined, m.wanted, m.applied, m.leader, m.statuses,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// FileWritten counts a file.
func (m *Metrics) FileWritten(kind tree.Kind) { m.writes.WithLabelValues(string(kind)).Inc() }

// CommandSent counts a runtime command.
func (m *Metrics) CommandSent(verb string, ok bool) {
	result := "ok"
	if !ok {
		result = "error"
	}
	m.commands.WithLabelValues(verb, result).Inc()
}

// StatusWritten counts the write of a status or an Event.
func (m *Metrics) StatusWritten(kind, result string) { m.statuses.WithLabelValues(kind, result).Inc() }

// Leads sets whether this replica writes statuses and Events.
func (m *Metrics) Leads(leads bool) {
	value := 0.0
	if leads {
		value = 1
	}
	m.leader.Set(value)
}

// Reloaded counts a reload, by the kind of its first reason.
func (m *Metrics) Reloaded(reasons []string) {
	m.reloads.WithLabelValues(plan.ReasonKind(reasons[0])).Inc()
}

// Applied observes how long an event took.
func (m *Metrics) Applied(d time.Duration) { m.latency.Observe(d.Seconds()) }

// Conversions takes over the totals of the units converted so far.
func (m *Metrics) Conversions(totals map[string]int) {
	for unit, n := range totals {
		m.conversions.WithLabelValues(unit).Add(float64(n - m.converted[unit]))
		m.converted[unit] = n
	}
}

// Generations sets the numbers of the wanted and the applied batch.
func (m *Metrics) Generations(wanted, applied uint64) {
	m.wanted.Set(float64(wanted))
	m.applied.Set(float64(applied))
}

// Findings sets the numbers of findings by code, and of quarantined objects.
func (m *Metrics) Findings(byCode map[string]int, quarantined int) {
	m.findings.Reset()
	for code, n := range byCode {
		m.findings.WithLabelValues(code).Set(float64(n))
	}
	m.quarantined.Set(float64(quarantined))
}
