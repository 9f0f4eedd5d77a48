package resolve

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// testPair is a self-signed certificate with its key, as PEM.
type testPair struct{ certificate, key string }

// newTestPair makes one that is valid around noon; a nil signer stands for a new key.
func newTestPair(t testing.TB, signer crypto.Signer) testPair {
	t.Helper()
	return testPairAt(t, signer, noon)
}

func testPairAt(t testing.TB, signer crypto.Signer, at time.Time) testPair {
	t.Helper()
	var err error
	if signer == nil {
		if signer, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			t.Fatal(err)
		}
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: at.Add(-time.Hour), NotAfter: at.Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
		DNSNames: []string{"B.example", "*.a.example"}, IPAddresses: []net.IP{net.ParseIP("192.0.2.1")},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, signer.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(signer)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return testPair{block("CERTIFICATE", der), block("PRIVATE KEY", key)}
}

func rsaKey(t *testing.T, bits int) *rsa.PrivateKey {
	t.Helper()
	t.Setenv("GODEBUG", "rsa1024min=0")
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestCertificate(t *testing.T) {
	ec, other := newTestPair(t, nil), newTestPair(t, nil)
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	strong := rsaKey(t, 2048)
	ed, strongRSA, weakRSA := newTestPair(t, edKey), newTestPair(t, strong), newTestPair(t, rsaKey(t, 1024))
	pkcs1 := string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(strong)}))
	parameters := "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"
	encrypted := "-----BEGIN ENCRYPTED PRIVATE KEY-----\nBggqhkjOPQMBBw==\n-----END ENCRYPTED PRIVATE KEY-----\n"

	tests := map[string]struct {
		certificate, key string
		at               time.Time
		usable           bool
		codes            string
	}{
		"an ECDSA pair":                     {certificate: ec.certificate, key: ec.key, usable: true},
		"an Ed25519 pair":                   {certificate: ed.certificate, key: ed.key, usable: true},
		"an RSA pair":                       {certificate: strongRSA.certificate, key: strongRSA.key, usable: true},
		"an RSA key in its old form":        {certificate: strongRSA.certificate, key: pkcs1, usable: true},
		"parameters before the key":         {certificate: ec.certificate, key: parameters + ec.key, usable: true},
		"a chain":                           {certificate: ec.certificate + other.certificate, key: ec.key, usable: true},
		"a blank line and commands between": {certificate: ec.certificate + "\n\nshow info; del map x\n\n" + other.certificate, key: "\n\n" + ec.key + "\n\nquit\n", usable: true},
		"the key beside its certificate":    {certificate: ec.certificate + ec.key, key: ec.key, usable: true},
		"an RSA key that HAProxy refuses":   {certificate: weakRSA.certificate, key: weakRSA.key, codes: "SecretInvalid"},
		"a weak key in the chain":           {certificate: ec.certificate + weakRSA.certificate, key: ec.key, codes: "SecretInvalid"},
		"another's key":                     {certificate: ec.certificate, key: other.key, codes: "SecretInvalid"},
		"the chain in the wrong order":      {certificate: other.certificate + ec.certificate, key: ec.key, codes: "SecretInvalid"},
		"no certificate":                    {key: ec.key, codes: "SecretInvalid"},
		"no key":                            {certificate: ec.certificate, codes: "SecretInvalid"},
		"junk":                              {certificate: "junk", key: "junk", codes: "SecretInvalid"},
		"a certificate cut short":           {certificate: ec.certificate[:200], key: ec.key, codes: "SecretInvalid"},
		"a second certificate cut short":    {certificate: ec.certificate + other.certificate[:200], key: ec.key, codes: "SecretInvalid"},
		"a key cut short":                   {certificate: ec.certificate, key: ec.key[:100], codes: "SecretInvalid"},
		"two keys":                          {certificate: ec.certificate, key: ec.key + other.key, codes: "SecretInvalid"},
		"an encrypted key":                  {certificate: ec.certificate, key: encrypted, codes: "SecretInvalid"},
		"a key in place of the certificate": {certificate: ec.key, key: ec.key, codes: "SecretInvalid"},
		"at its last second":                {certificate: ec.certificate, key: ec.key, at: noon.Add(time.Hour), usable: true},
		"expired":                           {certificate: ec.certificate, key: ec.key, at: noon.Add(time.Hour + time.Second), codes: "CertificateExpired"},
		"not valid yet":                     {certificate: ec.certificate, key: ec.key, at: noon.Add(-2 * time.Hour), codes: "CertificateExpired"},
		"issued by a clock that is ahead":   {certificate: ec.certificate, key: ec.key, at: noon.Add(-time.Hour - time.Minute), usable: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			at := test.at
			if at.IsZero() {
				at = noon
			}
			f := Certificate(view(t, secret{"s", map[string]string{"tls.crt": test.certificate, "tls.key": test.key}}), secretKey("s"), at)
			if (f.Certificate != nil) != test.usable || codes(f.Findings) != test.codes {
				t.Fatalf("usable %v, findings %v", f.Certificate != nil, f.Findings)
			}
			for _, finding := range f.Findings {
				for _, line := range strings.Split(test.key, "\n") {
					if line != "" && line != "junk" && strings.Contains(finding.String(), line) {
						t.Errorf("a finding tells of the key: %s", finding)
					}
				}
			}
			if test.usable {
				checkFile(t, f.Certificate)
			}
		})
	}
}

