package forwarder

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// Options are what the flags say.
type Options struct {
	Idle     time.Duration // a session ends when nothing was sent for so long
	Sessions int           // of one listener at most
	Log      *slog.Logger

	start time.Time
}

// clock is the time since the start: it never goes back.
func (o *Options) clock() int64 { return int64(time.Since(o.start)) }

// Forwarder serves UDP listeners.
type Forwarder struct {
	options Options

	mu        sync.Mutex
	listeners map[string]*listener // by name
	last      []*model.UDPListener // as of the last Apply
	refused   map[string]string    // of the last Apply
}

// New is a Forwarder that serves nothing yet.
func New(o Options) *Forwarder {
	o.start = time.Now()
	o.Sessions = max(o.Sessions, 1)
	return &Forwarder{options: o, listeners: map[string]*listener{}}
}

// bindError is an address that a listener can't have.
type bindError struct {
	address string
	cause   error
}

func (e *bindError) Error() string { return fmt.Sprintf("UDP %s: %v", e.address, e.cause) }
func (e *bindError) Unwrap() error { return e.cause }

// Apply serves these listeners, sorted by name, and no others. Those that are the same pointers as
// before cost nothing. It returns which of them lack a socket, and why; a further call tries again.
func (f *Forwarder) Apply(listeners []*model.UDPListener) map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.refused) == 0 && model.Same(f.last, listeners) {
		return nil
	}
	f.last = listeners
	// Addresses may go from one listener to another, so all that go are closed first.
	wanted := make(map[string][]string, len(listeners))
	for _, l := range listeners {
		wanted[l.Name] = l.Addresses
	}
	for name, l := range f.listeners {
		l.shut(wanted[name])
		if _, stays := wanted[name]; !stays {
			delete(f.listeners, name)
			f.options.Log.Info("datagrams are no longer forwarded", "listener", name)
		}
	}
	refused := map[string]string{}
	for _, from := range listeners {
		l := f.listeners[from.Name]
		if l == nil {
			l = newListener(from.Name, &f.options)
			f.listeners[from.Name] = l
			f.options.Log.Info("datagrams are forwarded; this is done by sluice, not by HAProxy", "listener", from.Name, "addresses", from.Addresses)
		}
		l.change(from)
		if err := l.bind(from.Addresses); err != nil {
			refused[from.Name] = strings.ReplaceAll(err.Error(), "\n", "; ")
			if f.refused[from.Name] != refused[from.Name] {
				f.options.Log.Warn("a listener for datagrams can't have its address; it is tried again", "listener", from.Name, "error", err)
			}
		}
	}
	f.refused = refused
	return maps.Clone(refused)
}

const (
	// quiet is how long nothing must have been sent for the sessions to count as done.
	quiet = time.Second
	// lookEvery is the time between two looks at that.
	lookEvery = 50 * time.Millisecond
)

// Close takes no new clients, lets those who are there finish until ctx ends, and closes all.
// Apply must not be called after it.
func (f *Forwarder) Close(ctx context.Context) {
	all := f.all()
	for _, l := range all {
		l.mu.Lock()
		l.closing = true
		l.mu.Unlock()
	}
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for ctx.Err() == nil && slices.ContainsFunc(all, (*listener).busy) {
		select {
		case <-ctx.Done():
		case <-look.C:
		}
	}
	for _, l := range all {
		l.shut(nil)
	}
}

// all are the listeners, in no order.
func (f *Forwarder) all() []*listener {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Values(f.listeners))
}

// busy tells whether a session had a datagram lately.
func (l *listener) busy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.sessions) > 0 && l.options.clock()-l.last.Load() < int64(quiet)
}
