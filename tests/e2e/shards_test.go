package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sluice-proxy/sluice/tests/harness"
)

// app is a Service with an Ingress and one endpoint that nobody listens on.
func app(name, weight string) string {
	return harness.Service(name) + harness.Ingress(name, name+".example", name, "initial-weight", weight) +
		fmt.Sprintf("---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: %s-1, namespace: test, labels: {kubernetes.io/service-name: %s}}\n"+
			"addressType: IPv4\nports: [{port: 1}]\nendpoints: [{addresses: [127.0.0.1]}]\n", name, name)
}

func global(timeout string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: sluice, namespace: sluice-system}\ndata: {timeout-client: " + timeout + "}\n"
}

// apps are several of them, each a manifest of its own, with class and settings.
func apps(weight string, names ...string) map[string]string {
	m := map[string]string{"class.yaml": harness.Class, "global.yaml": global("50s")}
	for _, name := range names {
		m[name+".yaml"] = app(name, weight)
	}
	return m
}

func backendsOf(names ...string) []string {
	var list []string
	for _, name := range names {
		list = append(list, "test_"+name+"_80")
	}
	return list
}

// The cases of sharding and reconciliation, as files and in `show backend`.
func TestShards(t *testing.T) {
	all := []string{"a", "b", "c", "d", "e", "f"}
	cases := map[string]struct {
		change func(t *testing.T, c *harness.Controller)
		left   []string
	}{
		"the last backend of a shard goes together with a global change": {func(t *testing.T, c *harness.Controller) {
			c.Remove("a.yaml")
			c.Write("global.yaml", global("51s"))
		}, all[1:]},
		"every backend goes": {func(t *testing.T, c *harness.Controller) {
			for _, name := range all {
				c.Remove(name + ".yaml")
			}
		}, nil},
		"one goes while all survivors change": {func(t *testing.T, c *harness.Controller) {
			c.Remove("a.yaml")
			for _, name := range all[1:] {
				c.Write(name+".yaml", strings.Replace(app(name, "1"), "addresses: [127.0.0.1]", "addresses: [127.0.0.2]", 1))
			}
		}, all[1:]},
		"one goes and the others stay as they are": {func(t *testing.T, c *harness.Controller) { c.Remove("f.yaml") }, all[:5]},
		"one comes": {func(t *testing.T, c *harness.Controller) { c.Write("g.yaml", app("g", "1")) }, append([]string{"g"}, all...)},
	}
	for name, k := range cases {
		t.Run(name, func(t *testing.T) {
			harness.EachVersion(t, func(t *testing.T, binary string) {
				c := start(t, binary, apps("1", all...), "--backend-shards", "64")
				agree(t, c, backendsOf(all...)...)
				before := c.State().Wanted
				k.change(t, c)
				applied(t, c, before)
				c.Eventually("the backends are the wanted ones", func() error {
					if got := c.Backends(); len(got) != len(k.left) {
						return fmt.Errorf("show backend: %v", got)
					}
					return nil
				})
				agree(t, c, backendsOf(k.left...)...)
			})
		})
	}
}

