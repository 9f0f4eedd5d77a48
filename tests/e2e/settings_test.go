package e2e

import (
	"encoding/csv"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-proxy/sluice/tests/harness"
)

// What the pod learns of the client, by a setting that is changed while everything runs.
func TestForwardedFor(t *testing.T) {
	const forged = "192.0.2.9"
	modes := map[string]struct{ received, original, none []string }{
		"add":       {[]string{"127.0.0.1"}, []string{forged}, []string{"127.0.0.1"}},
		"update":    {[]string{forged, "127.0.0.1"}, nil, []string{"127.0.0.1"}},
		"ignore":    {[]string{forged}, nil, nil},
		"ifmissing": {[]string{forged}, nil, []string{"127.0.0.1"}},
	}
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		c := start(t, binary, map[string]string{"a.yaml": web(harness.NewPod(t, "web-1")) + harness.Ingress("web", "web.example", "web"), "global.yaml": settings()})
		for _, mode := range []string{"", "update", "ignore", "ifmissing", "add"} {
			want := modes["add"]
			if mode != "" {
				change(t, c, map[string]string{"global.yaml": settings("forwardfor", mode)})
				want = modes[mode]
			}
			ask := harness.Ask{Address: c.HTTP, Host: "web.example", Path: "/"}
			if got := sees(t, ask).Headers.Values("X-Forwarded-For"); !slices.Equal(got, want.none) {
				t.Errorf("%s: X-Forwarded-For %q, want %q", mode, got, want.none)
			}
			ask.Headers = []string{"X-Forwarded-For", forged, "X-Forwarded-Proto", "https", "X-Real-IP", forged}
			headers := sees(t, ask).Headers
			if got := headers.Values("X-Forwarded-For"); !slices.Equal(got, want.received) {
				t.Errorf("%s: X-Forwarded-For %q, want %q", mode, got, want.received)
			}
			if got := headers.Values("X-Original-Forwarded-For"); !slices.Equal(got, want.original) {
				t.Errorf("%s: X-Original-Forwarded-For %q, want %q", mode, got, want.original)
			}
			if proto, client := headers.Values("X-Forwarded-Proto"), headers.Values("X-Real-IP"); !slices.Equal(proto, []string{"http"}) || !slices.Equal(client, []string{"127.0.0.1"}) {
				t.Errorf("%s: X-Forwarded-Proto %q, X-Real-IP %q", mode, proto, client)
			}
		}
	})
}

// A load balancer that is trusted is believed; anybody else is not (C096).
func TestTrustedProxies(t *testing.T) {
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		ca := harness.NewAuthority(t, "ca")
		c := start(t, binary, map[string]string{
			"a.yaml": web(harness.NewPod(t, "web-1")) + harness.Ingress("web", "web.example", "web") + secured("tls", "tls.example") + ca.Issue(t, "tls.example").TLSSecret("tls") +
				harness.Ingress("allow", "allow.example", "web", "allowlist-source-range", "198.51.100.0/24"),
			"global.yaml": settings("trusted-proxies", "127.0.0.2,127.0.1.0/24"),
		})
		claim := []string{"X-Forwarded-For", "192.0.2.9, 198.51.100.7", "X-Forwarded-Proto", "https"}
		look := func(ask harness.Ask) [3]string {
			t.Helper()
			headers := sees(t, ask).Headers
			return [3]string{strings.Join(headers.Values("X-Forwarded-For"), "|"), strings.Join(headers.Values("X-Forwarded-Proto"), "|"), headers.Get("X-Real-IP")}
		}
		for source, want := range map[string][3]string{
			"127.0.0.2": {"192.0.2.9, 198.51.100.7", "https", "198.51.100.7"},
			"127.0.1.9": {"192.0.2.9, 198.51.100.7", "https", "198.51.100.7"},
			"127.0.0.1": {"127.0.0.1", "http", "127.0.0.1"},
		} {
			ask := harness.Ask{Address: c.HTTP, Source: source, Host: "web.example", Path: "/", Headers: claim}
			if got := look(ask); got != want {
				t.Errorf("from %s the pod saw %q, want %q", source, got, want)
			}
			trusted := want[1] == "https"
			ask.Host = "allow.example"
			gets(t, ask, map[bool]int{true: 200, false: 403}[trusted])
			ask.Host = "tls.example"
			gets(t, ask, map[bool]int{true: 200, false: 302}[trusted])
			ask.Headers = []string{"X-Forwarded-Proto", "http"}
			ask.Address, ask.ServerName = c.HTTPS, "tls.example"
			if got := look(ask); !trusted && got[1] != "https" {
				t.Errorf("from %s by https the pod saw %q", source, got)
			}
		}
	})
}

