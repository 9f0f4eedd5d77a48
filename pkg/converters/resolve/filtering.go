package resolve

import (
	"cmp"
	"strconv"
	"strings"
	"time"

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
// request, which is the same as long as nothing is tried again.
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
