package golden

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/sluice-proxy/sluice/tests/harness"
)

var update = flag.Bool("update", false, "write the views of all cases anew")

func TestMain(m *testing.M) { harness.Main(m) }

func TestCases(t *testing.T) {
	var cases []string
	err := filepath.WalkDir("cases", func(path string, entry fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".txtar" {
			cases = append(cases, path)
		}
		return err
	})
	if err != nil || len(cases) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, path := range cases {
		t.Run(strings.TrimSuffix(strings.TrimPrefix(path, "cases/"), ".txtar"), func(t *testing.T) {
			t.Parallel()
			runCase(t, path)
		})
	}
}

// views are the names of the sections that a case may hold besides its source.
var views = []string{"global", "frontends", "tcp", "base", "base-tcp", "profiles", "web", "userlists", "backends", "maps", "lists", "crt-list", "crt-lists", "files", "udp", "report", "status"}

func runCase(t *testing.T, path string) {
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	source, out := t.TempDir(), filepath.Join(t.TempDir(), "tree")
	args := []string{"render", source, "--out", out, "--status", out + ".status", "--udp", out + ".udp", "--with-keys", "--run-dir", "/run/sluice"}
	for _, file := range archive.Files {
		switch {
		case strings.HasSuffix(file.Name, ".yaml"):
			write(t, filepath.Join(source, file.Name), file.Data)
		case file.Name == "common":
			for _, name := range strings.Fields(string(file.Data)) {
				write(t, filepath.Join(source, name), []byte(read(t, "common", name)))
			}
		case file.Name == "flags":
			args = append(args, strings.Fields(string(file.Data))...)
		case !isView(file.Name):
			t.Fatalf("section %q is neither a manifest nor one of the views %v", file.Name, views)
		}
	}
	ran := harness.Run(t, "", "sluice", args...)
	if ran.Code > 1 {
		t.Fatalf("render: exit code %d\n%s", ran.Code, ran.Err)
	}
	told := func(text string) string { return strings.ReplaceAll(text, source+"/", "") }
	for i, file := range archive.Files {
		if !isView(file.Name) {
			continue
		}
		name, pattern := divided(file.Name)
		got := narrowed(t, told(view(t, out, name, ran.Err)), pattern)
		if *update {
			archive.Files[i].Data = []byte(got)
		} else if diff := cmp.Diff(string(file.Data), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file.Name, diff)
		}
	}
	if *update {
		if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, version := range harness.Versions {
		harness.Check(t, harness.Binary(t, version), out)
	}
}

// divided are the name of a view and the pattern that narrows it: "web /timeout/".
func divided(section string) (name, pattern string) {
	name, pattern, _ = strings.Cut(section, " ")
	return name, pattern
}

func isView(section string) bool {
	name, _ := divided(section)
	return slices.Contains(views, name)
}

// narrowed are the lines of a view that match its pattern, an expression between slashes.
func narrowed(t *testing.T, text, pattern string) string {
	if pattern == "" {
		return text
	}
	inner, ok := strings.CutPrefix(pattern, "/")
	inner, closed := strings.CutSuffix(inner, "/")
	expression, err := regexp.Compile(inner)
	if !ok || !closed || err != nil {
		t.Fatalf("pattern %s: write an expression between slashes (%v)", pattern, err)
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		if expression.MatchString(line) {
			b.WriteString(line)
		}
	}
	return b.String()
}

// view is one view of a rendered tree.
func view(t *testing.T, tree, name, report string) string {
	switch name {
	case "report":
		return report
	case "status":
		return read(t, filepath.Dir(tree), filepath.Base(tree)+".status")
	case "udp":
		return read(t, filepath.Dir(tree), filepath.Base(tree)+".udp")
	case "files":
		return files(t, tree)
	case "global":
		return read(t, tree, "conf.d/00-global.cfg")
	case "frontends":
		return read(t, tree, "conf.d/20-frontends.cfg")
	case "userlists":
		return read(t, tree, "conf.d/15-userlists.cfg")
	case "crt-list":
		return read(t, tree, "crt-lists/https.list")
	case "crt-lists":
		return joined(t, tree, "crt-lists/gateway_*.list", true)
	case "tcp":
		return joined(t, tree, "conf.d/25-tcp.cfg", false) // not there without TCP services
	case "base-tcp":
		return sections(read(t, tree, "conf.d/10-profiles.cfg"), regexp.MustCompile(`^defaults base-tcp`))
	case "base":
		return sections(read(t, tree, "conf.d/10-profiles.cfg"), regexp.MustCompile(`^defaults base-backend`))
	case "web":
		return sections(read(t, tree, "conf.d/10-profiles.cfg"), regexp.MustCompile(`^defaults web `))
	case "profiles":
		return sections(read(t, tree, "conf.d/10-profiles.cfg"), regexp.MustCompile(`^defaults p_`))
	case "backends":
		return joined(t, tree, "conf.d/50-*.cfg", false)
	case "maps":
		return joined(t, tree, "maps/*.map", true)
	default:
		return joined(t, tree, "lists/*.lst", true)
	}
}

func write(t *testing.T, path string, text []byte) {
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, tree, path string) string {
	text, err := os.ReadFile(filepath.Join(tree, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// files are the names of all files of a tree that hold something.
func files(t *testing.T, tree string) string {
	var names []string
	err := fs.WalkDir(os.DirFS(tree), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if read(t, tree, path) != "" {
			names = append(names, path+"\n")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(names, "")
}

// sections are the sections of a file whose header matches.
func sections(text string, header *regexp.Regexp) string {
	var kept []string
	for _, section := range strings.Split(strings.TrimSuffix(text, "\n"), "\n\n") {
		if header.MatchString(section) {
			kept = append(kept, section+"\n")
		}
	}
	return strings.Join(kept, "\n")
}

// joined are all files of a pattern in one text, each line behind the file's name if
// wanted.
func joined(t *testing.T, tree, pattern string, named bool) string {
	names, err := filepath.Glob(filepath.Join(tree, pattern))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, name := range names {
		if filepath.Base(name) == "sluice.map" {
			continue // it says which batch of changes was the last one, nothing of the source
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		base := strings.TrimSuffix(filepath.Base(name), filepath.Ext(name))
		for line := range strings.Lines(string(text)) {
			if named {
				b.WriteString(base + ": ")
			}
			b.WriteString(line)
		}
	}
	return b.String()
}
