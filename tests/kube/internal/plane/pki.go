package plane

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Authority is the cluster's certificate authority. Its files lie in a folder, each pair
// as NAME.crt and NAME.key.
type Authority struct {
	folder string
	cert   *x509.Certificate
	key    crypto.Signer
}

// lifetime of certificates: longer than any test.
const lifetime = 7 * 24 * time.Hour

// NewAuthority makes the authority in a folder, as ca.crt.
func NewAuthority(folder string) (*Authority, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of certificates: %w", err)
	}
	a := &Authority{folder: folder}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "sluice-kube"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	if err := a.issue("ca", template); err != nil {
		return nil, err
	}
	pair, err := tls.LoadX509KeyPair(a.File("ca.crt"), a.File("ca.key"))
	if err != nil {
		return nil, fmt.Errorf("reading the authority: %w", err)
	}
	a.cert, a.key = pair.Leaf, pair.PrivateKey.(crypto.Signer)
	return a, nil
}

// File is the path of one of the authority's files.
func (a *Authority) File(name string) string { return filepath.Join(a.folder, name) }

// Pool holds the authority's certificate.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// Server issues NAME.crt and NAME.key for a server with these names and addresses.
func (a *Authority) Server(name string, hosts ...string) error {
	template := &x509.Certificate{Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return a.issue(name, template)
}

// Client issues NAME.crt and NAME.key for a user of the cluster.
func (a *Authority) Client(name, user string, groups ...string) error {
	return a.issue(name, &x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

func (a *Authority) issue(name string, template *x509.Certificate) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("making the key of %s: %w", name, err)
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 100)); err != nil {
		return fmt.Errorf("making the serial number of %s: %w", name, err)
	}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(lifetime)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	} else {
		template.KeyUsage = x509.KeyUsageDigitalSignature
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return fmt.Errorf("signing the certificate of %s: %w", name, err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		panic(err) // a key of a known kind
	}
	if err := writePEM(a.File(name+".key"), "PRIVATE KEY", secret); err != nil {
		return err
	}
	return writePEM(a.File(name+".crt"), "CERTIFICATE", der)
}

func writePEM(file, kind string, der []byte) error {
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		return fmt.Errorf("writing a certificate: %w", err)
	}
	return nil
}
