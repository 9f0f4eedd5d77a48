package traffic

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// Kind is how a client uses connections.
type Kind string

// The kinds of clients.
const (
	Fresh     Kind = "new connections"
	KeepAlive Kind = "keep-alive HTTP/1.1"
	HTTP2     Kind = "HTTP/2"
)

// Kinds are all of them.
var Kinds = []Kind{Fresh, KeepAlive, HTTP2}

// Load is a stream of requests at a fixed rate.
type Load struct {
	Kind    Kind
	Address string
	Host    string
	Hosts   []string // asked by turns, in place of Host
	Rate    int      // requests/s
	Method  string   // empty: GET
	Body    int      // bytes of each request
	Budget  time.Duration
	Book    *Book
}

// sizes of answers, by turns.
var sizes = []string{"/0", "/1", "/65536"}

// Running is a load that runs.
type Running struct {
	Load   Load
	Report *Report

	client client
	start  time.Time
	once   sync.Once
	stop   chan struct{}
	done   chan struct{}
	flying sync.WaitGroup
}

// client sends a request and reads the answer to its end.
type client interface {
	do(r request) (answer, error)
	close()
}

type request struct {
	method, host, path, number string
	body                       int
	deadline                   time.Time
}

type answer struct {
	status int
	pod    string
	size   int
	text   string // beginning of an answer that no pod made
	twice  bool
}

// Start begins with the first request. A test that fails meanwhile stops it, too.
func (l Load) Start(t testing.TB) *Running {
	if l.Method == "" {
		l.Method = "GET"
	}
	if l.Budget == 0 {
		l.Budget = 5 * time.Second
	}
	r := &Running{Load: l, Report: &Report{}, client: newClient(l.Kind, l.Address), start: time.Now(), stop: make(chan struct{}), done: make(chan struct{})}
	go r.run()
	t.Cleanup(func() { r.halt(); r.client.close() })
	return r
}

func (r *Running) run() {
	defer close(r.done)
	interval := time.Second / time.Duration(r.Load.Rate)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for n := 0; ; n++ {
		due := r.start.Add(time.Duration(n) * interval)
		timer.Reset(time.Until(due))
		select {
		case <-r.stop:
			return
		case <-timer.C:
			r.flying.Go(func() { r.Report.add(r.shoot(n, due)) })
		}
	}
}

// Stop sends no further request, waits for those on their way and returns the report.
func (r *Running) Stop() *Report {
	r.halt()
	<-r.done
	r.flying.Wait()
	r.client.close()
	return r.Report
}

func (r *Running) halt() { r.once.Do(func() { close(r.stop) }) }

// During runs a load while a function runs.
func (l Load) During(t testing.TB, f func()) *Report {
	running := l.Start(t)
	f()
	return running.Stop()
}

func (r *Running) shoot(n int, due time.Time) Verdict {
	l := r.Load
	path := sizes[n%len(sizes)]
	number := l.Book.number()
	if len(l.Hosts) > 0 {
		l.Host = l.Hosts[n%len(l.Hosts)]
	}
	got, err := r.client.do(request{l.Method, l.Host, path, number, l.Body, due.Add(l.Budget)})
	v := Verdict{Number: number, Status: got.status, Pod: got.pod, At: due.Sub(r.start), Latency: time.Since(due), Twice: got.twice}
	switch {
	case err != nil && got.status != 0:
		v.Reason = "cut body: " + plain(err)
	case err != nil:
		v.Reason = "no answer: " + plain(err)
	case got.pod == "":
		v.Reason = fmt.Sprintf("status %d of HAProxy: %s", got.status, strings.Join(strings.Fields(got.text), " "))
	case fmt.Sprintf("/%d", got.size) != path:
		v.Reason = fmt.Sprintf("cut body: %d bytes for %s", got.size, path)
	}
	if v.Reason != "" {
		v.Excuse = excuse(l, number, got)
	}
	return v
}

// excuse tells why a request that failed does not count.
func excuse(l Load, number string, got answer) string {
	switch {
	case l.Book.begun(number):
		return "the pod had begun its answer"
	case l.Method == "POST" && got.status != 503: // 503: HAProxy found no server to send it to
		return "not safe to replay"
	}
	return ""
}

// plain is an error without what differs from one request to the next.
func plain(err error) string {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err.Error()
}

// none fails the test unless all requests were served.
func none(t testing.TB, what string, r *Report) {
	t.Helper()
	t.Logf("%s: %s", what, r)
	if failed := r.Failed(); len(failed) > 0 {
		t.Errorf("%s: %d of %d requests failed:%s", what, len(failed), r.All(), r.first(5))
	}
	if r.All() == 0 {
		t.Errorf("%s: there was no request", what)
	}
}
