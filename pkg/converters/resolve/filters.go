package resolve

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// Filters are what a rule of the Gateway API, or one of its backends, does with requests and
// answers, in the terms of the API. The converter has checked every text.
type Filters struct {
	Request  Headers
	Response Headers
	Redirect *Redirect
	// Rewrite of the host, empty: none; and of the path, nil: none.
	RewriteHost string
	RewritePath *PathModifier
	Mirrors     []Mirror
	CORS        *CORSFilter
	// Timeout is that of the whole request with all tries, TryTimeout that of one; -1: none,
	// whatever else says so; 0: not set.
	Timeout    time.Duration
	TryTimeout time.Duration
	Retry      *Retry
}

// Headers are changes of headers, in the order set, add, remove. Names are in lower case.
type Headers struct {
	Set    []HeaderValue
	Add    []HeaderValue
	Remove []string
}

// Empty tells whether nothing is changed.
func (h *Headers) Empty() bool { return len(h.Set)+len(h.Add)+len(h.Remove) == 0 }

// Then are the changes of h followed by those of next, as one set of changes.
func (h Headers) Then(next Headers) Headers {
	out := Headers{Set: slices.Clone(h.Set), Add: slices.Clone(h.Add), Remove: slices.Clone(h.Remove)}
	drop := func(name string) {
		is := func(v HeaderValue) bool { return v.Name == name }
		out.Set = slices.DeleteFunc(out.Set, is)
		out.Add = slices.DeleteFunc(out.Add, is)
		out.Remove = slices.DeleteFunc(out.Remove, func(n string) bool { return n == name })
	}
	for _, v := range next.Set {
		drop(v.Name)
		out.Set = append(out.Set, v)
	}
	for _, v := range next.Add {
		if slices.Contains(out.Remove, v.Name) {
			drop(v.Name) // whatever stood before is removed: what is added is all there is
			out.Set = append(out.Set, v)
			continue
		}
		out.Add = append(out.Add, v)
	}
	for _, name := range next.Remove {
		drop(name)
		out.Remove = append(out.Remove, name)
	}
	return out
}

// HeaderValue is a header with its value.
type HeaderValue struct{ Name, Value string }

// PathModifier replaces the whole path, or the prefix that was matched.
type PathModifier struct {
	Full   bool
	Prefix string // that was matched; without a slash at its end, but for "/"
	Path   string
}

// Redirect is an answer that sends the client elsewhere. What is empty is that of the
// request.
type Redirect struct {
	Status int
	Scheme string
	Host   string // without a port
	// Port stands behind the host, whatever port the request names; 0: none. The converter has
	// decided it by the route and the listener.
	Port int
	Path *PathModifier
}

// Mirror sends a copy of requests to another backend.
type Mirror struct {
	Backend BackendRef
	// Numerator of Denominator requests are copied.
	Numerator, Denominator int
}

// CORSFilter is HTTPCORSFilter.
type CORSFilter struct {
	Origins     []string // "*", or scheme://host with a wildcard that may stand for several labels
	Methods     []string
	Headers     []string
	Expose      []string
	Credentials bool
	MaxAge      int // seconds
}

// Retry says which answers are tried again.
type Retry struct {
	Codes    []int // sorted
	Attempts int   // tries after the first one; 0: the default
}

// Limit is the time that all tries of a request may take together; 0: there is no such limit, or
// that of each try is the same. HAProxy has no means for it but a second way through itself.
func (g *GatewayRef) Limit() time.Duration {
	if g == nil || g.Filters == nil || g.Filters.Retry == nil || g.Filters.Redirect != nil {
		return 0
	}
	return max(0, g.Filters.Timeout)
}

// Digest identifies the filters.
func (f *Filters) Digest() model.Digest {
	if f == nil {
		return model.Digest{}
	}
	mirrors := make([]string, len(f.Mirrors))
	rest := *f
	rest.Mirrors = make([]Mirror, len(f.Mirrors))
	for i, m := range f.Mirrors {
		mirrors[i] = m.Backend.Key()
		rest.Mirrors[i] = Mirror{Numerator: m.Numerator, Denominator: m.Denominator}
	}
	text, err := json.Marshal(rest)
	if err != nil {
		panic("resolve: filters do not encode: " + err.Error()) // only plain types in them
	}
	return model.NewHasher().Bytes(text).Str(mirrors...).Digest()
}
