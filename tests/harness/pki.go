package harness

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"
)

// Pair is a certificate with its private key, both in PEM.
type Pair struct {
	Certificate, Key string
	Serial           int64

	leaf   *x509.Certificate
	signer *ecdsa.PrivateKey
}

// NewAuthority is a new certificate authority.
func NewAuthority(t testing.TB, name string) *Pair {
	t.Helper()
	return issue(t, nil, &x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
}

// Issue makes a certificate for hosts, the first of which is its common name, too.
func (p *Pair) Issue(t testing.TB, hosts ...string) *Pair {
	t.Helper()
	return p.IssueUntil(t, time.Now().Add(24*time.Hour), hosts...)
}

// IssueUntil is like Issue, with a time of expiry.
func (p *Pair) IssueUntil(t testing.TB, end time.Time, hosts ...string) *Pair {
	t.Helper()
	return issue(t, p, &x509.Certificate{Subject: pkix.Name{CommonName: hosts[0]}, DNSNames: hosts, NotAfter: end})
}

func issue(t testing.TB, issuer *Pair, template *x509.Certificate) *Pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber = serial
	template.NotBefore = time.Now().Add(-48 * time.Hour)
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(24 * time.Hour)
	}
	parent, signer := template, key
	if issuer != nil {
		parent, signer = issuer.leaf, issuer.signer
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	encode := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return &Pair{Certificate: encode("CERTIFICATE", der), Key: encode("PRIVATE KEY", secret), Serial: serial.Int64(), leaf: leaf, signer: key}
}

// TLS is the pair for crypto/tls.
func (p *Pair) TLS(t testing.TB) tls.Certificate {
	t.Helper()
	certificate, err := tls.X509KeyPair([]byte(p.Certificate), []byte(p.Key))
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

// KeyLine is a line in the midst of the private key, to search for.
func (p *Pair) KeyLine() string { return strings.Split(p.Key, "\n")[2] }

// TLSSecret is the manifest of the pair's Secret in namespace "test".
func (p *Pair) TLSSecret(name string) string {
	return Secret(name, map[string]string{"tls.crt": p.Certificate, "tls.key": p.Key})
}

// Authority is the manifest of a ConfigMap with the certificate, for those who trust it.
func (p *Pair) Authority(name string) string {
	return fmt.Sprintf("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: test}\ndata: {ca.crt: %q}\n", name, p.Certificate)
}

// Secret is the manifest of a Secret in namespace "test".
func Secret(name string, data map[string]string) string {
	text := "---\napiVersion: v1\nkind: Secret\nmetadata: {name: " + name + ", namespace: test}\nstringData:\n"
	for _, key := range slices.Sorted(maps.Keys(data)) {
		text += fmt.Sprintf("  %s: %q\n", key, data[key])
	}
	return text
}
