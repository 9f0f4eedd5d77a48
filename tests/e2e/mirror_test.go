package e2e

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/tests/harness"
)

func TestMirrors(t *testing.T) {
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		address := harness.FreeAddress(t)
		web, copied, part := harness.NewPod(t, "web"), harness.NewPod(t, "copied"), harness.NewPod(t, "part")
		service := func(name string, pod *harness.Pod) string { return harness.Service(name) + harness.Slice(name, pod) }
		mirror := func(to, share string) string {
			return "{type: RequestMirror, requestMirror: {backendRef: {name: " + to + ", port: 80}" + share + "}}"
		}
		c := start(t, binary, map[string]string{
			"services.yaml": service("web", web) + service("copied", copied) + service("part", part),
			"gateway.yaml":  gatewayOf("{name: http, protocol: HTTP, port: " + portOf(address) + "}"),
			"route.yaml":    routeOf("mirrored", "a.example.com", "{filters: ["+mirror("copied", "")+", "+mirror("gone", "")+", "+mirror("part", ", percent: 50")+"], "+to("web")+"}"),
		}, "--gateway-addresses", "127.0.0.1")
		const requests = 100
		for range requests {
			if err := (asked{host: "a.example.com", path: "/x?q=1", want: "web"}).check(address); err != nil {
				t.Fatal(err)
			}
		}
		c.Eventually("each request is copied", func() error {
			if n := copied.Hits(); n != requests {
				return fmt.Errorf("%d of %d", n, requests)
			}
			return nil
		})
		if n := part.Hits(); n < 20 || n > 80 { // 6 standard deviations
			t.Errorf("%d of %d requests are copied, want about half", n, requests)
		}

		// A body that comes slowly is copied, too, and one that is longer costs the copy only.
		if answer := post(t, address, "short", 5, 300*time.Millisecond); !strings.HasPrefix(answer, "HTTP/1.1 200") {
			t.Errorf("a short body: %q", answer)
		}
		c.Eventually("the body's request is copied", func() error {
			if n := copied.Hits(); n != requests+1 {
				return fmt.Errorf("%d of %d", n, requests+1)
			}
			return nil
		})
		if answer := post(t, address, strings.Repeat("x", 100_000), 100_000, 0); !strings.HasPrefix(answer, "HTTP/1.1 200") {
			t.Errorf("a long body: %q", answer)
		}
		if err := (asked{host: "a.example.com", path: "/", want: "web"}).check(address); err != nil {
			t.Error(err)
		}
		c.Eventually("the next request is copied", func() error {
			if n := copied.Hits(); n != requests+2 {
				return fmt.Errorf("%d of %d", n, requests+2)
			}
			return nil
		})
		change(t, c, map[string]string{"services.yaml": service("web", web) + service("part", part) + service("gone", copied)})
		before := copied.Hits()
		if err := (asked{host: "a.example.com", path: "/", want: "web"}).check(address); err != nil {
			t.Error(err)
		}
		c.Eventually("the Service that came is mirrored to, the one that went is not missed", func() error {
			if n := copied.Hits(); n != before+1 {
				return fmt.Errorf("%d copies more", n-before)
			}
			return nil
		})
	})
}

// post sends a body in two halves, and is the beginning of the answer.
func post(t *testing.T, address, body string, length int, pause time.Duration) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	half := len(body) / 2
	fmt.Fprintf(conn, "POST /body HTTP/1.1\r\nHost: a.example.com\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", length, body[:half])
	time.Sleep(pause)
	if _, err := io.WriteString(conn, body[half:]); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer[:min(len(answer), 40)])
}
