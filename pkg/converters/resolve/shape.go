package resolve

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/sluice-proxy/sluice/pkg/converters/settings"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// balance is "balance".
func (b *behaviour) balance() { b.shape.Balance = b.set.Text("balance-algorithm") }

// timeouts are set where they differ from the global ones, which the base section has.
// Those of the server can be looked up; HAProxy takes the others as literals (on 3.2).
func (b *behaviour) timeouts() {
	set, global := b.set, b.g.Set
	if t := set.Duration("timeout-connect"); t != global.Duration("timeout-connect") {
		b.shape.TimeoutConnect = t
		if why := riskyConnect(set); why != nil {
			b.findings = append(b.findings, *why)
		}
	}
	if t := set.Duration("timeout-queue"); t != global.Duration("timeout-queue") {
		b.shape.TimeoutQueue = t
	}
	if t := set.Duration("timeout-server"); t != global.Duration("timeout-server") {
		b.shape.TimeoutServer = true
		b.value(model.SlotTimeoutServer, strconv.FormatInt(t.Milliseconds(), 10))
	}
	if t := set.Duration("timeout-tunnel"); t != global.Duration("timeout-tunnel") {
		b.shape.TimeoutTunnel = true
		b.value(model.SlotTimeoutTunnel, strconv.FormatInt(t.Milliseconds(), 10))
	}
}

// retry is set where it differs from the global one, which the base section has.
func (b *behaviour) retry() {
	own, global := retry(b.set), retry(b.g.Set)
	if b.ref.TCP {
		own.On, global.On = "", "" // there is no request
	}
	if own != global {
		b.shape.Retry = &own
	}
	b.shape.RetryUnsafe = !b.ref.TCP && b.set.Bool("retry-unsafe-methods")
}

// tls is the redirect to https and the header that makes browsers stay there.
func (b *behaviour) tls() {
	if b.set.Bool("ssl-redirect") {
		b.shape.SSLRedirect = b.set.Int("ssl-redirect-code")
		if port := b.g.Set.Int("https-port"); port != 443 {
			b.shape.SSLPort = port
		}
	}
	if b.set.Bool("hsts") {
		text := "max-age=" + strconv.Itoa(b.set.Int("hsts-max-age"))
		if b.set.Bool("hsts-include-subdomains") {
			text += "; includeSubDomains"
		}
		if b.set.Bool("hsts-preload") {
			text += "; preload"
		}
		b.shape.HSTS = text
	}
}

// redirect answers with another location.
func (b *behaviour) redirect() {
	if to := b.set.Text("redirect-to"); to != "" {
		b.shape.Redirect = b.set.Int("redirect-to-code")
		b.value(model.SlotRedirect, to)
	}
}

// body bounds the body of a request.
func (b *behaviour) body() {
	if size := b.set.Size("proxy-body-size"); size > 0 {
		b.shape.LimitBody = true
		b.value(model.SlotBodySize, strconv.FormatInt(size, 10))
	}
}

// rewrite replaces the matched path by the target. Neither has a slash at its end, so that
// /foo/ and /foo behave alike: with the path /foo and the target /, /foo/bar becomes /bar.
// The target / stays as it is: it says what /foo itself becomes.
func (b *behaviour) rewrite() {
	target := b.set.Text("rewrite-target")
	if target == "" || b.ref.StripPath == "" {
		return
	}
	b.shape.Rewrite = true
	b.value(model.SlotRewrite, cmp.Or(strings.TrimRight(target, "/"), "/"))
	b.value(model.SlotStrip, strconv.Itoa(len(strings.TrimRight(b.ref.StripPath, "/"))))
}

// headers are rules in the order del, set, add: so a header can be deleted and then given
// anew.
func (b *behaviour) headers() {
	b.shape.RequestHeaders = b.headerRules("request", model.SlotRequestHeader)
	b.shape.ResponseHeaders = b.headerRules("response", model.SlotRespHeader)
}

func (b *behaviour) headerRules(side, slot string) []model.Header {
	var rules []model.Header
	for _, name := range b.set.Names(side + "-del-headers") {
		rules = append(rules, model.Header{Op: model.DelHeader, Name: name})
	}
	add := func(op model.HeaderOp, headers []settings.Header) {
		for _, h := range headers {
			b.value(slot+strconv.Itoa(len(rules)), h.Value)
			rules = append(rules, model.Header{Op: op, Name: h.Name})
		}
	}
	add(model.SetHeader, b.set.Headers(side+"-set-headers"))
	add(model.AddHeader, b.set.Headers(side+"-add-headers"))
	return rules
}

// cors answers preflights and adds the headers of cross-origin resource sharing. A list of
// origins that can't be read is empty: then no origin is allowed.
func (b *behaviour) cors() {
	if !b.set.Bool("cors-enable") {
		return
	}
	c := &model.CORS{
		Credentials: b.set.Bool("cors-allow-credentials"),
		Expose:      b.set.Text("cors-expose-headers") != "",
	}
	for _, origin := range b.set.Names("cors-allow-origin") {
		if origin == "*" {
			c.AnyOrigin = true
			continue
		}
		b.value(model.SlotCORSOrigin+strings.ToLower(origin), "1")
	}
	b.value(model.SlotCORSMethods, b.set.Text("cors-allow-methods"))
	b.value(model.SlotCORSHeaders, b.set.Text("cors-allow-headers"))
	b.value(model.SlotCORSExpose, b.set.Text("cors-expose-headers"))
	b.value(model.SlotCORSMaxAge, strconv.Itoa(b.set.Int("cors-max-age")))
	b.shape.CORS = c
}
