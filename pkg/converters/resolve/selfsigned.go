package resolve

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"time"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// selfSignedLifetime is how long the certificate of SelfSigned is valid. Nobody trusts it
// anyway, so it is long: a new one would have to be put into the crt-list's first line,
// which takes a reload.
const selfSignedLifetime = 10 * 365 * 24 * time.Hour

// SelfSigned makes the controller's own certificate: served to clients of hosts that have
// none. The caller keeps its PEM and reads it again with ReadPair, so that it stays the
// same over restarts.
func SelfSigned(now time.Time) (*model.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the key of the default certificate: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("making the serial number of the default certificate: %w", err)
	}
	const name = "sluice.invalid" // a name that can never be resolved (RFC 2606)
	template := &x509.Certificate{
		SerialNumber: serial.Add(serial, big.NewInt(1)),
		Subject:      pkix.Name{CommonName: "sluice default certificate"},
		DNSNames:     []string{name},
		NotBefore:    now.Add(-time.Hour).UTC().Truncate(time.Second),
		NotAfter:     now.Add(selfSignedLifetime).UTC().Truncate(time.Second),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("signing the default certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("reading the default certificate that was just made: %w", err)
	}
	text, err := encodePair([]*x509.Certificate{leaf}, key)
	if err != nil {
		return nil, err
	}
	return newCertificate(text, ".pem", model.Origin{}), nil
}

// ReadPair reads a PEM of a certificate chain and its key, as SelfSigned and Certificate
// make it. notAfter is the end of the leaf's validity.
func ReadPair(text model.Secret) (certificate *model.Certificate, notAfter time.Time, err error) {
	chain, err := decodeChain(text.Reveal())
	if err != nil {
		return nil, time.Time{}, err
	}
	key, err := decodeKey(text.Reveal())
	if err != nil {
		return nil, time.Time{}, err
	}
	if err := checkPair(chain, key); err != nil {
		return nil, time.Time{}, err
	}
	canonical, err := encodePair(chain, key)
	if err != nil {
		return nil, time.Time{}, err
	}
	return newCertificate(canonical, ".pem", model.Origin{}), chain[0].NotAfter, nil
}
