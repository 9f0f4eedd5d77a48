package resolve

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The tests of this file try what the rest of the package takes for granted about HAProxy.

// versions calls test for each supported HAProxy. A binary that is missing fails the test.
func versions(t *testing.T, test func(t *testing.T, binary string)) {
	t.Helper()
	for variable, name := range map[string]string{"SLUICE_HAPROXY_32": "haproxy-3.2", "SLUICE_HAPROXY_34": "haproxy-3.4"} {
		t.Run(name, func(t *testing.T) {
			binary := os.Getenv(variable)
			if binary == "" {
				binary = filepath.Join("..", "..", "..", ".tools", "bin", name)
			}
			if _, err := os.Stat(binary); err != nil {
				t.Fatalf("%v; run \"make tools\", or set %s", err, variable)
			}
			test(t, binary)
		})
	}
}

const sections = `defaults
    mode http
    timeout client 5s
    timeout server 5s
    timeout connect 5s
    retries 0
`

// configured writes a configuration and returns its path; %DIR% is its folder.
func configured(t *testing.T, text string) (path, dir string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "resolve") // short: a socket's path has 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path = filepath.Join(dir, "haproxy.cfg")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(sections+text, "%DIR%", dir)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path, dir
}

// running starts HAProxy with a frontend on %DIR%/s and returns a client that asks it.
func running(t *testing.T, binary, text string) *http.Client {
	t.Helper()
	path, dir := configured(t, text)
	var output strings.Builder
	command := exec.Command(binary, "-db", "-f", path)
	command.Stdout, command.Stderr = &output, &output
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() })
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", filepath.Join(dir, "s"))
	}
	for end := time.Now().Add(20 * time.Second); ; {
		conn, err := dial(t.Context(), "", "")
		if err == nil {
			_ = conn.Close()
			break
		}
		if time.Now().After(end) {
			_ = command.Process.Kill()
			_ = command.Wait()
			t.Fatalf("HAProxy does not listen: %s", output.String())
		}
		time.Sleep(10 * time.Millisecond)
	}
	return &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
}

func status(t *testing.T, client *http.Client, user, password string) int {
	t.Helper()
	request, err := http.NewRequest(http.MethodGet, "http://foo.example/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if user != "" {
		request.SetBasicAuth(user, password)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

// TestHashesLogIn: HAProxy verifies every kind of hash that is taken, and never those that
// are refused for their kind.
func TestHashesLogIn(t *testing.T) {
	var config strings.Builder
	config.WriteString("frontend f\n    bind unix@%DIR%/s\n    http-request auth unless { http_auth(u) }\n    http-request return status 200\nuserlist u\n")
	kinds := slices.Sorted(maps.Keys(acceptedHashes))
	for i, kind := range kinds {
		fmt.Fprintf(&config, "    user u%d password '%s'\n", i, acceptedHashes[kind])
	}
	never := []string{refusedHashes["apache's md5"], refusedHashes["sha1"]}
	for i, hash := range never {
		fmt.Fprintf(&config, "    user n%d password '%s'\n", i, hash)
	}
	versions(t, func(t *testing.T, binary string) {
		client := running(t, binary, config.String())
		for i, kind := range kinds {
			user := fmt.Sprintf("u%d", i)
			if got := status(t, client, user, "secret"); got != 200 {
				t.Errorf("%s: right password: %d", kind, got)
			}
			if got := status(t, client, user, "wrong"); got != 401 {
				t.Errorf("%s: wrong password: %d", kind, got)
			}
		}
		for i, hash := range never {
			if got := status(t, client, fmt.Sprintf("n%d", i), "secret"); got != 401 {
				t.Errorf("%s: %d", hash, got)
			}
		}
	})
}

// TestVerificationByHAProxy: without a name that is sent, only the authority and verifyhost
// count, on both versions; with one, verifyhost does not, so that asking for both is denied.
func TestVerificationByHAProxy(t *testing.T) {
	pair := testPairAt(t, nil, time.Now()) // for b.example
	certificate, err := tls.X509KeyPair([]byte(pair.certificate), []byte(pair.key))
	if err != nil {
		t.Fatal(err)
	}
	sent := make(chan string, 100)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { sent <- r.TLS.ServerName }))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // refused handshakes are what is tried
	server.StartTLS()
	t.Cleanup(server.Close)
	authority := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(authority, []byte(pair.certificate), 0o600); err != nil {
		t.Fatal(err)
	}
	base := "ssl verify required ca-file " + authority
	tests := map[string]struct {
		options string
		status  int
		sni     string
	}{
		"the authority alone":                  {base + " sni " + noSNI, 200, ""},
		"the right name":                       {base + " verifyhost b.example sni " + noSNI, 200, ""},
		"another name":                         {base + " verifyhost c.example sni " + noSNI, 503, ""},
		"the right name that is sent":          {base + " sni str(b.example)", 200, "b.example"},
		"another name that is sent":            {base + " sni str(c.example)", 503, ""},
		"another name beside one that is sent": {base + " verifyhost c.example sni str(b.example)", 200, "b.example"},
		"nothing verified":                     {"ssl verify none sni " + noSNI, 200, ""},
	}
	versions(t, func(t *testing.T, binary string) {
		for name, test := range tests {
			client := running(t, binary, fmt.Sprintf("listen l\n    bind unix@%%DIR%%/s\n    server s %s %s\n", server.Listener.Addr(), test.options))
			if got := status(t, client, "", ""); got != test.status {
				t.Errorf("%s: status %d, want %d", name, got, test.status)
				continue
			}
			if test.status == 200 {
				if got := <-sent; got != test.sni {
					t.Errorf("%s: name %q was sent, want %q", name, got, test.sni)
				}
			}
		}
	})
}

