package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"time"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// keyPair is what a TLS Secret holds.
type keyPair struct{ certificate, key []byte }

func (p keyPair) data() map[string]model.Secret {
	return map[string]model.Secret{"tls.crt": model.NewSecret(p.certificate), "tls.key": model.NewSecret(p.key)}
}

// keyPairs are n pairs for the hosts of the first n Ingresses. They share one key, since
// making keys is slow and their content makes no difference.
func keyPairs(n int) ([]keyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
	now := time.Now()
	list := make([]keyPair, n)
	for i := range list {
		template := &x509.Certificate{
			SerialNumber: big.NewInt(int64(i + 1)), Subject: pkix.Name{CommonName: hostOf(i)}, DNSNames: []string{hostOf(i)},
			NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0),
		}
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			return nil, err
		}
		list[i] = keyPair{pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), text}
	}
	return list, nil
}
