package resolve

import (
	"slices"
	"strings"
	"time"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/settings"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// trustedList is the list of the load balancers whose X-Forwarded-* headers are believed.
const trustedList = "trusted-proxies"

// Names of the frontends of Ingresses.
const (
	FrontendHTTP  = "http"
	FrontendHTTPS = "https"
)

// slowConnect is the time to connect above which a request that meets a vanished pod, and
// then another server, takes longer than most clients wait.
const slowConnect = 2 * time.Second

// Process are the process, its base sections and its frontends, all from the global
// settings.
func Process(set *settings.Set, bind Bind) ProcessFragment {
	f := ProcessFragment{
		Process: model.Process{
			MaxConn:       set.Int("max-connections"),
			NbThread:      set.Int("nbthread"),
			HardStopAfter: set.Duration("timeout-stop"),
			LogTargets:    slices.Clone(set.Names("syslog-endpoint")),
			LogFormat:     set.Text("syslog-format"),
			LogLength:     set.Int("syslog-length"),
			LogTag:        set.Text("syslog-tag"),
		},
		Defaults: model.Defaults{
			TimeoutClient:      set.Duration("timeout-client"),
			TimeoutClientFin:   set.Duration("timeout-client-fin"),
			TimeoutConnect:     set.Duration("timeout-connect"),
			TimeoutServer:      set.Duration("timeout-server"),
			TimeoutServerFin:   set.Duration("timeout-server-fin"),
			TimeoutQueue:       set.Duration("timeout-queue"),
			TimeoutTunnel:      set.Duration("timeout-tunnel"),
			TimeoutHTTPRequest: set.Duration("timeout-http-request"),
			TimeoutKeepAlive:   set.Duration("timeout-keep-alive"),
			Retry:              retry(set),
		},
		Resolvers: resolvers(set),
	}
	trusted := trustedProxies(set)
	if trusted != nil {
		f.Lists = []*model.List{trusted}
	}
	if len(bind.HTTP) > 0 {
		f.Frontends = append(f.Frontends, frontend(set, FrontendHTTP, bind.HTTP, trusted))
	}
	if len(bind.HTTPS) > 0 {
		https := frontend(set, FrontendHTTPS, bind.HTTPS, trusted)
		https.SSL, https.ALPN = true, strings.Join(set.Names("tls-alpn"), ",")
		https.CrtList, https.StrictSNI = model.CrtListHTTPS, true
		f.Frontends = append(f.Frontends, https)
	}
	if why := riskyConnect(set); why != nil {
		f.Findings = append(f.Findings, *why)
	}
	return f
}

// retry is what becomes of a request whose server fails.
func retry(set *settings.Set) model.Retry {
	on := strings.Join(set.Names("retry-on"), " ")
	if slices.Contains(set.Names("retry-on"), "none") {
		on = "none" // HAProxy takes no other word beside it
	}
	return model.Retry{Times: set.Int("retries"), Moves: set.Bool("retry-elsewhere"), On: on}
}

// riskyConnect says what a long time to connect costs; nil where it is short.
func riskyConnect(set *settings.Set) *report.Finding {
	t := set.Duration("timeout-connect")
	if t <= slowConnect {
		return nil
	}
	finding := report.New(report.OptionRisky, set.Origin("timeout-connect"),
		"with timeout-connect %s a request that meets a vanished pod waits that long before another pod is tried, and most clients give up after twice that time; set %s or less", t, slowConnect)
	return &finding
}

func frontend(set *settings.Set, name string, addresses []string, trusted *model.List) *model.Frontend {
	return &model.Frontend{
		Name:           name,
		Ingress:        true,
		Addresses:      slices.Clone(addresses),
		AcceptProxy:    set.Bool("use-proxy-protocol"),
		TrustedProxies: trusted,
		ForwardFor:     set.Text("forwardfor"),
		LogFormat:      set.Text("http-log-format"),
		StrictHost:     set.Bool("strict-host"),
		NoTLSRedirect:  slices.Sorted(slices.Values(set.Names("no-tls-redirect-locations"))),
	}
}

// GatewayFrontend is a frontend of a Gateway.
func GatewayFrontend(set *settings.Set, name string, addresses []string, ssl bool) *model.Frontend {
	f := frontend(set, name, addresses, trustedProxies(set))
	f.Ingress, f.Gateway, f.NoTLSRedirect = false, true, nil
	if ssl {
		f.SSL, f.ALPN = true, strings.Join(set.Names("tls-alpn"), ",")
	}
	return f
}

func trustedProxies(set *settings.Set) *model.List {
	networks := set.CIDRs("trusted-proxies").Include
	if len(networks) == 0 {
		return nil
	}
	return &model.List{Name: trustedList, Entries: entriesOf(networks), Origin: set.Origin("trusted-proxies")}
}

// resolvers is the section for servers by DNS name.
func resolvers(set *settings.Set) *model.Resolvers {
	r := &model.Resolvers{Name: ResolversName, HoldValid: set.Duration("dns-hold-valid")}
	for _, server := range set.Names("dns-resolvers") {
		name, address, _ := strings.Cut(server, "=") // settings gives name=address:port
		r.Nameservers = append(r.Nameservers, name+" "+address)
	}
	slices.Sort(r.Nameservers)
	return r
}