func TestProxyProtocolOnListeners(t *testing.T) {
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		ca := harness.NewAuthority(t, "ca")
		c := start(t, binary, map[string]string{
			"a.yaml": web(harness.NewPod(t, "web-1")) + secured("tls", "tls.example", "ssl-redirect", "false") + ca.Issue(t, "tls.example").TLSSecret("tls") +
				harness.Ingress("allow", "allow.example", "web", "allowlist-source-range", "198.51.100.7"),
			"global.yaml": settings("use-proxy-protocol", "true"),
		})
		v2 := "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\xc6\x33\x64\x07\x7f\x00\x00\x01\x30\x39\x00\x50"
		for _, prelude := range []string{"PROXY TCP4 198.51.100.7 127.0.0.1 12345 80\r\n", v2} {
			for _, ask := range []harness.Ask{{Address: c.HTTP}, {Address: c.HTTPS, ServerName: "tls.example"}} {
				ask.Prelude, ask.Host, ask.Path = prelude, "tls.example", "/"
				if seen := sees(t, ask); seen.Headers.Get("X-Real-IP") != "198.51.100.7" || seen.Headers.Get("X-Forwarded-For") != "198.51.100.7" {
					t.Errorf("with %q the pod saw %v", prelude, seen.Headers)
				}
			}
		}
		gets(t, harness.Ask{Address: c.HTTP, Prelude: v2, Host: "allow.example", Path: "/"}, 200)
		gets(t, harness.Ask{Address: c.HTTP, Prelude: strings.Replace(v2, "\x64\x07", "\x64\x08", 1), Host: "allow.example", Path: "/"}, 403)
		if answer, err := (harness.Ask{Address: c.HTTP, Host: "tls.example", Path: "/"}).Do(); err == nil {
			t.Errorf("without the header the answer is %d", answer.Status)
		}
	})
}

// serverOption is an option of servers and what a pod sees of it.
type serverOption struct {
	annotations []string
	pod         harness.PodOptions
	seen        harness.Seen // TLS, Proto, ServerName, Client and Proxy count
	status      int          // 0: 200
	stat        map[string]string
}

