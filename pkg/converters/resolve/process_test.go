package resolve

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-proxy/sluice/pkg/converters/settings"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

func TestProcessByDefault(t *testing.T) {
	set, _ := settings.Globals(settings.Layer{})
	f := Process(set, Bind{HTTP: []string{"*:80"}, HTTPS: []string{"*:443", "[::]:443"}})
	if len(f.Findings)+len(f.Lists) > 0 {
		t.Errorf("%+v", f)
	}
	d := f.Defaults
	if d.TimeoutConnect != time.Second || d.TimeoutServer != 50*time.Second || d.TimeoutTunnel != time.Hour || d.TimeoutKeepAlive != time.Minute {
		t.Errorf("%+v", d)
	}
	for name, timeout := range map[string]time.Duration{
		"client": d.TimeoutClient, "client-fin": d.TimeoutClientFin, "server-fin": d.TimeoutServerFin, "queue": d.TimeoutQueue,
		"http-request": d.TimeoutHTTPRequest, "stop": f.Process.HardStopAfter,
	} {
		if timeout <= 0 {
			t.Errorf("timeout %s is unlimited", name)
		}
	}
	if p := f.Process; !slices.Equal(p.LogTargets, []string{"stdout"}) || p.LogFormat != "raw" || p.LogLength != 1024 || p.LogTag != "ingress" {
		t.Errorf("%+v", p)
	}
	http := &model.Frontend{Name: "http", Ingress: true, Addresses: []string{"*:80"}, ForwardFor: "add", NoTLSRedirect: []string{"/.well-known/acme-challenge"}}
	https := *http
	https.Name, https.Addresses, https.SSL, https.ALPN = "https", []string{"*:443", "[::]:443"}, true, "h2,http/1.1"
	https.CrtList, https.StrictSNI = model.CrtListHTTPS, true
	if diff := cmp.Diff([]*model.Frontend{http, &https}, f.Frontends); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(&model.Resolvers{Name: ResolversName, HoldValid: time.Second}, f.Resolvers); diff != "" {
		t.Error(diff)
	}
}

func TestProcessWithEverything(t *testing.T) {
	set, findings := settings.Globals(settings.Layer{Raw: raw{
		"max-connections": "9", "nbthread": "2", "timeout-stop": "1m", "use-proxy-protocol": "true", "trusted-proxies": "10.0.0.7, 192.168.1.9/16",
		"forwardfor": "ifmissing", "strict-host": "true", "ssl-redirect-code": "308", "no-tls-redirect-locations": "/b,/a", "tls-alpn": "http/1.1",
		"dns-resolvers": "b=10.0.0.2:54\na=10.0.0.1", "dns-hold-valid": "5s", "syslog-endpoint": "10.0.0.3:514, stderr", "syslog-format": "rfc5424",
		"http-log-format": "%ci",
	}})
	f := Process(set, Bind{HTTPS: []string{"*:443"}})
	if len(findings)+len(f.Findings) > 0 {
		t.Fatalf("%v %v", findings, f.Findings)
	}
	if p := f.Process; p.MaxConn != 9 || p.NbThread != 2 || p.HardStopAfter != time.Minute || len(p.LogTargets) != 2 || p.LogTargets[0] != "10.0.0.3:514" {
		t.Errorf("%+v", p)
	}
	if diff := cmp.Diff([]string{"a 10.0.0.1:53", "b 10.0.0.2:54"}, f.Resolvers.Nameservers); diff != "" {
		t.Error(diff)
	}
	if len(f.Frontends) != 1 || len(f.Lists) != 1 {
		t.Fatalf("%+v", f)
	}
	list := &model.List{Name: "trusted-proxies", Entries: []string{"10.0.0.7", "192.168.0.0/16"}, Origin: model.Origin{Field: "trusted-proxies"}}
	want := &model.Frontend{Name: "https", Ingress: true, CrtList: model.CrtListHTTPS, StrictSNI: true, Addresses: []string{"*:443"}, SSL: true, ALPN: "http/1.1", AcceptProxy: true, TrustedProxies: list,
		ForwardFor: "ifmissing", LogFormat: "%ci", StrictHost: true, NoTLSRedirect: []string{"/a", "/b"}}
	if diff := cmp.Diff(want, f.Frontends[0]); diff != "" {
		t.Error(diff)
	}
}
