package e2e

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/tests/harness"
)

// refusing is a folder of templates with which HAProxy refuses each profile that sets the
// response header X-Refused.
func refusing(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	if err := os.CopyFS(folder, os.DirFS("../../rootfs/etc/sluice/templates")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "profiles.tmpl")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const at = "{{- range $i, $h := .ResponseHeaders }}\n"
	if strings.Count(string(text), at) != 1 {
		t.Fatalf("%s holds %q not once", path, at)
	}
	changed := strings.Replace(string(text), at, at+"{{- if eq .Name \"X-Refused\" }}\n    nosuchdirective {{ word .Name }}\n{{- end }}\n", 1)
	if err := os.WriteFile(path, []byte(changed), 0o644); err != nil {
		t.Fatal(err)
	}
	return folder
}

// form is an Ingress whose answers tell its form; one that is refused by HAProxy, if bad.
func form(name, number string, bad bool, annotations ...string) string {
	headers := "X-Form: " + number
	if bad {
		headers += "\nX-Refused: yes"
	}
	return harness.Ingress(name, name+".example", "web", append(annotations, "response-set-headers", headers)...)
}

// answersForm tells whether a host answers in the form of that number.
func answersForm(c *harness.Controller, host, number string) func() error {
	return func() error {
		answer, err := c.Get(host, "/")
		if err == nil && (answer.Status != 200 || answer.Headers.Get("X-Form") != number) {
			err = fmt.Errorf("%s: status %d, form %q, want form %s", host, answer.Status, answer.Headers.Get("X-Form"), number)
		}
		return err
	}
}

func answersStatus(c *harness.Controller, host string, want int) func() error {
	return status(harness.Ask{Address: c.HTTP, Host: host, Path: "/"}, want, nil)
}

// quarantined tells whether exactly these objects are in quarantine, everywhere it is told.
func quarantined(c *harness.Controller, objects ...string) func() error {
	return func() error {
		state, told := c.State(), 0
		for _, f := range state.Findings {
			if f.Code == "Quarantined" {
				told++
			}
		}
		if metric := c.Metric("sluice_quarantined_objects", ""); !slices.Equal(state.Quarantined, objects) || told != len(objects) || metric != float64(len(objects)) {
			return fmt.Errorf("in quarantine: %v, %d findings, metric %v, want %v", state.Quarantined, told, metric, objects)
		}
		return nil
	}
}

// What HAProxy refuses costs only the object that asked for it.
func TestRefusedObjectIsQuarantined(t *testing.T) {
	harness.EachVersion(t, func(t *testing.T, binary string) {
		c := start(t, binary, map[string]string{
			"a.yaml": web(harness.NewPod(t, "web-1")), "bad.yaml": form("bad", "1", false), "other.yaml": form("other", "1", false),
		}, "--templates", refusing(t))
		must(t, answersForm(c, "bad.example", "1"))

		// Changed together with other objects, which are applied.
		c.Write("bad.yaml", form("bad", "2", true))
		c.Write("other.yaml", form("other", "2", false))
		c.Write("new.yaml", form("new", "1", false))
		within(t, 2*time.Second, "the other objects are applied", func() error {
			return errors.Join(answersForm(c, "other.example", "2")(), answersForm(c, "new.example", "1")())
		})
		harness.Eventually(t, "it is in quarantine", quarantined(c, "Ingress/test/bad"))
		must(t, answersForm(c, "bad.example", "1")) // the last good form
		must(t, hasFinding(c, "Quarantined", "nosuchdirective"))

		// Others go on being changed meanwhile, and the object stays where it is.
		c.Write("other.yaml", form("other", "3", false))
		within(t, 2*time.Second, "another change is applied", answersForm(c, "other.example", "3"))
		must(t, quarantined(c, "Ingress/test/bad"))

		// Its new form protects: the good one must not be served.
		c.Write("bad.yaml", form("bad", "3", true, "allowlist-source-range", "192.0.2.1"))
		within(t, 2*time.Second, "the path is denied", answersStatus(c, "bad.example", 503))
		harness.Eventually(t, "it is in quarantine", quarantined(c, "Ingress/test/bad"))
		must(t, answersForm(c, "other.example", "3"))

		// It is mended.
		c.Write("bad.yaml", form("bad", "4", false))
		within(t, 2*time.Second, "it is released", answersForm(c, "bad.example", "4"))
		harness.Eventually(t, "nothing is in quarantine", quarantined(c))

		// A bad one that is new is left out, and one that is removed is forgotten.
		c.Write("bad2.yaml", form("bad2", "1", true))
		harness.Eventually(t, "it is in quarantine", quarantined(c, "Ingress/test/bad2"))
		must(t, answersStatus(c, "bad2.example", 404))
		c.Remove("bad2.yaml")
		harness.Eventually(t, "nothing is in quarantine", quarantined(c))
		must(t, answersForm(c, "bad.example", "4"))
	})
}

