package deps

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/sluice-proxy/sluice/"

// place is where a package stands. A package imports only packages of lower levels, so
// nobody calls upstream and the arrows never turn. Two packages of one level do not know
// each other.
type place struct {
	pkg   string // below the module; may end in /*
	level int
	pure  bool // a function of values: no client, clock, file, logger or context
	why   string
}

// places are the packages below pkg/ and what they embed, from left to right.
var places = []place{
	{"pkg/haproxy/model", 0, true, "plain values that all other stages speak of"},
	{"rootfs", 0, true, "embedded files and nothing else"},

	{"pkg/haproxy/token", 1, true, "the typed encoder: the only place that writes a user's value"},
	{"pkg/haproxy/tree", 1, true, "the wanted files, as values"},
	{"pkg/haproxy/pattern", 1, true, "regular expressions as automata: values of a map, not rules"},
	{"pkg/converters/report", 1, true, "findings, and their catalogue; rides along the whole line"},

	{"pkg/converters/snapshot", 2, true, "the objects, and the view that notes look-ups"},
	{"pkg/converters/settings", 2, true, "the registry of options; knows no Kubernetes type"},
	{"pkg/haproxy/serverline", 2, true, "one renderer of server options for files and commands"},

	{"pkg/converters/dialect/*", 3, true, "a dialect is a table from foreign keys to options"},
	{"pkg/converters/source", 3, false, "the beginning of the line: hands out snapshots"},
	{"pkg/converters/source/*", 4, false, "a source reads files or a cluster, that is its purpose"},
	{"pkg/converters/resolve", 4, true, "the one implementation of each feature"},
	{"pkg/converters/ingress", 5, true, "a converter: a function of one unit and of a view"},
	{"pkg/converters/gateway", 5, true, "a converter: a function of one unit and of a view"},
	{"pkg/converters/vhost", 6, true, "which rule of a virtual host takes a request, as entries of maps"},
	{"pkg/converters/memo", 7, true, "the one cache; reruns the units whose look-ups changed"},

	{"pkg/haproxy/shard", 8, true, "(old registry, model) -> (layout, new registry)"},
	{"pkg/template", 9, true, "layout -> tree"},
	{"pkg/haproxy/plan", 10, true, "the one differ; the tree comes to it as a value"},
	{"pkg/haproxy/socket", 11, false, "speaks to HAProxy"},
	{"pkg/haproxy/files", 11, false, "writes the owned folder"},
	{"pkg/forwarder", 11, false, "hands datagrams on, beside HAProxy"},
	{"pkg/haproxy/process", 12, false, "starts and watches HAProxy; finds it by its sockets"},
	{"pkg/haproxy/apply", 13, false, "carries out the steps of a plan"},
	{"pkg/converters/status", 14, true, "(report, outcome) -> statuses; the end of the line"},
	{"pkg/converters/status/writer", 15, false, "writes statuses to the cluster or to a file"},
}

// ban forbids imports to packages. Both sides are patterns: a path, or a prefix that ends
// in "..." (of the module for packages, of any import path for imports).
type ban struct {
	name    string
	to      []string
	except  []string
	imports []string
	why     string
}

// bans are what the levels alone do not say.
var bans = []ban{
	{
		name:    "the HAProxy side knows no converter and no template",
		to:      []string{"pkg/haproxy/..."},
		imports: []string{module + "pkg/converters/...", module + "pkg/template"},
		why:     "it can be used and tested with nothing but a model; plan gets the tree as a value",
	},
	{
		name:    "the templates know no converter",
		to:      []string{"pkg/template", "rootfs"},
		imports: []string{module + "pkg/converters/..."},
		why:     "whatever is rendered is in the model: a template that asks a converter decides something",
	},
	{
		name:   "converters know of HAProxy only the model and the encoder",
		to:     []string{"pkg/converters/..."},
		except: []string{"pkg/converters/status", "pkg/converters/status/writer"},
		imports: []string{
			module + "pkg/haproxy/apply", module + "pkg/haproxy/files", module + "pkg/haproxy/plan",
			module + "pkg/haproxy/process", module + "pkg/haproxy/serverline", module + "pkg/haproxy/shard",
			module + "pkg/haproxy/socket", module + "pkg/haproxy/tree", module + "pkg/template",
		},
		why: "conversion ends with the model; what is running is no business of it",
	},
	{
		name:    "the model knows nothing but the standard library",
		to:      []string{"pkg/haproxy/model", "rootfs"},
		imports: []string{"third-party"},
		why:     "everybody imports it",
	},
	{
		name: "no Kubernetes type on the HAProxy side and in settings",
		to: []string{
			"pkg/haproxy/...", "pkg/template", "rootfs", "pkg/converters/settings", "pkg/converters/report",
			"pkg/converters/dialect/...",
		},
		imports: []string{"k8s.io/...", "sigs.k8s.io/gateway-api/..."},
		why:     "they speak HAProxy's words and plain values, whatever the objects came from",
	},
	{
		name:    "a Kubernetes client in two places, wired together in cmd",
		to:      []string{"pkg/...", "cmd/...", "rootfs"},
		except:  []string{"pkg/converters/source/cluster", "pkg/converters/status/writer", "cmd/sluice"},
		imports: []string{"k8s.io/client-go/...", "sigs.k8s.io/controller-runtime/...", "sigs.k8s.io/gateway-api/pkg/client/..."},
		why:     "I/O with the cluster stands at both ends of the line, never within it",
	},
	{
		name:    "libraries know no program",
		to:      []string{"pkg/...", "rootfs"},
		imports: []string{module + "cmd/...", module + "tests/...", "github.com/spf13/..."},
		why:     "things are wired together in cmd, and flags are its business",
	},
	{
		name:    "the product knows no test",
		to:      []string{"cmd/..."},
		imports: []string{module + "tests/..."},
		why:     "tests may pull in what the product must not ship",
	},
}

