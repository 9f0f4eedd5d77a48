package e2e_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/tests/kube"
)

// answer is the answer to a request.
type answer struct {
	status  int
	header  http.Header
	service string // of the pod that answered; empty: HAProxy did
	subject string // of the certificate
}

// ask sends a GET to an address, over a connection of its own. Redirects are not followed.
func ask(address, url string) (answer, error) { return send(address, http.MethodGet, url) }

func send(address, method, url string) (answer, error) {
	client := http.Client{
		Timeout:       20 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
			DialContext: func(ctx context.Context, network, wanted string) (net.Conn, error) {
				_, port, err := net.SplitHostPort(wanted)
				if err != nil {
					return nil, err
				}
				return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort(address, port))
			},
		},
	}
	request, err := http.NewRequest(method, url, http.NoBody)
	if err != nil {
		return answer{}, err
	}
	response, err := client.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{}, err
	}
	a := answer{status: response.StatusCode, header: response.Header}
	if response.TLS != nil {
		a.subject = response.TLS.PeerCertificates[0].Subject.CommonName
	}
	if method == http.MethodGet && response.Header.Get("X-Echo-Service") != "" {
		var echo struct{ Service string }
		err = json.Unmarshal(text, &echo)
		a.service = echo.Service
	}
	return a, err
}

// check compares an answer's status and, where one is given, its Service.
func check(a answer, err error, status int, service string) error {
	switch {
	case err != nil:
		return err
	case a.status != status:
		return fmt.Errorf("status %d, not %d", a.status, status)
	case a.service != service && status == http.StatusOK && service != "":
		return fmt.Errorf("answered by %q, not %q", a.service, service)
	}
	return nil
}

// await asks until the answer is the wanted one.
func (s *controller) await(t *testing.T, url string, status int, service string) {
	t.Helper()
	kube.Eventually(t, fmt.Sprintf("%s at %s: status %d of %q", url, s.name, status, service), func() error {
		a, err := ask(s.address, url)
		return check(a, err, status, service)
	})
}

// expect asks once.
func (s *controller) expect(t *testing.T, url string, status int, service string) {
	t.Helper()
	a, err := ask(s.address, url)
	if err := check(a, err, status, service); err != nil {
		t.Errorf("%s at %s: %v", url, s.name, err)
	}
}

// tlsSecret is a Secret with a new certificate for a host, told from others by its subject.
func tlsSecret(t *testing.T, name, host, subject string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: subject}, DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, content []byte) string {
		return strings.ReplaceAll(string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content})), "\n", `\n`)
	}
	return fmt.Sprintf(`{apiVersion: v1, kind: Secret, metadata: {name: %s}, type: kubernetes.io/tls, stringData: {tls.crt: "%s", tls.key: "%s"}}`,
		name, block("CERTIFICATE", certificate), block("PRIVATE KEY", private))
}
