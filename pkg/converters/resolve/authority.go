package resolve

import (
	"crypto/x509"
	"fmt"

	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// Authorities is one file with the authorities (ca.crt) of the ConfigMaps and Secrets that can
// be used, in their order; nil if none can. CheckAuthority says what is wrong with one.
func Authorities(v *snapshot.View, keys []snapshot.Key) *model.Certificate {
	var all []*x509.Certificate
	var origin model.Origin
	for _, key := range keys {
		chain, err := authoritiesOf(v, key)
		if err != nil {
			continue
		}
		if all == nil {
			origin = key.Origin()
		}
		all = append(all, chain...)
	}
	if all == nil {
		return nil
	}
	return newCertificate(encodeChain(all), ".ca.pem", origin)
}

// CheckAuthority says in words why the authorities of a ConfigMap or Secret can't be used;
// empty if they can.
func CheckAuthority(v *snapshot.View, key snapshot.Key) string {
	if _, err := authoritiesOf(v, key); err != nil {
		return err.Error()
	}
	return ""
}

// CheckCertificate says in words why the certificate of a Secret can't be used, whatever the
// time is; empty if it can.
func CheckCertificate(v *snapshot.View, key snapshot.Key) string {
	secret := v.Secret(key.Namespace, key.Name)
	if secret == nil {
		return fmt.Sprintf("Secret %s/%s does not exist", key.Namespace, key.Name)
	}
	if pair := pairOf(secret, key.Origin()); pair.finding != nil {
		return fmt.Sprintf("Secret %s/%s, %s: %s", key.Namespace, key.Name, pair.finding.Object.Field, pair.finding.Message)
	}
	return ""
}

func authoritiesOf(v *snapshot.View, key snapshot.Key) ([]*x509.Certificate, error) {
	text, exists := "", false
	switch key.Kind {
	case snapshot.ConfigMap:
		if object := v.ConfigMap(key.Namespace, key.Name); object != nil {
			text, exists = object.Data[authorityKey], true
		}
	case snapshot.Secret:
		if secret := v.Secret(key.Namespace, key.Name); secret != nil {
			text, exists = secret.Data[authorityKey].Reveal(), true
		}
	}
	if !exists {
		return nil, fmt.Errorf("%s %s/%s does not exist", key.Kind, key.Namespace, key.Name)
	}
	chain, err := decodeChain(text)
	if err != nil {
		return nil, fmt.Errorf("%s %s/%s, data.%s: %w", key.Kind, key.Namespace, key.Name, authorityKey, err)
	}
	return chain, nil
}