// A start with a bad object serves all the others, and what was last good (A3, C052).
func TestRefusedObjectAtStart(t *testing.T) {
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		templates := refusing(t)
		c := start(t, binary, map[string]string{
			"a.yaml": web(harness.NewPod(t, "web-1")), "bad.yaml": form("bad", "1", true), "other.yaml": form("other", "1", false),
			"guarded.yaml": form("guarded", "1", true, "allowlist-source-range", "192.0.2.1"),
		}, "--templates", templates)
		for range 2 {
			must(t, answersForm(c, "other.example", "1"))
			must(t, answersStatus(c, "bad.example", 404))
			must(t, answersStatus(c, "guarded.example", 503))
			harness.Eventually(t, "they are in quarantine", quarantined(c, "Ingress/test/bad", "Ingress/test/guarded"))
			c.Stop() // HAProxy, too
			c.Start("--templates", templates)
		}
		change(t, c, map[string]string{"bad.yaml": form("bad", "2", false), "guarded.yaml": form("guarded", "2", false)})
		must(t, answersForm(c, "bad.example", "2"))
		must(t, answersForm(c, "guarded.example", "2"))
		harness.Eventually(t, "nothing is in quarantine", quarantined(c))
	})
}

// Global settings are an object like any other: what HAProxy refuses of them holds nobody up.
func TestRefusedGlobalSettings(t *testing.T) {
	harness.EachVersion(t, func(t *testing.T, binary string) {
		c := start(t, binary, map[string]string{
			"a.yaml": web(harness.NewPod(t, "web-1")), "global.yaml": settings("forwardfor", "ignore"), "other.yaml": form("other", "1", false),
		})
		c.Write("global.yaml", settings("forwardfor", "ignore", "http-log-format", "%[nosuchsample]"))
		c.Write("other.yaml", form("other", "2", false))
		within(t, 2*time.Second, "another object is applied", answersForm(c, "other.example", "2"))
		harness.Eventually(t, "the settings are in quarantine", quarantined(c, "ConfigMap/sluice-system/sluice"))
		if seen := sees(t, harness.Ask{Address: c.HTTP, Host: "other.example", Path: "/"}); seen.Headers.Get("X-Forwarded-For") != "" {
			t.Error("the last good settings are not in force")
		}
		change(t, c, map[string]string{"global.yaml": settings("http-log-format", "%ci")})
		harness.Eventually(t, "nothing is in quarantine", quarantined(c))
		if seen := sees(t, harness.Ask{Address: c.HTTP, Host: "other.example", Path: "/"}); seen.Headers.Get("X-Forwarded-For") != "127.0.0.1" {
			t.Error("the mended settings are not in force")
		}
	})
}

// wrapper is a HAProxy whose check fails, with the given alert, while a file exists. Each
// check leaves a line in a log.
func wrapper(t *testing.T, binary, alert string) (path, flag, log string) {
	t.Helper()
	folder := t.TempDir()
	path, flag, log = filepath.Join(folder, "haproxy"), filepath.Join(folder, "fail"), filepath.Join(folder, "log")
	script := fmt.Sprintf("#!/bin/sh\nif [ \"$1\" = -c ]; then\n  echo check >> %s\n  if [ -e %s ]; then echo '[ALERT]    (1) : config : %s' >&2; exit 1; fi\nfi\nexec %s \"$@\"\n", log, flag, alert, binary)
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path, flag, log
}