func serverOptions(t *testing.T) (options map[string]serverOption, secrets string) {
	ca, stranger := harness.NewAuthority(t, "pods"), harness.NewAuthority(t, "stranger")
	pod, foreign, client := ca.Issue(t, "pod.internal"), stranger.Issue(t, "pod.internal"), ca.Issue(t, "proxy")
	plain, secure := harness.Seen{Proto: "HTTP/1.1"}, harness.Seen{Proto: "HTTP/1.1", TLS: true}
	with := func(seen harness.Seen, change func(*harness.Seen)) harness.Seen {
		change(&seen)
		return seen
	}
	tls := harness.PodOptions{TLS: true, Certificate: pod}
	verify := []string{"backend-protocol", "h1-ssl", "secure-verify-ca-secret", "pods-ca"}
	return map[string]serverOption{
		"plain":       {nil, harness.PodOptions{}, plain, 0, nil},
		"h1":          {[]string{"backend-protocol", "h1"}, harness.PodOptions{}, plain, 0, nil},
		"h2":          {[]string{"backend-protocol", "h2"}, harness.PodOptions{}, harness.Seen{Proto: "HTTP/2.0"}, 0, nil},
		"h1-ssl":      {[]string{"backend-protocol", "h1-ssl"}, tls, secure, 0, nil},
		"h2-ssl":      {[]string{"backend-protocol", "h2-ssl"}, tls, harness.Seen{Proto: "HTTP/2.0", TLS: true}, 0, nil},
		"verify":      {verify, tls, secure, 0, nil},
		"verify-name": {append(verify[:4:4], "secure-verify-hostname", "pod.internal"), tls, secure, 0, nil},
		"verify-sni": {append(verify[:4:4], "secure-verify-hostname", "pod.internal", "secure-sni", "pod.internal"), tls,
			with(secure, func(s *harness.Seen) { s.ServerName = "pod.internal" }), 0, nil},
		"verify-other-ca":   {verify, harness.PodOptions{TLS: true, Certificate: foreign}, harness.Seen{}, 503, nil},
		"verify-other-name": {append(verify[:4:4], "secure-verify-hostname", "other.internal"), tls, harness.Seen{}, 503, nil},
		"verify-gone":       {[]string{"backend-protocol", "h1-ssl", "secure-verify-ca-secret", "none"}, tls, harness.Seen{}, 503, nil},
		"sni-host": {[]string{"backend-protocol", "h1-ssl", "secure-sni", "host"}, tls,
			with(secure, func(s *harness.Seen) { s.ServerName = "sni-host.example" }), 0, nil},
		"sni-name": {[]string{"backend-protocol", "h2-ssl", "secure-sni", "some.internal"}, tls, harness.Seen{Proto: "HTTP/2.0", TLS: true, ServerName: "some.internal"}, 0, nil},
		"client": {[]string{"backend-protocol", "h1-ssl", "secure-crt-secret", "client"}, harness.PodOptions{TLS: true, Certificate: pod, AskClient: true},
			with(secure, func(s *harness.Seen) { s.Client = "proxy" }), 0, nil},
		"proxy-v1": {[]string{"proxy-protocol", "v1"}, harness.PodOptions{}, with(plain, func(s *harness.Seen) { s.Proxy = "v1 127.0.0.1" }), 0, nil},
		"proxy-v2": {[]string{"proxy-protocol", "v2"}, harness.PodOptions{}, with(plain, func(s *harness.Seen) { s.Proxy = "v2 127.0.0.1" }), 0, nil},
		"proxy-tls": {[]string{"proxy-protocol", "v2-ssl", "backend-protocol", "h1-ssl"}, tls,
			with(secure, func(s *harness.Seen) { s.Proxy = "v2 127.0.0.1 with more" }), 0, nil},
		"cookie":  {[]string{"affinity", "cookie"}, harness.PodOptions{}, plain, 0, nil},
		"check":   {[]string{"health-check-uri", "/live", "health-check-interval", "500ms", "health-check-rise-count", "1", "health-check-fall-count", "2"}, harness.PodOptions{}, plain, 0, map[string]string{"check_rise": "1", "check_fall": "2", "check_code": "200", "status": "UP"}},
		"checked": {[]string{"health-check-uri", "/", "health-check-interval", "500ms", "backend-protocol", "h2-ssl"}, tls, harness.Seen{Proto: "HTTP/2.0", TLS: true}, 0, map[string]string{"check_code": "200", "status": "UP"}},
		"checked-proxy": {[]string{"health-check-uri", "/", "health-check-interval", "500ms", "backend-protocol", "h1-ssl", "proxy-protocol", "v2"},
			harness.PodOptions{TLS: true, Certificate: pod, NeedProxy: true}, with(secure, func(s *harness.Seen) { s.Proxy = "v2 127.0.0.1" }), 0, map[string]string{"check_code": "200", "status": "UP"}},
		"checked-h2": {[]string{"health-check-uri", "/", "health-check-interval", "500ms", "backend-protocol", "h2"}, harness.PodOptions{},
			harness.Seen{Proto: "HTTP/2.0"}, 0, map[string]string{"check_code": "200", "status": "UP"}},
		"maxconn": {[]string{"maxconn-server", "7", "maxqueue-server", "9"}, harness.PodOptions{}, plain, 0, map[string]string{"slim": "7", "qlimit": "9"}},
		"weight":  {[]string{"initial-weight", "33"}, harness.PodOptions{}, plain, 0, map[string]string{"weight": "33"}},
		"weight0": {[]string{"initial-weight", "0"}, harness.PodOptions{}, harness.Seen{}, 503, map[string]string{"weight": "0"}},
	}, harness.Secret("pods-ca", map[string]string{"ca.crt": ca.Certificate}) + client.TLSSecret("client")
}

// A server that was added at run time behaves like one from the file, whatever the option,
// and like itself after a reload.
func TestAddedServersBehaveLikeThoseOfTheFile(t *testing.T) {
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		options, secrets := serverOptions(t)
		manifests := harness.Class + secrets
		first, both := map[string]string{"global.yaml": settings()}, map[string]string{}
		pods := map[string][2]*harness.Pod{}
		for name, o := range options {
			pods[name] = [2]*harness.Pod{harness.NewPodWith(t, name+" of the file", o.pod), harness.NewPodWith(t, name+" added", o.pod)}
			manifests += harness.Service(name) + harness.Ingress(name, name+".example", name, o.annotations...)
			first[name+".yaml"] = harness.Slice(name, pods[name][0])
			both[name+".yaml"] = harness.Slice(name, pods[name][0], pods[name][1])
		}
		first["a.yaml"] = manifests
		c := start(t, binary, first)
		reloads := c.Metric("sluice_reloads_total", "")
		change(t, c, both)
		compare := func(when string) {
			t.Helper()
			for _, name := range slices.Sorted(maps.Keys(options)) {
				pair{name, options[name], pods[name]}.sameForBoth(t, c, when)
			}
		}
		compare("added")
		if got := c.Metric("sluice_reloads_total", ""); got != reloads {
			t.Errorf("%v reloads: %v", got-reloads, c.State().Reloads)
		}
		change(t, c, map[string]string{"global.yaml": settings("timeout-client", "51s")})
		if got := c.Metric("sluice_reloads_total", ""); got != reloads+1 {
			t.Errorf("%v reloads for a global change, want 1", got-reloads)
		}
		compare("after a reload")
	})
}

