package resolve

import (
	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// sendProxy are HAProxy's keywords for the values of proxy-protocol.
var sendProxy = map[string]string{
	"no": "", "v1": "send-proxy", "v2": "send-proxy-v2", "v2-ssl": "send-proxy-v2-ssl", "v2-ssl-cn": "send-proxy-v2-ssl-cn",
}

// limits are the parameters of a server's queue, and the PROXY protocol to it.
func (b *behaviour) limits() {
	b.options.MaxConn = b.set.Int("maxconn-server")
	b.options.MaxQueue = b.set.Int("maxqueue-server")
	b.options.SendProxy = sendProxy[b.set.Text("proxy-protocol")]
	b.options.Pool = b.set.Bool("connection-reuse")
	b.options.SlowStart = b.set.Duration("slow-start")
}

// check is the HTTP check of the servers.
func (b *behaviour) check() {
	uri, eject := b.set.Text("health-check-uri"), b.set.Int("passive-ejection")
	if uri == "" {
		if eject > 0 {
			b.report(report.OptionScope, "passive-ejection", "a server that is taken out comes back by its checks, and there are none: set health-check-uri")
		}
		return
	}
	b.options.Eject = eject
	b.shape.HTTPCheck = &model.HTTPCheck{URI: uri}
	b.options.Check = model.Check{
		On:       true,
		Interval: b.set.Duration("health-check-interval"),
		Rise:     b.set.Int("health-check-rise-count"),
		Fall:     b.set.Int("health-check-fall-count"),
		Port:     b.set.Int("health-check-port"),
		Addr:     b.set.Text("health-check-addr"),
	}
}

// clientCertificate is the certificate that the servers are shown. Whether it has expired
// is theirs to judge.
func (b *behaviour) clientCertificate(key snapshot.Key) *model.Certificate {
	secret := b.v.Secret(key.Namespace, key.Name)
	if secret == nil {
		b.findings = append(b.findings, report.New(report.SecretMissing, key.Origin(), "the Secret with the client certificate does not exist"))
		b.deny(optionClient, "Secret %s/%s does not exist", key.Namespace, key.Name)
		return nil
	}
	pair := pairOf(secret, key.Origin())
	if pair.finding != nil {
		b.findings = append(b.findings, *pair.finding)
		b.deny(optionClient, "Secret %s/%s holds no usable certificate", key.Namespace, key.Name)
		return nil
	}
	return pair.certificate
}