// impure are the imports by which a package would do or see something that is not in its
// arguments. A pure package has none of them, but for exceptions.
var impure = map[string]string{
	"context":      "nothing in it waits, so there is nothing to cancel",
	"log/slog":     "what there is to say is a finding; the loop logs",
	"math/rand":    "equal input must give equal bytes",
	"math/rand/v2": "equal input must give equal bytes",
	"net/http":     "whatever must be fetched is fetched by a source",
	"os":           "files and environment are read by sources and written by apply",
	"os/exec":      "programs are run by process",
	"os/signal":    "signals are for commands",
}

// clock are the functions of package time that a pure package does not call: the time is
// an argument.
var clock = []string{"After", "AfterFunc", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until"}

// exceptions are the allowed impure imports: package, import, reason.
var exceptions = []struct{ pkg, imports, why string }{
	{"pkg/haproxy/model", "log/slog", "Secret is a slog.LogValuer, so that a log line can't hold it"},
}

// source is what `go list` knows of a package.
type source struct {
	ImportPath string
	Name       string
	Dir        string
	Imports    []string
	GoFiles    []string
}

// short is the package's path below the module.
func (s source) short() string { return strings.TrimPrefix(s.ImportPath, module) }

func TestPackagesImportOnlyLowerLevels(t *testing.T) {
	for _, pkg := range packages(t) {
		if !placed(pkg.short()) {
			continue
		}
		own, found := placeOf(pkg.short())
		if !found {
			t.Errorf("%s is unknown: add a row to places in tests/deps/deps_test.go with its level and its purity "+
				"(and to the list in docs/ARCHITECTURE.md)", pkg.short())
			continue
		}
		for _, imported := range pkg.Imports {
			below, isOurs := strings.CutPrefix(imported, module)
			if !isOurs {
				continue
			}
			if other, found := placeOf(below); found && other.level >= own.level {
				t.Errorf("%s (level %d: %s)\n\timports %s (level %d: %s)\n\tbut only lower levels may be imported: nobody calls upstream",
					pkg.short(), own.level, own.why, below, other.level, other.why)
			}
		}
	}
}

func TestForbiddenImports(t *testing.T) {
	all := packages(t)
	for _, rule := range bans {
		t.Run(rule.name, func(t *testing.T) {
			for _, pkg := range all {
				if !matchesAny(rule.to, pkg.short()) || matchesAny(rule.except, pkg.short()) {
					continue
				}
				for _, imported := range pkg.Imports {
					if matchesAny(rule.imports, imported) {
						t.Errorf("%s imports %s: %s", pkg.short(), imported, rule.why)
					}
				}
			}
		})
	}
}

func TestPurePackagesSeeOnlyTheirArguments(t *testing.T) {
	used := map[string]bool{}
	for _, pkg := range packages(t) {
		if own, found := placeOf(pkg.short()); !found || !own.pure {
			continue
		}
		for _, imported := range pkg.Imports {
			why, isImpure := impure[imported]
			if !isImpure {
				continue
			}
			if excepted(pkg.short(), imported) {
				used[pkg.short()+" "+imported] = true
				continue
			}
			t.Errorf("%s is pure, but imports %s: %s", pkg.short(), imported, why)
		}
		for _, use := range clockUses(t, pkg) {
			t.Errorf("%s is pure, but reads the clock: the time is an argument", use)
		}
	}
	for _, exception := range exceptions {
		if !used[exception.pkg+" "+exception.imports] {
			t.Errorf("the exception of %s for %s (%s) is not needed: remove it", exception.pkg, exception.imports, exception.why)
		}
	}
}

func TestEveryPackageHasADocFile(t *testing.T) {
	for _, pkg := range packages(t) {
		text, err := os.ReadFile(filepath.Join(pkg.Dir, "doc.go"))
		if err != nil {
			t.Errorf("%s has no doc.go: what does it own, what may it import, where on the line does it stand, what are its limits?", pkg.short())
			continue
		}
		want := "// Package " + pkg.Name + " "
		if pkg.Name == "main" {
			want = "// Command " + path.Base(pkg.ImportPath) + " "
		}
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("%s/doc.go has no comment that starts with %q", pkg.short(), want)
		}
	}
}