// A controller that starts again finds the folder as another process, another number of
// shards or a vandal left it, and puts it right.
func TestRestartOnLeftovers(t *testing.T) {
	all := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	shard := func(t *testing.T, c *harness.Controller) string {
		t.Helper()
		paths, err := filepath.Glob(filepath.Join(c.ConfigDir, "current", "conf.d", "50-*.cfg"))
		if err != nil || len(paths) == 0 {
			t.Fatalf("no shard files: %v", err)
		}
		return paths[0]
	}
	rewrite := func(t *testing.T, path string, text []byte) {
		t.Helper()
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cases := map[string]func(t *testing.T, c *harness.Controller){
		"a truncated shard file": func(t *testing.T, c *harness.Controller) {
			text, err := os.ReadFile(shard(t, c))
			if err != nil {
				t.Fatal(err)
			}
			rewrite(t, shard(t, c), text[:len(text)/2])
		},
		"an edited shard file": func(t *testing.T, c *harness.Controller) {
			rewrite(t, shard(t, c), []byte("backend test_evil_80 from web\n"))
		},
		"a shard file that is gone": func(t *testing.T, c *harness.Controller) {
			if err := os.Remove(shard(t, c)); err != nil {
				t.Fatal(err)
			}
		},
		"a hand-made file": func(t *testing.T, c *harness.Controller) {
			rewrite(t, filepath.Join(filepath.Dir(shard(t, c)), "50-evil.cfg"), []byte("backend evil from web\n"))
		},
		"a registry that is gone": func(t *testing.T, c *harness.Controller) {
			if err := os.RemoveAll(filepath.Join(c.StateDir, "registry")); err != nil {
				t.Fatal(err)
			}
		},
		"a registry that is damaged": func(t *testing.T, c *harness.Controller) {
			paths, _ := filepath.Glob(filepath.Join(c.StateDir, "registry", "*"))
			for _, path := range paths {
				rewrite(t, path, []byte("{"))
			}
		},
		"a configuration folder that is gone": func(t *testing.T, c *harness.Controller) {
			if err := os.RemoveAll(c.ConfigDir); err != nil {
				t.Fatal(err)
			}
		},
	}
	for name, vandal := range cases {
		t.Run(name, func(t *testing.T) {
			harness.EachVersion(t, func(t *testing.T, binary string) {
				c := start(t, binary, apps("1", all...), "--backend-shards", "64")
				c.Kill()
				vandal(t, c)
				c.Start("--backend-shards", "64")
				agree(t, c, backendsOf(all...)...)
				harness.Check(t, binary, filepath.Join(c.ConfigDir, "current"))
				if _, err := os.Stat(filepath.Join(c.ConfigDir, "current", "conf.d", "50-evil.cfg")); err == nil {
					t.Error("the hand-made file is still there")
				}
			})
		})
	}
}

func TestRestartWithAnotherNumberOfShards(t *testing.T) {
	all := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	harness.EachVersion(t, func(t *testing.T, binary string) {
		c := start(t, binary, apps("1", all...), "--backend-shards", "64")
		for _, shards := range []string{"32", "128"} {
			c.Kill()
			c.Start("--backend-shards", shards)
			agree(t, c, backendsOf(all...)...)
			harness.Check(t, binary, filepath.Join(c.ConfigDir, "current"))
			if got := c.Metric("sluice_reloads_total", ""); got != 0 {
				t.Errorf("%v reloads: a move between files needs none", got)
			}
		}
	})
}

// Nothing changed: nothing is written, nothing is reloaded, HAProxy is left as it is.
func TestRestartWithNothingChanged(t *testing.T) {
	harness.EachVersion(t, func(t *testing.T, binary string) {
		c := start(t, binary, apps("1", "a", "b", "c"))
		pid, files := c.HAProxyPID(), inodes(t, c.ConfigDir)
		c.Kill()
		c.Start()
		if c.HAProxyPID() != pid {
			t.Error("HAProxy was started again")
		}
		if writes, reloads := c.Metric("sluice_file_writes_total", ""), c.Metric("sluice_reloads_total", ""); writes+reloads != 0 {
			t.Errorf("%v files written, %v reloads", writes, reloads)
		}
		if after := inodes(t, c.ConfigDir); after != files {
			t.Errorf("files changed:\n%s\n%s", files, after)
		}
		agree(t, c, backendsOf("a", "b", "c")...)
	})
}

// inodes are all files below a folder with inode, size and time of change.
func inodes(t *testing.T, folder string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			fmt.Fprintln(&b, path, info.Sys().(*syscall.Stat_t).Ino, info.Size(), info.ModTime())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A full reconciliation that finds nothing to do does nothing, and one endpoint is one
// shard file.
func TestWritesAreThoseOfTheChange(t *testing.T) {
	c := start(t, harness.Binary(t, "3.4"), apps("1", "a", "b", "c"), "--backend-shards", "64")
	writes := func(kind string) float64 { return c.Metric("sluice_file_writes_total", `kind="`+kind+`"`) }
	shards, maps, reloads := writes("shard"), writes("map"), c.Metric("sluice_reloads_total", "")

	change(t, c, map[string]string{"a.yaml": strings.Replace(app("a", "1"), "[127.0.0.1]", "[127.0.0.1, 127.0.0.9]", 1)})
	change(t, c, map[string]string{"a.yaml": strings.Replace(app("a", "1"), "[{addresses: [127.0.0.1]}]", "[{addresses: [127.0.0.1]}, {addresses: [127.0.0.2]}]", 1)})
	if got := writes("shard") - shards; got != 1 {
		t.Errorf("%v shard files for one endpoint, want 1", got)
	}
	if writes("map") != maps || c.Metric("sluice_reloads_total", "") != reloads {
		t.Error("an endpoint cost a map or a reload")
	}

	shards = writes("shard")
	change(t, c, map[string]string{"global.yaml": global("55s")})
	if got := writes("shard") - shards; got != 0 {
		t.Errorf("%v shard files for a global change, want none", got)
	}
	if got := c.Metric("sluice_reloads_total", "") - reloads; got != 1 {
		t.Errorf("%v reloads for a global change, want 1", got)
	}

	shards, maps = writes("shard"), writes("map")
	change(t, c, map[string]string{"new.yaml": app("new", "1")})
	if got := writes("shard") - shards; got != 1 {
		t.Errorf("%v shard files for a new route, want 1", got)
	}
	if got := writes("map") - maps; got != 2 {
		t.Errorf("%v map files for a new host, want hosts and routes-prefix", got)
	}
}
