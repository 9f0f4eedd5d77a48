package process

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// versions are the binaries that every test on a real HAProxy runs on.
func versions(t *testing.T, test func(t *testing.T, binary string)) {
	t.Helper()
	_, file, _, _ := runtime.Caller(0)
	root := filepath.Join(filepath.Dir(file), "..", "..", "..")
	for _, v := range []string{"3.2", "3.4"} {
		binary := os.Getenv("SLUICE_HAPROXY_" + v[:1] + v[2:])
		if binary == "" {
			binary = filepath.Join(root, ".tools", "bin", "haproxy-"+v)
		}
		if _, err := os.Stat(binary); err != nil {
			t.Errorf("haproxy %s is missing (make tools, or set SLUICE_HAPROXY_%s): %v", v, v[:1]+v[2:], err)
			continue
		}
		t.Run(v, func(t *testing.T) { test(t, binary) })
	}
}

// folder is a temporary folder whose path is short enough for a unix socket.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

const good = `global
    stats socket DIR/stats.sock mode 600 level admin
    default-path parent
    hard-stop-after 5s
    log stdout format raw local0
defaults base
    mode http
    timeout client 30s
    timeout server 5s
    timeout connect 1s
    log global
    option httplog
frontend http from base
    bind unix@DIR/http.sock
    http-request return status 200 if { path,map(maps/routes.map) -m found }
backend b from base
    server s 10.0.0.1:80
`

// generation writes a tree below dir/gen-1 and the link current to it, and returns the
// path of conf.d through the link.
func generation(t *testing.T, dir string) string {
	t.Helper()
	write(t, filepath.Join(dir, "gen-1/conf.d/00-global.cfg"), strings.ReplaceAll(good, "DIR", dir))
	write(t, filepath.Join(dir, "gen-1/maps/routes.map"), "/ x\n")
	if err := os.Symlink("gen-1", filepath.Join(dir, "current")); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "current/conf.d")
}

func TestCheck(t *testing.T) {
	cases := map[string]struct {
		text string // of conf.d/50-backends-003.cfg
		want *Refusal
	}{
		"a good file passes": {"backend c from base\n", nil},
		"a warning passes":   {"backend c from base\n    use_backend b\n", nil},
		"an unknown keyword": {"backend c from base\n    frobnicate\n", &Refusal{
			File: "conf.d/50-backends-003.cfg", Line: 2, Message: "unknown keyword 'frobnicate' in 'backend' section"}},
		"an unknown server option": {"backend c from base\n\n    server x 10.0.0.1:80 blah\n", &Refusal{
			File: "conf.d/50-backends-003.cfg", Line: 3, Section: "backend c", Message: "'server c/x' : unknown keyword 'blah'."}},
		"a section defined twice": {"backend b from base\n", &Refusal{
			File: "conf.d/50-backends-003.cfg", Line: 1, Section: "backend b"}},
		"a defaults section that is missing": {"backend c from nope\n", &Refusal{
			File: "conf.d/50-backends-003.cfg", Line: 1, Section: "backend c", Message: "defaults section 'nope' not found for backend 'c'."}},
		"two servers of one name": {"backend c from base\n    server x 10.0.0.1:80\n    server x 10.0.0.1:80\n", &Refusal{
			File: "conf.d/50-backends-003.cfg", Line: 3, Section: "backend c"}},
		"a missing certificate authority": {"backend c from base\n    server x 10.0.0.1:80 ssl\n", &Refusal{
			File: "conf.d/50-backends-003.cfg", Line: 2, Section: "backend c"}},
		"a missing map": {"backend c from base\n    http-request deny if { path,map(maps/none.map) -m found }\n", &Refusal{
			File: "conf.d/50-backends-003.cfg", Line: 2}},
		"an alert without a place": {"backend c from base\n    stick-table type ip size 1k peers none\n", &Refusal{
			Section: "proxy c", Message: "Proxy 'c': unable to find sync peers 'none'."}},
		"a truncated file": {"backend c from base\n    balance round", &Refusal{
			File: "conf.d/50-backends-003.cfg", Line: 2}},
	}
	versions(t, func(t *testing.T, binary string) {
		for sentence, c := range cases {
			t.Run(sentence, func(t *testing.T) {
				dir := folder(t)
				confDir := generation(t, dir)
				write(t, filepath.Join(dir, "gen-1/conf.d/50-backends-003.cfg"), c.text)
				err := Check(t.Context(), binary, confDir)
				if c.want == nil {
					if err != nil {
						t.Fatal(err)
					}
					return
				}
				var got *Refusal
				if !errors.As(err, &got) {
					t.Fatalf("error %v", err)
				}
				ignore := cmpopts.IgnoreFields(Refusal{}, "Output")
				if c.want.Message == "" {
					ignore = cmpopts.IgnoreFields(Refusal{}, "Output", "Message")
				}
				if diff := cmp.Diff(c.want, got, ignore); diff != "" {
					t.Errorf("%s\n%s", diff, got.Output)
				}
				if got.Message == "" || !strings.Contains(got.Output, got.Message) {
					t.Errorf("message %q", got.Message)
				}
			})
		}
	})
}

func TestCheckFailsAsAMachine(t *testing.T) {
	dir := folder(t)
	script := func(text string) string {
		path := filepath.Join(dir, "fake")
		write(t, path, "#!/bin/sh\n"+text)
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var refusal *Refusal
	if err := Check(t.Context(), filepath.Join(dir, "none"), dir); err == nil || errors.As(err, &refusal) {
		t.Errorf("a missing binary: %v", err)
	}
	if err := Check(t.Context(), script("kill -9 $$\n"), dir); err == nil || errors.As(err, &refusal) {
		t.Errorf("a killed binary: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	if err := Check(ctx, script("sleep 60\n"), dir); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 5*time.Second {
		t.Errorf("a binary that hangs: %v after %v", err, time.Since(start))
	}
}

func TestBindErrorOf(t *testing.T) {
	cases := map[string]struct {
		output string
		want   error
	}{
		"IPv4": {
			"[NOTICE]   (1) : Initializing new worker (2)\n[ALERT]    (2) : Binding [/c/gen-1/conf.d/20-f.cfg:2] for frontend http: protocol tcpv4: cannot bind socket (Address already in use) for [127.0.0.1:80].\n",
			&BindError{Address: "127.0.0.1:80", Reason: "Address already in use", File: "conf.d/20-f.cfg", Line: 2},
		},
		"IPv6": {
			"[ALERT]    (2) : Binding [/c/current/conf.d/20-f.cfg:2] for frontend http: protocol tcpv6: cannot bind socket (Permission denied) for [:::80].\n",
			&BindError{Address: "[::]:80", Reason: "Permission denied", File: "conf.d/20-f.cfg", Line: 2},
		},
		"another alert": {"[ALERT]    (2) : config : Fatal errors found in configuration.\n", nil},
	}
	for sentence, c := range cases {
		t.Run(sentence, func(t *testing.T) {
			if diff := cmp.Diff(c.want, bindErrorOf(c.output, "/c/current"), cmpopts.IgnoreFields(BindError{}, "Output")); diff != "" {
				t.Error(diff)
			}
		})
	}
}