// Where a refusal can't be traced, or what it is traced to is not to blame, the old worker
// serves on, and all is well when the cause is gone.
func TestRefusalOfNobody(t *testing.T) {
	alerts := map[string]string{
		"no object is named":             "out of luck",
		"the global settings are blamed": "parsing [/x/conf.d/20-frontends.cfg:3] : out of luck",
	}
	for name, alert := range alerts {
		t.Run(name, func(t *testing.T) {
			harness.EachVersion(t, func(t *testing.T, binary string) {
				t.Parallel()
				path, flag, log := wrapper(t, binary, alert)
				pod, later := harness.NewPod(t, "web-1"), harness.NewPod(t, "web-2")
				c := start(t, path, map[string]string{"a.yaml": web(pod), "global.yaml": settings(), "other.yaml": form("other", "1", false)})
				if err := os.WriteFile(flag, nil, 0o600); err != nil {
					t.Fatal(err)
				}
				worker, reloads, generation := c.WorkerPID(), c.Metric("sluice_reloads_total", ""), c.State().Generation
				checks := func() int {
					text, err := os.ReadFile(log)
					if err != nil {
						t.Fatal(err)
					}
					return strings.Count(string(text), "\n")
				}
				first := checks()
				c.Write("other.yaml", form("other", "2", false, "balance-algorithm", "leastconn")) // a new profile: a reload
				harness.Eventually(t, "the refusal is told", func() error {
					if s := c.State(); s.Error == "" || s.Applied == s.Wanted {
						return fmt.Errorf("wanted %d, applied %d, error %q", s.Wanted, s.Applied, s.Error)
					}
					return nil
				})
				harness.Eventually(t, "it is tried again", func() error {
					if n := checks() - first; n < 4 {
						return fmt.Errorf("%d checks", n)
					}
					return nil
				})
				began, before := time.Now(), checks()
				harness.Eventually(t, "a second has gone by", func() error {
					if time.Since(began) < time.Second {
						return errors.New("not yet")
					}
					return nil
				})
				if n := checks() - before; n > 5 {
					t.Errorf("%d checks in a second: each try must come later than the one before", n)
				}
				must(t, answersForm(c, "other.example", "1"))
				if c.WorkerPID() != worker || c.Metric("sluice_reloads_total", "") != reloads || c.State().Generation != generation {
					t.Error("the worker or the generation changed")
				}
				target, err := os.Readlink(filepath.Join(c.ConfigDir, "current"))
				if err != nil || target != fmt.Sprintf("gen-%d", generation) {
					t.Errorf("current leads to %s: %v", target, err)
				}
				harness.Check(t, binary, filepath.Join(c.ConfigDir, "current"))

				if err := os.Remove(flag); err != nil {
					t.Fatal(err)
				}
				harness.Eventually(t, "it recovers by itself", answersForm(c, "other.example", "2"))
				harness.Eventually(t, "all is told to be well", func() error {
					if s := c.State(); s.Error != "" || s.Applied != s.Wanted {
						return fmt.Errorf("wanted %d, applied %d, error %q", s.Wanted, s.Applied, s.Error)
					}
					return quarantined(c)()
				})
				change(t, c, map[string]string{"a.yaml": web(later)})
				answers(t, c, "other.example", 200, "web-2")
			})
		})
	}
}

func TestPortInUse(t *testing.T) {
	listeners := map[string]func(c *harness.Controller) string{
		"http": func(c *harness.Controller) string { return c.HTTP }, "https": func(c *harness.Controller) string { return c.HTTPS }, "admin": func(c *harness.Controller) string { return c.Admin },
	}
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		for name, address := range listeners {
			c := harness.NewController(t, binary, map[string]string{"a.yaml": web(harness.NewPod(t, "web-1"))})
			l, err := net.Listen("tcp", address(c))
			if err != nil {
				t.Fatal(err)
			}
			c.StartUnready()
			if code := c.Wait(); code != 2 {
				t.Errorf("%s: exit code %d, want 2", name, code)
			}
			lines := strings.Split(strings.TrimSpace(c.Log()), "\n")
			if last := lines[len(lines)-1]; !strings.HasPrefix(last, "sluice: ") || !strings.Contains(last, address(c)) || !strings.Contains(last, "in use") {
				t.Errorf("%s: the last line is %q", name, last)
			}
			if pid := c.HAProxyPID(); pid != 0 && alive(pid) {
				t.Errorf("%s: HAProxy is left", name)
			}
			l.Close()
			c.Start() // the port is free again
		}
	})
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

// Two Ingresses claim one path: the older one wins, whatever the order in which they come.
func TestTwoClaimsOfOnePath(t *testing.T) {
	aged := func(name, service, created string) string {
		text := harness.Ingress(name, "shop.example", service)
		return strings.Replace(text, "  namespace: test\n", "  namespace: test\n  creationTimestamp: "+created+"\n", 1)
	}
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		old, young := harness.NewPod(t, "old"), harness.NewPod(t, "young")
		c := start(t, binary, map[string]string{
			"a.yaml": harness.Class + harness.Service("old") + harness.Slice("old", old) + harness.Service("young") + harness.Slice("young", young),
			"y.yaml": aged("a-young", "young", "2024-01-02T00:00:00Z"),
		})
		answers(t, c, "shop.example", 200, "young")
		change(t, c, map[string]string{"z.yaml": aged("z-old", "old", "2024-01-01T00:00:00Z")})
		answers(t, c, "shop.example", 200, "old")
		harness.Eventually(t, "a finding", hasFinding(c, "PathConflict", ""))
		before := c.State().Wanted
		c.Remove("z.yaml")
		applied(t, c, before)
		answers(t, c, "shop.example", 200, "young")
	})
}