// checkFile checks that a file is what HAProxy and its socket can be given.
func checkFile(t *testing.T, c *model.Certificate) {
	t.Helper()
	text := c.PEM.Reveal()
	if _, err := tls.X509KeyPair([]byte(text), []byte(text)); err != nil {
		t.Error(err)
	}
	for rest := []byte(text); len(rest) > 0; {
		block, tail := pem.Decode(rest)
		if block == nil || string(rest[:len(rest)-len(tail)]) != string(pem.EncodeToMemory(block)) {
			t.Fatalf("not in canonical form: %d bytes", len(rest))
		}
		rest = tail
	}
	if strings.Contains(text, "\n\n") || strings.Count(text, "PRIVATE KEY") != 2 {
		t.Error("a blank line, or not just one key")
	}
	if c.Name != model.DigestOf([]byte(text)).String()+".pem" {
		t.Errorf("name %s", c.Name)
	}
}

func TestCertificateIsNamedAfterItsContent(t *testing.T) {
	p := newTestPair(t, nil)
	file := func(name, certificate string) *model.Certificate {
		return Certificate(view(t, secret{name, map[string]string{"tls.crt": certificate, "tls.key": p.key}}), secretKey(name), noon).Certificate
	}
	if a, b := file("a", p.certificate), file("b", "\n# remark\n"+p.certificate+"\n"); a.Name != b.Name || a.PEM != b.PEM {
		t.Error("blank lines and remarks change the file")
	}
}

func TestCertificateNames(t *testing.T) {
	p := newTestPair(t, nil)
	v := view(t, secret{"s", map[string]string{"tls.crt": p.certificate, "tls.key": p.key}})
	f := Certificate(v, secretKey("s"), noon)
	if diff := cmp.Diff([]string{"*.a.example", "192.0.2.1", "b.example"}, f.Names); diff != "" {
		t.Error(diff)
	}
	for host, want := range map[string]bool{
		"b.example": true, "B.EXAMPLE": true, "x.a.example": true, "*.a.example": true,
		"a.example": false, "x.y.a.example": false, "xa.example": false, "c.example": false, "": false, "example": false,
	} {
		if f.Covers(host) != want {
			t.Errorf("covers %q: %v", host, !want)
		}
	}
	if end := noon.Add(time.Hour); !f.Next.After(end) || f.Next.Sub(end) > time.Second {
		t.Errorf("next %s, not after %s", f.Next, end)
	}
}

func TestCertificateOfAMissingSecret(t *testing.T) {
	v := view(t)
	if f := Certificate(v, secretKey("s"), noon); f.Certificate != nil || codes(f.Findings) != "SecretMissing" {
		t.Errorf("%+v", f)
	}
	if noted := v.Noted(); len(noted) != 1 || noted[0] != secretKey("s") {
		t.Errorf("noted %v", noted)
	}
}

func TestSelfSigned(t *testing.T) {
	made, err := SelfSigned(noon)
	if err != nil {
		t.Fatal(err)
	}
	checkFile(t, made)
	again, notAfter, err := ReadPair(made.PEM)
	if err != nil || again.Name != made.Name || again.PEM != made.PEM {
		t.Errorf("%v %v", again, err)
	}
	if want := noon.Add(selfSignedLifetime); !notAfter.Equal(want) {
		t.Errorf("valid until %s, want %s", notAfter, want)
	}
	if _, _, err := ReadPair(model.NewSecret([]byte("junk"))); err == nil {
		t.Error("junk is read")
	}
}
