package admin

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-proxy/sluice/pkg/haproxy/socket"
)

// scrapeTimeout bounds what HAProxy may take to tell its counters: a scrape goes on without
// them then.
const scrapeTimeout = 5 * time.Second

// haproxy are HAProxy's own counters of what went wrong with backends, asked for at each
// scrape. A backend where nothing did has no series: 10 000 of them would cost every scrape
// more than they tell.
type haproxy struct {
	ask                                        func(ctx context.Context) ([]socket.Counters, error)
	retries, redispatches, connects, responses *prometheus.Desc
}

// Backends adds HAProxy's counters by backend to the metrics. They begin anew with each
// reload, as counters may.
func (m *Metrics) Backends(ask func(ctx context.Context) ([]socket.Counters, error)) {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("sluice_backend_"+name, help+" Backends without any have no series.", []string{"backend"}, nil)
	}
	m.registry.MustRegister(&haproxy{ask,
		desc("retries_total", "Attempts at a server that were made again."),
		desc("redispatches_total", "Attempts that were made again at another server."),
		desc("connection_errors_total", "Requests that could be sent to no server."),
		desc("response_errors_total", "Answers of servers that were cut or made no sense."),
	})
}

// workers are HAProxy's workers of earlier configurations, asked for at each scrape.
type workers struct {
	ask func(ctx context.Context) ([]socket.Process, error)
	old *prometheus.Desc
}

// Workers adds the number of old workers to the metrics.
func (m *Metrics) Workers(ask func(ctx context.Context) ([]socket.Process, error)) {
	m.registry.MustRegister(&workers{ask, prometheus.NewDesc("sluice_old_workers",
		"Workers of HAProxy that finish the connections they had when it was reloaded.", nil, nil)})
}

// Describe implements prometheus.Collector.
func (w *workers) Describe(out chan<- *prometheus.Desc) { out <- w.old }

// Collect implements prometheus.Collector. Where the master does not answer there is no series.
func (w *workers) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	list, err := w.ask(ctx)
	if err != nil {
		return
	}
	old := 0
	for _, p := range list {
		if p.Type == "worker" && p.Old {
			old++
		}
	}
	out <- prometheus.MustNewConstMetric(w.old, prometheus.GaugeValue, float64(old))
}

// Describe implements prometheus.Collector.
func (h *haproxy) Describe(out chan<- *prometheus.Desc) {
	out <- h.retries
	out <- h.redispatches
	out <- h.connects
	out <- h.responses
}

// Collect implements prometheus.Collector. Without an answer there are no series: a scrape
// while HAProxy is away still tells about sluice.
func (h *haproxy) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	all, err := h.ask(ctx)
	if err != nil {
		return
	}
	for _, c := range all {
		for desc, n := range map[*prometheus.Desc]uint64{
			h.retries: c.Retries, h.redispatches: c.Redispatches, h.connects: c.ConnectionErrors, h.responses: c.ResponseErrors,
		} {
			out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n), c.Backend)
		}
	}
}