// A file that does not parse costs only itself: its last good content stays in force.
func TestBrokenManifest(t *testing.T) {
	harness.EachVersion(t, func(t *testing.T, binary string) {
		c := start(t, binary, map[string]string{"a.yaml": web(harness.NewPod(t, "web-1")), "one.yaml": form("one", "1", false), "two.yaml": form("two", "1", false)})
		c.Write("one.yaml", form("one", "2", false)+"---\nkind: [unclosed\n")
		c.Write("two.yaml", form("two", "2", false))
		within(t, 2*time.Second, "the other file is applied", answersForm(c, "two.example", "2"))
		harness.Eventually(t, "a finding", hasFinding(c, "ManifestUnreadable", ""))
		must(t, answersForm(c, "one.example", "1"))
		change(t, c, map[string]string{"one.yaml": form("one", "3", false)})
		must(t, answersForm(c, "one.example", "3"))
		harness.Eventually(t, "no finding", func() error {
			if hasFinding(c, "ManifestUnreadable", "")() == nil {
				return errors.New("the finding is left")
			}
			return nil
		})
	})
}

// HAProxy dies: it is started again on what it served, and nothing is left of the old one.
func TestHAProxyIsKilled(t *testing.T) {
	victims := map[string]func(c *harness.Controller) int{"worker": (*harness.Controller).WorkerPID, "master": (*harness.Controller).HAProxyPID}
	harness.EachVersion(t, func(t *testing.T, binary string) {
		for name, victim := range victims {
			for _, adopted := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s adopted %t", name, adopted), func(t *testing.T) {
					t.Parallel()
					c := start(t, binary, map[string]string{"a.yaml": web(harness.NewPod(t, "web-1")), "one.yaml": form("one", "1", false)})
					if adopted {
						c.Kill()
						c.Start()
					}
					master, worker := c.HAProxyPID(), c.WorkerPID()
					if err := syscall.Kill(victim(c), syscall.SIGKILL); err != nil {
						t.Fatal(err)
					}
					harness.Eventually(t, "another HAProxy runs", func() error {
						if pid := c.HAProxyPID(); pid == master || pid == 0 || alive(master) || alive(worker) {
							return fmt.Errorf("master %d; old master alive %t, old worker alive %t", pid, alive(master), alive(worker))
						}
						return nil
					})
					harness.Eventually(t, "traffic is back", answersForm(c, "one.example", "1"))
					change(t, c, map[string]string{"one.yaml": form("one", "2", false), "two.yaml": form("two", "1", false)})
					must(t, answersForm(c, "one.example", "2"))
					must(t, answersForm(c, "two.example", "1"))
				})
			}
		}
	})
}

// SIGTERM ends sluice and HAProxy, but not before the requests in flight are answered.
func TestStopFinishesRequests(t *testing.T) {
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		gate := make(chan struct{})
		pod := harness.NewPodWith(t, "web-1", harness.PodOptions{Before: func(*http.Request) { <-gate }})
		c := start(t, binary, map[string]string{"a.yaml": web(pod) + harness.Ingress("web", "web.example", "web")})
		master := c.HAProxyPID()
		done := make(chan error, 1)
		go func() {
			done <- status(harness.Ask{Address: c.HTTP, Host: "web.example", Path: "/"}, 200, nil)()
		}()
		harness.Eventually(t, "the request is in flight", func() error {
			if pod.Hits() == 0 {
				return errors.New("the pod has got none")
			}
			return nil
		})
		c.Signal(syscall.SIGTERM)
		harness.Eventually(t, "new connections are refused", func() error {
			conn, err := net.Dial("tcp", c.HTTP)
			if err == nil {
				conn.Close()
				return errors.New("one was taken")
			}
			return nil
		})
		if !alive(master) {
			t.Error("HAProxy did not wait for the request")
		}
		close(gate)
		if err := <-done; err != nil {
			t.Errorf("the request in flight: %v", err)
		}
		if code := c.Wait(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		if alive(master) {
			t.Error("HAProxy is left")
		}
	})
}

// With --once sluice ends when HAProxy serves what the source says, and leaves it running.
func TestOnce(t *testing.T) {
	harness.EachVersion(t, func(t *testing.T, binary string) {
		t.Parallel()
		c := harness.NewController(t, binary, map[string]string{"a.yaml": web(harness.NewPod(t, "web-1")), "one.yaml": form("one", "1", false)})
		pid := 0
		for _, number := range []string{"1", "2", "2"} {
			c.Write("one.yaml", form("one", number, false))
			c.StartUnready("--once")
			if code := c.Wait(); code != 0 {
				t.Fatalf("exit code %d", code)
			}
			must(t, answersForm(c, "one.example", number))
			if pid != 0 && c.HAProxyPID() != pid {
				t.Error("HAProxy was started again")
			}
			pid = c.HAProxyPID()
		}
	})
}
