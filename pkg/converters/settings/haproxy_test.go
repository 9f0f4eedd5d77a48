package settings

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// binary is the HAProxy of a version, as "make test" exports it or "make tools" leaves it.
func binary(t *testing.T, version string) string {
	t.Helper()
	path := os.Getenv("SLUICE_HAPROXY_" + strings.ReplaceAll(version, ".", ""))
	if path == "" {
		path = filepath.Join("..", "..", "..", ".tools", "bin", "haproxy-"+version)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("HAProxy %s is missing, get it with \"make tools\": %v", version, err)
	}
	return path
}

// algorithms are the forms of balance-algorithm.
var algorithms = []string{
	"roundrobin", "leastconn", "first", "random", "random(2)", "random(100)", "source", "uri", "uri whole", "uri path-only len 10 depth 3",
	"url_param id", "hdr(X-User)", "hdr(Host) use_domain_only", "hash src", "hash path", "hash pathq", "hash req.hdr(X-User)",
	"hash req.cook(id)", "hash url_param(id)",
}

func TestServersCanBeAddedWithEveryAlgorithm(t *testing.T) {
	for _, version := range []string{"3.2", "3.4"} {
		t.Run(version, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "set") // t.TempDir is too long for a socket's path
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(dir) })
			var config, commands strings.Builder
			fmt.Fprintf(&config, "global\n    stats socket unix@%s/stats level admin\n", dir)
			config.WriteString("defaults base\n    mode http\n    timeout client 1s\n    timeout server 1s\n    timeout connect 1s\n")
			fmt.Fprintf(&config, "frontend http from base\n    bind unix@%s/http\n", dir)
			for i, text := range algorithms {
				s, findings := globals(t).Override(route, layer("web", "balance-algorithm", text))
				if len(findings) > 0 {
					t.Errorf("%s: %v", text, findings)
				}
				fmt.Fprintf(&config, "backend b%d from base\n    balance %s\n    hash-type consistent\n", i, s.Text("balance-algorithm"))
				fmt.Fprintf(&commands, "add server b%d/s 127.0.0.1:1;", i)
			}
			if err := os.WriteFile(filepath.Join(dir, "haproxy.cfg"), []byte(config.String()), 0o600); err != nil {
				t.Fatal(err)
			}
			start(t, binary(t, version), filepath.Join(dir, "haproxy.cfg"))
			answer := ask(t, filepath.Join(dir, "stats"), commands.String())
			if got := strings.Count(answer, "New server registered."); got != len(algorithms) {
				t.Errorf("%d of %d servers were added:\n%s", got, len(algorithms), answer)
			}
		})
	}
}

// start runs HAProxy on a configuration until the end of the test.
func start(t *testing.T, haproxy, config string) {
	t.Helper()
	if out, err := exec.Command(haproxy, "-c", "-f", config).CombinedOutput(); err != nil {
		t.Fatalf("haproxy -c: %v\n%s", err, out)
	}
	cmd := exec.Command(haproxy, "-db", "-f", config)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
}

// ask sends a line to a runtime socket, which it waits for.
func ask(t *testing.T, socket, line string) string {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			defer conn.Close()
			_ = conn.SetDeadline(deadline)
			if _, err := io.WriteString(conn, line+"\n"); err != nil {
				t.Fatal(err)
			}
			answer, err := io.ReadAll(conn)
			if err != nil {
				t.Fatal(err)
			}
			return string(answer)
		}
		if time.Now().After(deadline) {
			t.Fatalf("haproxy does not answer: %v", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
