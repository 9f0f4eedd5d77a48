package resolve

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// Bounds of what a Secret may hold. Keys below minRSA bits make the TLS library refuse the
// whole configuration ("ee key too small", "ca key too small"; tried with 3.2.26 and 3.4.7).
const (
	maxCertificates = 500
	minRSA          = 2048
)

// PEM is never copied: what a Secret holds is decoded and encoded again, so that nothing
// but certificates and keys reaches a file or a socket, where a blank line would end the
// payload of a command. The errors of this file never tell a byte of a key.

// decodeChain reads all certificates of a text. A block that can't be read spoils the
// whole: a list that gets shorter by a mistake is not what its owner asked for.
func decodeChain(text string) ([]*x509.Certificate, error) {
	blocks, err := decodeBlocks(text)
	if err != nil {
		return nil, err
	}
	var chain []*x509.Certificate
	for _, block := range blocks {
		if !strings.HasSuffix(block.Type, "CERTIFICATE") {
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d can't be read: %w", len(chain)+1, err)
		}
		chain = append(chain, certificate)
	}
	switch {
	case len(chain) == 0:
		return nil, errors.New("it holds no PEM block of type CERTIFICATE")
	case len(chain) > maxCertificates:
		return nil, fmt.Errorf("it holds %d certificates, at most %d are allowed", len(chain), maxCertificates)
	}
	return chain, nil
}

func decodeBlocks(text string) ([]*pem.Block, error) {
	begun := strings.Count(text, "-----BEGIN ")
	var blocks []*pem.Block
	for rest := []byte(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		blocks = append(blocks, block)
	}
	if len(blocks) != begun {
		return nil, fmt.Errorf("%d of %d PEM blocks are malformed or cut short", begun-len(blocks), begun)
	}
	return blocks, nil
}

// decodeKey reads the one private key of a text.
func decodeKey(text string) (crypto.Signer, error) {
	blocks, err := decodeBlocks(text)
	if err != nil {
		return nil, err
	}
	var key crypto.Signer
	for _, block := range blocks {
		switch {
		case block.Type == "ENCRYPTED PRIVATE KEY" || block.Headers["DEK-Info"] != "":
			return nil, errors.New("the private key is encrypted; store it without a passphrase")
		case !strings.HasSuffix(block.Type, "PRIVATE KEY"):
			continue // "EC PARAMETERS", which openssl writes
		case key != nil:
			return nil, errors.New("it holds more than one private key")
		}
		if key = parseKey(block.Bytes); key == nil {
			return nil, errors.New("the private key can't be read; RSA, ECDSA and Ed25519 keys are supported")
		}
	}
	if key == nil {
		return nil, errors.New("it holds no PEM block of type PRIVATE KEY")
	}
	return key, nil
}

func parseKey(der []byte) crypto.Signer {
	if key, err := x509.ParsePKCS8PrivateKey(der); err == nil {
		signer, _ := key.(crypto.Signer)
		return signer
	}
	if key, err := x509.ParsePKCS1PrivateKey(der); err == nil {
		return key
	}
	if key, err := x509.ParseECPrivateKey(der); err == nil {
		return key
	}
	return nil
}

// checkPair tells what stands against using the chain, its first certificate being the
// leaf, with the key.
func checkPair(chain []*x509.Certificate, key crypto.Signer) error {
	for i, certificate := range chain {
		if public, ok := certificate.PublicKey.(*rsa.PublicKey); ok && public.N.BitLen() < minRSA {
			return fmt.Errorf("the RSA key of certificate %d has %d bits, at least %d are needed", i+1, public.N.BitLen(), minRSA)
		}
	}
	if !samePublic(chain[0].PublicKey, key.Public()) {
		for _, certificate := range chain[1:] {
			if samePublic(certificate.PublicKey, key.Public()) {
				return errors.New("the certificate of the private key must stand first, before those of its issuers")
			}
		}
		return errors.New("the private key does not belong to the certificate")
	}
	return nil
}

func samePublic(a, b crypto.PublicKey) bool {
	switch a := a.(type) {
	case *rsa.PublicKey:
		return a.Equal(b)
	case *ecdsa.PublicKey:
		return a.Equal(b)
	case ed25519.PublicKey:
		return a.Equal(b)
	}
	return false
}

// encodePair is the canonical text: the chain, then the key as PKCS #8.
func encodePair(chain []*x509.Certificate, key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, errors.New("the private key can't be encoded as PKCS #8")
	}
	return append(encodeChain(chain), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})...), nil
}

func encodeChain(chain []*x509.Certificate) []byte {
	var text bytes.Buffer
	for _, certificate := range chain {
		// Encode fails only where the writer does, and a buffer never does.
		_ = pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw})
	}
	return text.Bytes()
}
