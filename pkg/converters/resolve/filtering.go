package resolve

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// filters are what a rule of the Gateway API does besides. Which rules exist is part of the
// shape, texts are values: another text is no reload.
func (b *behaviour) filters() {
	if b.ref.Gateway == nil || b.ref.Gateway.Filters == nil {
		return
	}
	f := b.ref.Gateway.Filters
	b.shape.RequestHeaders = b.filterHeaders(b.shape.RequestHeaders, f.Request, model.SlotRequestHeader)
	b.shape.ResponseHeaders = b.filterHeaders(b.shape.ResponseHeaders, f.Response, model.SlotRespHeader)
	b.rewritePath(f.RewritePath)
	if f.RewriteHost != "" {
		b.shape.SetHost = true
		b.value(model.SlotHost, f.RewriteHost)
	}
	if r := f.Redirect; r != nil {
		b.rewritePath(r.Path)
		b.shape.RedirectTo = &model.RedirectTo{Status: r.Status, Scheme: r.Scheme != "", Host: r.Host != "", Port: r.Port != 0}
		b.value(model.SlotRedirectScheme, r.Scheme)
		b.value(model.SlotRedirectHost, r.Host)
		if r.Port != 0 {
			b.value(model.SlotRedirectPort, strconv.Itoa(r.Port))
		}
	}
	b.filterTimeout(f)
	b.filterRetry(f)
	b.filterCORS(f.CORS)
	if len(f.Mirrors) > 0 {
		b.mirrors(f.Mirrors)
	}
}

// mirrors has requests copied. The targets are units of their own, so their names are looked up
// by an id that never changes.
func (b *behaviour) mirrors(list []Mirror) {
	b.shape.Mirror = true
	for i, m := range list {
		b.value(model.SlotMirror+strconv.Itoa(i), MirrorID(&m.Backend)+" "+strconv.Itoa(m.Numerator)+" "+strconv.Itoa(m.Denominator))
	}
}

// MirrorID stands for the target of a mirror in the table of mirrors.
func MirrorID(ref *BackendRef) string {
	return model.NewHasher().Str(ref.Key()).Digest().String()[:16]
}

// notOffered says what of the filters has no effect.
func (b *behaviour) notOffered(format string, args ...any) {
	b.findings = append(b.findings, report.New(report.OptionUnsupported, b.ref.Origin, format, args...))
}

// filterRetry is which answers are tried again. Statuses, and connections that fail, count beside
// what the options say.
func (b *behaviour) filterRetry(f *Filters) {
	if f.Retry == nil {
		return
	}
	own := retry(b.set)
	own.Times = cmp.Or(f.Retry.Attempts, own.Times)
	words := slices.DeleteFunc(strings.Fields(own.On), func(word string) bool { return word == "none" })
	words = append(words, "conn-failure", "empty-response")
	for _, code := range f.Retry.Codes {
		words = append(words, strconv.Itoa(code))
	}
	if f.TryTimeout > 0 {
		words = append(words, "response-timeout")
	}
	slices.Sort(words)
	own.On = strings.Join(slices.Compact(words), " ")
	b.shape.Retry = &own
	b.shape.AbortOnClose = b.ref.Gateway.Limit() > 0
}

