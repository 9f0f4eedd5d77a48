package token

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
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

// start checks the configuration, runs HAProxy on it and returns when its socket answers.
func start(t *testing.T, haproxy, dir string) {
	t.Helper()
	config := filepath.Join(dir, "haproxy.cfg")
	if out, err := exec.Command(haproxy, "-c", "-f", config).CombinedOutput(); err != nil {
		t.Fatalf("haproxy -c: %v\n%s", err, out)
	}
	var log bytes.Buffer
	cmd := exec.Command(haproxy, "-db", "-f", config)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("haproxy:\n%s", log.Bytes())
		}
	})
	deadline := time.Now().Add(10 * time.Second)
	for {
		conn, err := net.Dial("unix", filepath.Join(dir, "http"))
		if err == nil {
			conn.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("haproxy does not answer: %v", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// get asks the HAProxy of the folder for the headers of an answer.
func get(t *testing.T, dir string) http.Header {
	t.Helper()
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(dir, "http"))
		},
	}}
	answer, err := client.Get("http://host/")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	return answer.Header
}

// command sends a line to the runtime socket of the folder.
func command(t *testing.T, dir, line string) string {
	t.Helper()
	conn, err := net.Dial("unix", filepath.Join(dir, "stats"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := io.WriteString(conn, line+"\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return string(answer)
}

// write writes a configuration that answers every request with one header for each text and
// each way it can get there: format-N as the literal text of a log-format, quoted-N as a
// quoted argument, and mapped-N as the value of a map.
func write(t *testing.T, dir string, texts []string) {
	t.Helper()
	var global, rules, entries strings.Builder
	for i, text := range texts {
		format, err := LogFormat(text)
		if err != nil {
			t.Fatal(err)
		}
		quoted, err := Quoted(text)
		if err != nil {
			t.Fatal(err)
		}
		value, err := MapValue(text)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&global, "    setenv TEXT%d %s\n", i, quoted)
		fmt.Fprintf(&rules, "    http-response set-header format-%d %s\n", i, format)
		fmt.Fprintf(&rules, "    http-response set-header quoted-%d '%%[env(TEXT%d)]'\n", i, i)
		fmt.Fprintf(&rules, "    http-response set-header mapped-%d '%%[str(key%d),map_str(texts.map)]'\n", i, i)
		fmt.Fprintf(&entries, "key%d %s\n", i, value)
	}
	config := fmt.Sprintf(`global
    default-path config
    stats socket unix@%[1]s/stats level admin
%[2]s
defaults base
    mode http
    timeout client 5s
    timeout server 5s
    timeout connect 5s
frontend http from base
    bind unix@%[1]s/http
    default_backend proxied
backend proxied from base
    server other unix@%[1]s/server
%[3]s
frontend server from base
    bind unix@%[1]s/server
    http-request return status 200
`, dir, global.String(), rules.String())
	for name, content := range map[string]string{"haproxy.cfg": config, "texts.map": entries.String()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestHAProxyHandsNastyTextsOutLiterally(t *testing.T) {
	for _, version := range []string{"3.2", "3.4"} {
		t.Run(version, func(t *testing.T) {
			haproxy := binary(t, version)
			dir, err := os.MkdirTemp("", "token") // t.TempDir is too long for a socket's path
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(dir) })
			write(t, dir, nasty)
			start(t, haproxy, dir)
			header := get(t, dir)
			for i, text := range nasty {
				for _, way := range []string{"format", "quoted", "mapped"} {
					if got := header.Get(fmt.Sprintf("%s-%d", way, i)); got != text {
						t.Errorf("%s: %q came out as %q", way, text, got)
					}
				}
			}
			setAtRunTime(t, dir)
		})
	}
}

// setAtRunTime sends every text to the runtime socket, as the value of one key and as a key.
func setAtRunTime(t *testing.T, dir string) {
	t.Helper()
	for _, text := range nasty {
		word, err := CLIWord(text)
		if err != nil {
			t.Fatal(err)
		}
		if answer := command(t, dir, "set map texts.map key0 "+word+"; show version"); strings.Count(answer, "\n") != 3 {
			t.Errorf("set map with %q answered %q", text, answer)
		}
		if got := get(t, dir).Get("mapped-0"); got != text {
			t.Errorf("at run time: %q came out as %q", text, got)
		}
		if _, err := MapKey(text); err != nil {
			continue
		}
		command(t, dir, "add map texts.map "+word+" found")
		if answer := command(t, dir, "get map texts.map "+word); !strings.Contains(answer, `value="found"`) {
			t.Errorf("get map of %q answered %q", text, answer)
		}
	}
}