// TestRulesCatchWhatTheyForbid holds that the matching itself works, since a rule that
// matches nothing passes for ever.
func TestRulesCatchWhatTheyForbid(t *testing.T) {
	cases := map[string]struct {
		patterns []string
		path     string
		want     bool
	}{
		"a prefix holds what is below it":           {[]string{"pkg/..."}, "pkg/template", true},
		"a prefix holds its own root":               {[]string{"k8s.io/client-go/..."}, "k8s.io/client-go", true},
		"a prefix ends at a path segment":           {[]string{"pkg/haproxy/..."}, "pkg/haproxytest", false},
		"a path holds only itself":                  {[]string{"pkg/template"}, "pkg/template/funcs", false},
		"the standard library is not third-party":   {[]string{"third-party"}, "encoding/json", false},
		"the project is not third-party":            {[]string{"third-party"}, module + "rootfs", false},
		"a module with a dot in its first segment":  {[]string{"third-party"}, "k8s.io/api/core/v1", true},
		"an empty list of patterns matches nothing": {nil, "pkg/template", false},
	}
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		c := cases[name]
		t.Run(name, func(t *testing.T) {
			if got := matchesAny(c.patterns, c.path); got != c.want {
				t.Errorf("matchesAny(%q, %q) = %v", c.patterns, c.path, got)
			}
		})
	}
}

// placed says whether a package must have a row among the places.
func placed(pkg string) bool { return strings.HasPrefix(pkg, "pkg/") || pkg == "rootfs" }

// placeOf finds the row of a package; an exact one before one that ends in /*.
func placeOf(pkg string) (place, bool) {
	for _, row := range places {
		if row.pkg == pkg {
			return row, true
		}
	}
	for _, row := range places {
		if parent, isPattern := strings.CutSuffix(row.pkg, "/*"); isPattern && path.Dir(pkg) == parent {
			return row, true
		}
	}
	return place{}, false
}

func excepted(pkg, imported string) bool {
	for _, exception := range exceptions {
		if exception.pkg == pkg && exception.imports == imported {
			return true
		}
	}
	return false
}

// matchesAny says whether one of the patterns holds a path: the path itself, a prefix with
// "/..." behind it, or the word third-party.
func matchesAny(patterns []string, name string) bool {
	for _, pattern := range patterns {
		prefix, isPrefix := strings.CutSuffix(pattern, "/...")
		switch {
		case pattern == "third-party":
			first, _, _ := strings.Cut(name, "/")
			if strings.Contains(first, ".") && !strings.HasPrefix(name, module) {
				return true
			}
		case isPrefix:
			if name == prefix || strings.HasPrefix(name, prefix+"/") {
				return true
			}
		case pattern == name:
			return true
		}
	}
	return false
}

// clockUses lists the places in which a package calls a function of the clock.
func clockUses(t *testing.T, pkg source) []string {
	t.Helper()
	if !slices.Contains(pkg.Imports, "time") {
		return nil
	}
	var uses []string
	files := token.NewFileSet()
	for _, name := range pkg.GoFiles {
		file, err := parser.ParseFile(files, filepath.Join(pkg.Dir, name), nil, 0)
		if err != nil {
			t.Errorf("%s can't be parsed: %v", name, err)
			continue
		}
		ast.Inspect(file, func(node ast.Node) bool {
			selector, isSelector := node.(*ast.SelectorExpr)
			if !isSelector {
				return true
			}
			of, isName := selector.X.(*ast.Ident)
			if isName && of.Name == "time" && slices.Contains(clock, selector.Sel.Name) {
				at := files.Position(selector.Pos())
				uses = append(uses, fmt.Sprintf("%s/%s:%d (time.%s)", pkg.short(), name, at.Line, selector.Sel.Name))
			}
			return true
		})
	}
	return uses
}

// packages asks the go command for all packages of the module. Packages that do not
// compile are listed too: the compiler speaks about those.
func packages(t *testing.T) []source {
	t.Helper()
	touchSources(t)
	command := exec.Command("go", "list", "-e", "-json=ImportPath,Name,Dir,Imports,GoFiles", "./...")
	command.Dir = filepath.Join("..", "..")
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var all []source
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var pkg source
		if err := decoder.Decode(&pkg); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		all = append(all, pkg)
	}
}

// touchSources looks at each Go file of the module. The go command reuses the result of a
// test whose inputs are unchanged, and it can't see what a child process has read.
func touchSources(t *testing.T) {
	t.Helper()
	for _, top := range []string{"cmd", "pkg", "rootfs", "tests"} {
		err := filepath.WalkDir(filepath.Join("..", "..", top), func(name string, _ fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(name, ".go") {
				_, err = os.Stat(name)
			}
			if errors.Is(err, fs.ErrNotExist) {
				return nil // removed meanwhile, or not there yet
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
