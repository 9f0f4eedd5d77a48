package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
)

// Status is what the loop tells about itself. It is never changed after it was published.
type Status struct {
	Ready       bool             `json:"ready"`      // the first full sync is what HAProxy serves
	Wanted      uint64           `json:"wanted"`     // number of the batch that the source asks for
	Applied     uint64           `json:"applied"`    // number of the batch that HAProxy serves
	Generation  int              `json:"generation"` // N of the current gen-N
	Shards      int              `json:"shards"`
	Backends    int              `json:"backends"`
	HAProxyPID  int              `json:"haproxyPID"` // of the master
	Leader      bool             `json:"leader"`     // this replica writes statuses and Events
	Dynamic     bool             `json:"dynamic"`    // HAProxy adds and removes backends at run time
	Reloads     []Reload         `json:"reloads"`    // the last ones, newest first
	Error       string           `json:"error,omitempty"`
	Waiting     string           `json:"waiting,omitempty"` // why the next reload does not begin yet
	Trouble     string           `json:"trouble,omitempty"` // what keeps the source from following its objects
	Quarantined []string         `json:"quarantined"`
	Findings    []report.Finding `json:"findings"`
}

// withLists is the status with empty lists in place of those that are nil, which JSON
// calls null.
func (s Status) withLists() Status {
	s.Reloads = append([]Reload{}, s.Reloads...)
	s.Quarantined = append([]string{}, s.Quarantined...)
	s.Findings = append([]report.Finding{}, s.Findings...)
	return s
}

// Reload is one reload that was tried.
type Reload struct {
	At      time.Time `json:"at"`
	Reasons []string  `json:"reasons"`
	Error   string    `json:"error,omitempty"`
}

// File is one file of the current generation, as the API shows it.
type File struct {
	Kind    string `json:"kind"`
	Digest  string `json:"digest"`
	Size    int64  `json:"size"`
	Content string `json:"content,omitempty"` // none for private keys and password hashes
}

// Server is the admin address.
type Server struct {
	status atomic.Pointer[Status]
	// Leads tells whether this replica writes statuses and Events; nil: it does not.
	Leads func() bool
	// Files are those of the current generation, by path.
	Files   func() (map[string]File, error)
	Metrics *Metrics
}

// Publish replaces the status that is shown.
func (s *Server) Publish(status *Status) { s.status.Store(status) }

// Status is the last one that was published, never nil.
func (s *Server) Status() *Status {
	if status := s.status.Load(); status != nil {
		return status
	}
	return &Status{}
}

// Handler serves every path of the admin address.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", s.ready)
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.Metrics.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /api/v1/state", s.state)
	mux.HandleFunc("GET /api/v1/config", s.config)
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	status := s.Status()
	if status.Ready {
		fmt.Fprintln(w, "ok")
		return
	}
	reason := "the first sync is not served yet"
	switch {
	case status.Error != "":
		reason = status.Error
	case status.Trouble != "":
		reason = status.Trouble
	}
	http.Error(w, "not ready: "+reason, http.StatusServiceUnavailable)
}

func (s *Server) state(w http.ResponseWriter, _ *http.Request) {
	status := s.Status().withLists()
	status.Leader = s.Leads != nil && s.Leads()
	writeJSON(w, status)
}

func (s *Server) config(w http.ResponseWriter, _ *http.Request) {
	files, err := s.Files()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeJSON(w, files)
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(v) // the client went away: nobody is left to tell
}

// Listen opens the address, so that a port in use is an error at start.
func Listen(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--admin-address=%s: %w; name another address, or none with --admin-address=", address, err)
	}
	return l, nil
}

// Serve answers requests until ctx ends.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("admin address: %w", err)
	}
	return nil
}
