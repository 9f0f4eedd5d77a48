package serverline

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

func TestLine(t *testing.T) {
	v4 := model.Server{Addr: netip.MustParseAddrPort("10.1.2.3:8080"), Weight: 1}
	cases := map[string]struct {
		server  model.Server
		options model.ServerOptions
		want    string
	}{
		"a plain server has its address as name": {v4, model.ServerOptions{},
			"server 10.1.2.3:8080 10.1.2.3:8080 weight 1 pool-max-conn 0"},
		"an IPv6 name has no brackets": {
			model.Server{Addr: netip.MustParseAddrPort("[2001:db8::1]:80"), Weight: 100}, model.ServerOptions{},
			"server 2001:db8::1:80 [2001:db8::1]:80 weight 100 pool-max-conn 0"},
		"a draining server has weight 0": {
			model.Server{Addr: v4.Addr, Weight: 5, State: model.Drain}, model.ServerOptions{},
			"server 10.1.2.3:8080 10.1.2.3:8080 weight 0 pool-max-conn 0"},
		"a server in maintenance is disabled": {
			model.Server{Addr: v4.Addr, Weight: 5, State: model.Maint, Cookie: "c0ffee"}, model.ServerOptions{Proto: "h2"},
			"server 10.1.2.3:8080 10.1.2.3:8080 weight 5 cookie c0ffee proto h2 disabled"},
		"TLS without a CA verifies nothing": {v4, model.ServerOptions{SSL: true, ALPN: "h2"},
			"server 10.1.2.3:8080 10.1.2.3:8080 weight 1 ssl verify none alpn h2"},
		"TLS with all parameters": {v4, model.ServerOptions{SSL: true, Verify: true, CAFile: "a.pem", CertFile: "b.pem",
			SNI: "str(a.example)", VerifyHost: "a.example", ALPN: "h2,http/1.1"},
			"server 10.1.2.3:8080 10.1.2.3:8080 weight 1 ssl verify required ca-file certs/a.pem verifyhost a.example crt certs/b.pem sni str(a.example) alpn h2,http/1.1 pool-max-conn 0"},
		"the authorities of the system": {v4, model.ServerOptions{SSL: true, Verify: true, CAFile: model.SystemCA, SNI: "str(a.example)", Pool: true},
			"server 10.1.2.3:8080 10.1.2.3:8080 weight 1 ssl verify required ca-file @system-ca sni str(a.example)"},
		"checks and limits": {v4, model.ServerOptions{SendProxy: "send-proxy-v2", MaxConn: 7, MaxQueue: 8,
			Check: model.Check{On: true, Interval: 1500 * time.Millisecond, Rise: 2, Fall: 3, Port: 81, Addr: "10.0.0.1"}},
			"server 10.1.2.3:8080 10.1.2.3:8080 weight 1 send-proxy-v2 maxconn 7 maxqueue 8 pool-max-conn 0 check inter 1500 rise 2 fall 3 port 81 addr 10.0.0.1"},
		"a check speaks what requests do": {v4, model.ServerOptions{SSL: true, SendProxy: "send-proxy", Check: model.Check{On: true}},
			"server 10.1.2.3:8080 10.1.2.3:8080 weight 1 ssl verify none send-proxy pool-max-conn 0 check check-ssl check-send-proxy"},
		"but not at another port": {v4, model.ServerOptions{SSL: true, SendProxy: "send-proxy", Check: model.Check{On: true, Port: 81}},
			"server 10.1.2.3:8080 10.1.2.3:8080 weight 1 ssl verify none send-proxy pool-max-conn 0 check port 81"},
		"connections are kept":                  {v4, model.ServerOptions{Pool: true}, "server 10.1.2.3:8080 10.1.2.3:8080 weight 1"},
		"HTTP/2 shares connections in any case": {v4, model.ServerOptions{Proto: "h2"}, "server 10.1.2.3:8080 10.1.2.3:8080 weight 1 proto h2"},
		"slow start and ejection": {v4, model.ServerOptions{Pool: true, SlowStart: 30 * time.Second, Eject: 5, Check: model.Check{On: true}},
			"server 10.1.2.3:8080 10.1.2.3:8080 weight 1 slowstart 30000 check observe layer4 error-limit 5 on-error mark-down"},
		"a DNS name is resolved at run time": {
			model.Server{Host: "db.example", Port: 443, Weight: 1}, model.ServerOptions{Resolvers: "sluice"},
			"server db.example:443 db.example:443 weight 1 pool-max-conn 0 resolvers sluice init-addr none"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := string(Append(nil, &c.server, Options(c.options)))
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			back, options, ok := Parse(got)
			if !ok || options != Options(c.options) || back.Name() != c.server.Name() {
				t.Errorf("Parse = %+v, %q, %v", back, options, ok)
			}
			if c.server.State == model.Drain {
				c.server.Weight = 0 // all that the file tells
			}
			if diff := cmp.Diff(c.server, back, cmpopts.EquateComparable(netip.AddrPort{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseRefusesOtherLines(t *testing.T) {
	for _, line := range []string{"", "backend a", "server a b", "server a 1.2.3.4:80 weight x", "server a nowhere weight 1", "server a h:99999 weight 1"} {
		if _, _, ok := Parse(line); ok {
			t.Errorf("%q was taken for a server line", line)
		}
	}
}