// pair are the two pods of a set of options: one is a server of the file, one was added.
type pair struct {
	name   string
	option serverOption
	pods   [2]*harness.Pod
}

// sameForBoth compares the two servers with one another, and what the pods see with what was
// asked for.
func (p pair) sameForBoth(t *testing.T, c *harness.Controller, when string) {
	t.Helper()
	name, o, pods, what := p.name, p.option, p.pods, when+": "+p.name
	if name != "verify-gone" { // which has no servers
		harness.Eventually(t, what+": the servers are alike", func() error { return alike(t, c, name, o.stat) })
	}
	seen := map[string]bool{}
	before := pods[0].Hits() + pods[1].Hits()
	for range 8 {
		ask := harness.Ask{Address: c.HTTP, Host: name + ".example", Path: "/"}
		if o.status != 0 {
			gets(t, ask, o.status) // after the retries, on both servers
			break
		}
		answer := gets(t, ask, 200)
		got, err := answer.Read()
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		seen[got.Pod] = true
		relevant := harness.Seen{TLS: got.TLS, Proto: got.Proto, ServerName: got.ServerName, Client: got.Client, Proxy: got.Proxy}
		if diff := cmp.Diff(o.seen, relevant); diff != "" {
			t.Errorf("%s: what the pod %s saw: %s", what, got.Pod, diff)
		}
		if cookie := answer.Headers.Get("Set-Cookie"); (cookie != "") != (name == "cookie") {
			t.Errorf("%s: Set-Cookie of %s is %q", what, got.Pod, cookie)
		}
	}
	if o.status == 0 && len(seen) != 2 {
		t.Errorf("%s: only %v answered", what, seen)
	}
	if hits := pods[0].Hits() + pods[1].Hits() - before; o.status != 0 && hits != 0 {
		t.Errorf("%s: the pods got %d requests", what, hits)
	}
}

// alike compares two servers of a backend in `show stat` and `show servers state`, and with
// values that are wanted in the former.
func alike(t *testing.T, c *harness.Controller, name string, want map[string]string) error {
	t.Helper()
	for kind, table := range map[string][]row{
		"stat":  rows(t, c.Runtime("show stat"), "pxname", "svname"),
		"state": rows(t, asCSV(c.Runtime("show servers state")), "be_name", "srv_name"),
	} {
		var two []row
		for _, r := range table {
			if strings.HasPrefix(r.backend+"_", "test_"+name+"_80_") && strings.HasPrefix(r.server, "127.") {
				two = append(two, r)
			}
		}
		if len(two) != 2 {
			return fmt.Errorf("%d servers in show %s", len(two), kind)
		}
		for _, column := range columns {
			if column == "srv_check_health" && want["check_code"] == "" {
				continue // without checks nothing reads it; 3.2 leaves it 0 for a server that was added
			}
			if two[0].cells[column] != two[1].cells[column] {
				return fmt.Errorf("%s: %q and %q", column, two[0].cells[column], two[1].cells[column])
			}
			if text, set := want[column]; set && kind == "stat" && two[0].cells[column] != text {
				return fmt.Errorf("%s: %q, want %q", column, two[0].cells[column], text)
			}
		}
	}
	return nil
}

// columns are those of both tables that must not differ.
var columns = [...]string{
	"status", "weight", "act", "bck", "slim", "qlimit", "throttle", "check_status", "check_code", "check_rise", "check_fall", "check_health", "mode", "algo", "tracked", "type",
	"agent_status", "srv_op_state", "srv_admin_state", "srv_uweight", "srv_iweight", "srv_check_status", "srv_check_result", "srv_check_health", "srv_check_state",
	"srv_agent_state", "srv_fqdn", "srvrecord", "srv_use_ssl", "srv_check_port", "srv_check_addr", "srv_agent_addr", "srv_agent_port",
}

// asCSV makes comma-separated values of `show servers state`, whose first line is a version.
func asCSV(text string) string {
	_, text, _ = strings.Cut(text, "\n")
	return strings.ReplaceAll(text, " ", ",")
}

// row is the line of one server.
type row struct {
	backend, server string
	cells           map[string]string
}

// rows are the lines of a table, with the names of the columns of backend and server.
func rows(t *testing.T, text, backend, server string) []row {
	t.Helper()
	reader := csv.NewReader(strings.NewReader(strings.TrimLeft(text, "#, ")))
	reader.FieldsPerRecord = -1
	lines, err := reader.ReadAll()
	if err != nil || len(lines) < 2 {
		t.Fatalf("not a table (%v): %s", err, text)
	}
	var table []row
	for _, line := range lines[1:] {
		cells := map[string]string{}
		for i, value := range line[:min(len(line), len(lines[0]))] {
			cells[lines[0][i]] = value
		}
		table = append(table, row{cells[backend], cells[server], cells})
	}
	return table
}
