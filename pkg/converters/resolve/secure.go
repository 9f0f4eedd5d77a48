package resolve

import (
	"strings"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
)

// noSNI is a sample that is never there: no server name is sent. Without any "sni", HAProxy
// sends that of the request's Host since 3.3 ("sni-auto"), and matches the certificate
// against it where it verifies; "no-sni-auto" is unknown to 3.2 (both tried with 3.2.26 and
// 3.4.7).
const noSNI = "var(txn.sluice_no_sni)"

// hostSNI is the host of the request.
const hostSNI = "req.hdr(host),host_only"

// Names of the options of TLS to the servers.
const (
	optionProtocol = "backend-protocol"
	optionHostname = "secure-verify-hostname"
	optionSNI      = "secure-sni"
)

// secure is the protocol to the servers, and TLS with what belongs to it. What was meant to
// be TLS never becomes plain text, what was meant to be verified is verified.
func (b *behaviour) secure() {
	protocol, ssl := strings.CutSuffix(b.set.Text(optionProtocol), "-ssl")
	ssl = ssl || b.set.Bool("secure-backends")
	switch {
	case protocol == "h1":
	case protocol == "h2" && ssl:
		b.options.ALPN = "h2"
	case protocol == "h2":
		b.options.Proto = "h2"
	default:
		panic("resolve: unknown backend-protocol " + protocol) // settings has no other
	}
	if !ssl {
		b.withoutTLS()
		return
	}
	b.options.SSL = true
	b.verify()
	b.sni()
	if key, named := b.secret(optionClient); named {
		client := b.clientCertificate(key)
		if client != nil {
			b.client, b.options.CertFile = client, client.Name
		}
	}
}

// withoutTLS says of the options of TLS that they have no effect. To ask for verification
// without asking for TLS is no such mistake: the requests would go out in plain text.
func (b *behaviour) withoutTLS() {
	for _, option := range []string{optionAuthority, optionHostname, optionClient, optionSNI} {
		if !b.set.IsSet(option) {
			continue
		}
		if option == optionAuthority || option == optionHostname {
			b.deny(option, "servers are verified over TLS only; set %s to h1-ssl or h2-ssl", optionProtocol)
			continue
		}
		b.report(report.OptionScope, option, "%s has no effect without TLS to the servers; set %s to h1-ssl or h2-ssl", option, optionProtocol)
	}
}

// verify checks the servers' certificates.
func (b *behaviour) verify() {
	b.options.VerifyHost = b.set.Text(optionHostname)
	key, named := b.secret(optionAuthority)
	if !named {
		if b.options.VerifyHost != "" {
			b.deny(optionHostname, "a name is verified together with the authority only; set %s", optionAuthority)
		}
		return
	}
	authority := authorityOf(b.v, key)
	b.findings = append(b.findings, authority.findings...)
	if authority.file == nil {
		b.deny(optionAuthority, "%s", authority.why)
		return
	}
	b.ca = authority.file
	b.options.Verify, b.options.CAFile = true, authority.file.Name
}

// sni is the server name that is sent. HAProxy matches the certificate against it where
// there is one, and leaves "verifyhost" out then (tried with 3.2.26 and 3.4.7).
func (b *behaviour) sni() {
	name := b.set.Text(optionSNI)
	switch name {
	case "":
		b.options.SNI = noSNI
		return
	case "host":
		b.options.SNI = hostSNI
	case "sni":
		b.options.SNI = "ssl_fc_sni"
	default:
		b.options.SNI = "str(" + name + ")"
	}
	if host := b.options.VerifyHost; host != "" && host != name {
		b.deny(optionHostname, "HAProxy verifies the name that it sends, which is that of %s; remove one of the two or make them equal", optionSNI)
	}
}