// filterCORS answers preflights as the options of CORS do, in whose place it stands. With
// credentials browsers take "*" for a name, so what a preflight asks for is said instead.
func (b *behaviour) filterCORS(f *CORSFilter) {
	if f == nil {
		return
	}
	b.values = slices.DeleteFunc(b.values, func(v model.Value) bool {
		return strings.HasPrefix(v.Slot, model.SlotCORSOrigin) || strings.HasPrefix(v.Slot, "cors-")
	})
	c := &model.CORS{Credentials: f.Credentials, Refuses: true}
	for _, origin := range f.Origins {
		if origin == "*" {
			c.AnyOrigin = true
			continue
		}
		b.value(model.SlotCORSOrigin+origin, "1")
		if labels := labelsBehindStar(origin); labels >= 0 && !slices.Contains(c.Wildcards, labels) {
			c.Wildcards = append(c.Wildcards, labels)
		}
	}
	slices.Sort(c.Wildcards)
	slices.Reverse(c.Wildcards)
	if c.AnyOrigin {
		c.Wildcards = nil
	}
	if c.EchoMethods = f.Credentials && slices.Contains(f.Methods, "*"); !c.EchoMethods {
		b.value(model.SlotCORSMethods, strings.Join(f.Methods, ", "))
	}
	if c.EchoHeaders = f.Credentials && slices.Contains(f.Headers, "*"); !c.EchoHeaders {
		b.value(model.SlotCORSHeaders, strings.Join(f.Headers, ", "))
	}
	expose := f.Expose
	if f.Credentials && slices.Contains(expose, "*") {
		b.notOffered("exposeHeaders * has no effect with credentials, where browsers take it for a name: name the headers")
		expose = slices.DeleteFunc(slices.Clone(expose), func(name string) bool { return name == "*" })
	}
	c.Expose = len(expose) > 0
	b.value(model.SlotCORSExpose, strings.Join(expose, ", "))
	b.value(model.SlotCORSMaxAge, strconv.Itoa(f.MaxAge))
	b.shape.CORS = c
}

// labelsBehindStar is the number of labels behind the star of an origin, 0 where the star is the
// whole host; -1: there is no star.
func labelsBehindStar(origin string) int {
	_, behind, found := strings.Cut(origin, "://*")
	if !found {
		return -1
	}
	host, _, _ := strings.Cut(behind, ":")
	return strings.Count(host, ".")
}

// filterHeaders adds rules in the order of the API: set, add, remove.
func (b *behaviour) filterHeaders(rules []model.Header, h Headers, slot string) []model.Header {
	for _, set := range h.Set {
		b.value(slot+strconv.Itoa(len(rules)), set.Value)
		rules = append(rules, model.Header{Op: model.SetHeader, Name: set.Name})
	}
	for _, add := range h.Add {
		b.value(slot+strconv.Itoa(len(rules)), add.Value)
		rules = append(rules, model.Header{Op: model.AddHeader, Name: add.Name})
	}
	for _, name := range h.Remove {
		rules = append(rules, model.Header{Op: model.DelHeader, Name: name})
	}
	return rules
}

// rewritePath replaces the path, or the prefix that was matched. It takes the place of what
// rewrite-target asks for.
func (b *behaviour) rewritePath(p *PathModifier) {
	if p == nil {
		return
	}
	b.shape.Rewrite = false
	b.values = without(b.values, model.SlotRewrite, model.SlotStrip, model.SlotPath)
	if p.Full {
		b.shape.SetPath = true
		b.value(model.SlotPath, cmp.Or(p.Path, "/"))
		return
	}
	b.shape.Rewrite = true
	b.value(model.SlotRewrite, cmp.Or(strings.TrimRight(p.Path, "/"), "/"))
	b.value(model.SlotStrip, strconv.Itoa(len(strings.TrimRight(p.Prefix, "/"))))
}

func without(values []model.Value, slots ...string) []model.Value {
	var kept []model.Value
	for _, v := range values {
		found := false
		for _, slot := range slots {
			found = found || v.Slot == slot
		}
		if !found {
			kept = append(kept, v)
		}
	}
	return kept
}

// filterTimeout bounds the wait for an answer: by the time of one try, and by that of the
// request, which is the same as long as nothing is tried again; otherwise see Limit.
func (b *behaviour) filterTimeout(f *Filters) {
	var t time.Duration
	for _, asked := range []time.Duration{f.TryTimeout, f.Timeout} {
		if asked > 0 && (t == 0 || asked < t) {
			t = asked
		}
	}
	if t == 0 {
		return
	}
	b.shape.TimeoutServer = true
	b.values = without(b.values, model.SlotTimeoutServer)
	b.value(model.SlotTimeoutServer, strconv.FormatInt(max(1, t.Milliseconds()), 10))
}
