package admin

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-proxy/sluice/pkg/forwarder"
)

// datagrams are the counters of the forwarder, asked for at each scrape.
type datagrams struct {
	ask                                func() []forwarder.Counters
	sent, dropped, sessions, open, end *prometheus.Desc
}

// Datagrams adds the counters of the listeners for datagrams to the metrics. They begin anew when
// a listener is opened again.
func (m *Metrics) Datagrams(ask func() []forwarder.Counters) {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("sluice_udp_"+name, help, append([]string{"listener"}, labels...), nil)
	}
	m.registry.MustRegister(&datagrams{ask,
		desc("datagrams_total", "Datagrams taken from clients (from=client), and answers handed on (from=server).", "from"),
		desc("dropped_total", "Datagrams that were dropped: no server is there (unserved), the client is not let in (denied), it could not be sent (failed).", "reason"),
		desc("sessions_total", "Sessions that were opened."),
		desc("sessions", "Sessions that are open."),
		desc("sessions_ended_total", "Sessions that ended early: they made room (evicted), or their server went (moved).", "reason"),
	})
}

// Describe implements prometheus.Collector.
func (d *datagrams) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{d.sent, d.dropped, d.sessions, d.open, d.end} {
		out <- desc
	}
}

// Collect implements prometheus.Collector.
func (d *datagrams) Collect(out chan<- prometheus.Metric) {
	for _, c := range d.ask() {
		count := func(desc *prometheus.Desc, n uint64, labels ...string) {
			out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n), append([]string{c.Listener}, labels...)...)
		}
		count(d.sent, c.Received, "client")
		count(d.sent, c.Sent, "server")
		count(d.dropped, c.Unserved, "unserved")
		count(d.dropped, c.Denied, "denied")
		count(d.dropped, c.Failed, "failed")
		count(d.sessions, c.Opened)
		count(d.end, c.Evicted, "evicted")
		count(d.end, c.Moved, "moved")
		out <- prometheus.MustNewConstMetric(d.open, prometheus.GaugeValue, float64(c.Sessions), c.Listener)
	}
}
