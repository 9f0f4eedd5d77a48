package resolve

import (
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// Keys of a Secret with a certificate (kubernetes.io/tls), and of one with those of
// authorities.
const (
	certificateKey = "tls.crt"
	privateKey     = "tls.key"
	authorityKey   = "ca.crt"
)

// clockSkew is how much the clock of whoever issues a certificate may be ahead.
const clockSkew = 5 * time.Minute

// Certificate reads the certificate and private key of a Secret. What can't be used (a
// missing Secret, a key of another certificate, an expired one) gives no certificate and a
// finding that says why, without any byte of the key.
func Certificate(v *snapshot.View, key snapshot.Key, now time.Time) CertificateFragment {
	secret := v.Secret(key.Namespace, key.Name)
	if secret == nil {
		return CertificateFragment{Findings: []report.Finding{
			report.New(report.SecretMissing, key.Origin(), "the Secret with the certificate does not exist"),
		}}
	}
	pair := pairOf(secret, key.Origin())
	if pair.finding != nil {
		return CertificateFragment{Findings: []report.Finding{*pair.finding}}
	}
	f := CertificateFragment{Names: namesOf(pair.leaf)}
	origin := key.Origin()
	origin.Field = "data." + certificateKey
	switch notBefore, notAfter := pair.leaf.NotBefore.Add(-clockSkew), pair.leaf.NotAfter; {
	case now.After(notAfter):
		f.Findings = append(f.Findings, report.New(report.CertificateExpired, origin,
			"the certificate expired at %s", notAfter.UTC().Format(time.RFC3339)))
	case now.Before(notBefore):
		f.Next = notBefore
		f.Findings = append(f.Findings, report.New(report.CertificateExpired, origin,
			"the certificate is not valid before %s", pair.leaf.NotBefore.UTC().Format(time.RFC3339)))
	default:
		f.Certificate = pair.certificate
		f.Next = notAfter.Add(time.Second) // notAfter itself still counts as valid
	}
	return f
}

// Covers tells whether a client that asks for the host accepts the certificate's names. A
// wildcard stands for exactly one label (RFC 6125, 6.4.3), and covers itself.
func (f CertificateFragment) Covers(host string) bool {
	host = strings.ToLower(host)
	_, parent, _ := strings.Cut(host, ".")
	for _, name := range f.Names {
		if name == host || parent != "" && name == "*."+parent {
			return true
		}
	}
	return false
}

// pair is a usable certificate with its key, or the finding that says why there is none.
type pair struct {
	certificate *model.Certificate
	leaf        *x509.Certificate
	finding     *report.Finding
}

// pairOf reads tls.crt and tls.key. The Secret's type does not count, its content does.
func pairOf(secret *snapshot.SecretData, origin model.Origin) pair {
	invalid := func(field string, format string, args ...any) pair {
		blamed := origin
		blamed.Field = "data." + field
		finding := report.New(report.SecretInvalid, blamed, format, args...)
		return pair{finding: &finding}
	}
	for _, field := range []string{certificateKey, privateKey} {
		if strings.TrimSpace(secret.Data[field].Reveal()) == "" {
			return invalid(field, "the Secret has no content under the key %s", field)
		}
	}
	chain, err := decodeChain(secret.Data[certificateKey].Reveal())
	if err != nil {
		return invalid(certificateKey, "%v", err)
	}
	key, err := decodeKey(secret.Data[privateKey].Reveal())
	if err != nil {
		return invalid(privateKey, "%v", err)
	}
	if err := checkPair(chain, key); err != nil {
		return invalid(certificateKey, "%v", err)
	}
	text, err := encodePair(chain, key)
	if err != nil {
		return invalid(privateKey, "%v", err)
	}
	return pair{certificate: newCertificate(text, ".pem", origin), leaf: chain[0]}
}

// newCertificate names a file after its content.
func newCertificate(text []byte, suffix string, origin model.Origin) *model.Certificate {
	return &model.Certificate{Name: model.DigestOf(text).String() + suffix, PEM: model.NewSecret(text), Origin: origin}
}

func namesOf(leaf *x509.Certificate) []string {
	var names []string
	for _, name := range leaf.DNSNames {
		names = append(names, strings.ToLower(name))
	}
	for _, address := range leaf.IPAddresses {
		names = append(names, address.String())
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// authority is a file of authorities that servers are verified with. file is nil where
// there is none, and why says so: then nothing may be sent to the servers.
type authority struct {
	file     *model.Certificate
	why      string
	findings []report.Finding
}

// authorityOf reads the authorities in ca.crt. Anything else in it, a private key above
// all, is left behind.
func authorityOf(v *snapshot.View, key snapshot.Key) authority {
	origin := key.Origin()
	secret := v.Secret(key.Namespace, key.Name)
	if secret == nil {
		return authority{
			why:      fmt.Sprintf("Secret %s/%s does not exist", key.Namespace, key.Name),
			findings: []report.Finding{report.New(report.SecretMissing, origin, "the Secret with the authority does not exist")},
		}
	}
	origin.Field = "data." + authorityKey
	chain, err := decodeChain(secret.Data[authorityKey].Reveal())
	if err != nil {
		return authority{
			why:      fmt.Sprintf("Secret %s/%s holds no usable authority", key.Namespace, key.Name),
			findings: []report.Finding{report.New(report.SecretInvalid, origin, "%v", err)},
		}
	}
	return authority{file: newCertificate(encodeChain(chain), ".ca.pem", key.Origin())}
}