// TestSmallKeysAreRefusedByHAProxy: one of them would stop the whole load.
func TestSmallKeysAreRefusedByHAProxy(t *testing.T) {
	t.Setenv("GODEBUG", "rsa1024min=0")
	for bits, fine := range map[int]bool{1024: false, minRSA: true} {
		key, err := rsa.GenerateKey(rand.Reader, bits)
		if err != nil {
			t.Fatal(err)
		}
		pair := newTestPair(t, key)
		versions(t, func(t *testing.T, binary string) {
			path, dir := configured(t, "frontend f\n    bind unix@%DIR%/s ssl crt %DIR%/c.pem\n")
			if err := os.WriteFile(filepath.Join(dir, "c.pem"), []byte(pair.certificate+pair.key), 0o600); err != nil {
				t.Fatal(err)
			}
			output, err := exec.Command(binary, "-c", "-f", path).CombinedOutput()
			if (err == nil) != fine {
				t.Errorf("%d bits: %v: %s", bits, err, output)
			}
		})
	}
}

// TestCookiesAreTakenByHAProxy tries each strategy with all keywords at once.
func TestCookiesAreTakenByHAProxy(t *testing.T) {
	versions(t, func(t *testing.T, binary string) {
		for _, strategy := range []string{"insert", "prefix", "rewrite"} {
			for _, keywords := range []string{"indirect nocache postonly preserve httponly secure", "preserve", "indirect", "nocache"} {
				b := ask{ingress: raw{"affinity": "cookie", "session-cookie-strategy": strategy, "session-cookie-keywords": keywords,
					"session-cookie-same-site": "true", "session-cookie-preserve": "true", "session-cookie-domain": ".example.com"}}.resolve(t).Backend
				c := b.Profile.Shape.Cookie
				line := fmt.Sprintf("cookie %s %s %s domain %s attr SameSite=%s", c.Name, c.Strategy, strings.Join(c.Keywords, " "), c.Domain, c.SameSite)
				path, _ := configured(t, fmt.Sprintf("frontend f\n    bind unix@%%DIR%%/s\nbackend b\n    %s\n    server s %s cookie %s\n", line, b.Servers[0].Addr, b.Servers[0].Cookie))
				if output, err := exec.Command(binary, "-c", "-f", path).CombinedOutput(); err != nil {
					t.Errorf("%s: %v: %s", line, err, output)
				}
			}
		}
	})
}
