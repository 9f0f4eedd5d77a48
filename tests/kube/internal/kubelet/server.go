package kubelet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/sluice-proxy/sluice/tests/kube/internal/plane"
	"github.com/sluice-proxy/sluice/tests/kube/internal/sandbox"
)

// serve starts the kubelet's HTTPS server, which has the logs of containers.
func (k *Kubelet) serve() error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", k.logs)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return k.ctx },
		TLSConfig: &tls.Config{
			Certificates: []tls.Certificate{k.o.Certificate}, MinVersion: tls.VersionTLS12,
			ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: k.o.ClientCA,
		},
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(sandbox.RouterAddress, strconv.Itoa(plane.KubeletPort)))
	if err != nil {
		return fmt.Errorf("server of the kubelet stand-in: %w", err)
	}
	k.work.Go(func() {
		if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
			k.o.Report("server of the kubelet stand-in: %v", err)
		}
	})
	context.AfterFunc(k.ctx, func() { _ = server.Close() })
	return nil
}

// logs answers with the log of a container, as the options of PodLogOptions say.
func (k *Kubelet) logs(w http.ResponseWriter, r *http.Request) {
	p, err := k.find(r.PathValue("namespace"), r.PathValue("pod"))
	var u *unit
	if err == nil {
		u, err = p.unit(r.PathValue("container"))
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	o, err := readLogOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	next := 0
	if all, _ := u.log.from(0); o.tail >= 0 {
		next = max(0, len(all)-o.tail)
	}
	for {
		entries, grown := u.log.from(next)
		for _, e := range entries {
			next++
			if !o.write(w, e) {
				return
			}
		}
		_ = http.NewResponseController(w).Flush()
		if !o.follow || u.over() && len(entries) == 0 {
			return
		}
		select {
		case <-grown:
		case <-time.After(200 * time.Millisecond): // the container may have ended for good
		case <-r.Context().Done():
			return
		}
	}
}

// over says whether the container will print no more.
func (u *unit) over() bool {
	u.pod.mu.Lock()
	defer u.pod.mu.Unlock()
	if u.process != nil {
		return false
	}
	select {
	case <-u.pod.ending:
		return true
	default:
		return u.state.Terminated != nil && !restarts(u.pod.spec.RestartPolicy, u.state.Terminated.ExitCode)
	}
}

type logOptions struct {
	follow, timestamps bool
	tail               int // lines; -1: all
	since              time.Time
	limit              int // bytes; -1: none
}

func readLogOptions(r *http.Request) (logOptions, error) {
	o := logOptions{tail: -1, limit: -1}
	query := r.URL.Query()
	o.follow, o.timestamps = query.Get("follow") == "true", query.Get("timestamps") == "true"
	var err error
	if text := query.Get("tailLines"); text != "" {
		if o.tail, err = strconv.Atoi(text); err != nil {
			return o, fmt.Errorf("tailLines: %w", err)
		}
	}
	if text := query.Get("limitBytes"); text != "" {
		if o.limit, err = strconv.Atoi(text); err != nil {
			return o, fmt.Errorf("limitBytes: %w", err)
		}
	}
	if text := query.Get("sinceTime"); text != "" {
		if o.since, err = time.Parse(time.RFC3339, text); err != nil {
			return o, fmt.Errorf("sinceTime: %w", err)
		}
	}
	if text := query.Get("sinceSeconds"); text != "" {
		seconds, err := strconv.Atoi(text)
		if err != nil {
			return o, fmt.Errorf("sinceSeconds: %w", err)
		}
		o.since = time.Now().Add(-time.Duration(seconds) * time.Second)
	}
	return o, nil
}

// write writes one line; false says that it was the last one.
func (o *logOptions) write(w http.ResponseWriter, e entry) bool {
	if e.time.Before(o.since) {
		return true
	}
	line := e.line
	if o.timestamps {
		line = append([]byte(e.time.UTC().Format(time.RFC3339Nano)+" "), line...)
	}
	if o.limit >= 0 {
		line = line[:min(len(line), o.limit)]
		o.limit -= len(line)
	}
	_, err := w.Write(line)
	return err == nil && o.limit != 0
}
