package files

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	"pgregory.net/rapid"
)

// unpack writes the files of a txtar archive; "x -> y" is a symbolic link.
func unpack(t *testing.T, archive string) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range txtar.Parse([]byte(archive)).Files {
		link, target, isLink := strings.Cut(f.Name, " -> ")
		path := filepath.Join(dir, link)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		if isLink {
			must(t, os.Symlink(target, path))
			continue
		}
		must(t, os.WriteFile(path, f.Data, 0o644))
	}
	return dir
}

func must(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// doc is the text of a Service of the given name in an archive.
const (
	docA = "apiVersion: v1\nkind: Service\nmetadata: {name: a}\n"
	docB = "apiVersion: v1\nkind: Service\nmetadata: {name: b}\n"
)

func TestRead(t *testing.T) {
	cases := map[string]struct {
		archive string
		paths   []string // below the folder; "" is the folder, "-" standard input
		stdin   string
		want    string // changes and findings, the folder left out
	}{
		"folders are read with their sub-folders, hidden names and other files are not": {
			archive: "-- z/b.yml --\n" + docB + "-- a.yaml --\n" + docA + "-- .hidden.yaml --\n(\n-- .git/x.yaml --\n(\n-- README.md --\n(\n-- a.yaml~ --\n(\n",
			paths:   []string{""},
			want:    "/a.yaml:1 Service/default/a\n/z/b.yml:1 Service/default/b\n",
		},
		"a mounted ConfigMap is read through its links, once": {
			archive: "-- ..2026_1/a.yaml --\n" + docA + "-- ..data -> ..2026_1 --\n-- a.yaml -> ..data/a.yaml --\n",
			paths:   []string{""},
			want:    "/a.yaml:1 Service/default/a\n",
		},
		"links to folders are followed, but not in circles": {
			archive: "-- src/a.yaml --\n" + docA + "-- src/round -> .. --\n-- src/self -> . --\n-- link -> src --\n",
			paths:   []string{"link"},
			want: "/link/a.yaml:1 Service/default/a\n" +
				"/link/round/link:1: error: File//link/round/link: the link leads back to a folder around it; remove it [ManifestUnreadable]\n" +
				"/link/round/src:1: error: File//link/round/src: the link leads back to a folder around it; remove it [ManifestUnreadable]\n" +
				"/link/self:1: error: File//link/self: the link leads back to a folder around it; remove it [ManifestUnreadable]\n",
		},
		"a named file is read whatever it is called": {
			archive: "-- x.conf --\n" + docA,
			paths:   []string{"x.conf"},
			want:    "/x.conf:1 Service/default/a\n",
		},
		"standard input is one of the paths": {
			archive: "-- b.yaml --\n" + docB,
			paths:   []string{"-", "b.yaml"},
			stdin:   docA + "---\n" + docB,
			want: "stdin:1 Service/default/a\nstdin:5 Service/default/b\n" +
				"/b.yaml:1: error: Service/default/b: given twice: stdin:5 is used because it comes first, /b.yaml:1 is not; remove one of them [ObjectInvalid]\n",
		},
		"paths that lead to the same file are read once": {
			archive: "-- d/a.yaml --\n" + docA,
			paths:   []string{"", "d", "d/a.yaml", "d/../d"},
			want:    "/d/a.yaml:1 Service/default/a\n",
		},
		"of two files with one object the first in order wins": {
			archive: "-- 1/z.yaml --\n" + docA + "-- 2/a.yaml --\n---\n" + docA + "---\n" + docA,
			paths:   []string{""},
			want: "/1/z.yaml:1 Service/default/a\n" +
				"/2/a.yaml:2: error: Service/default/a: given twice: /1/z.yaml:1 is used because it comes first, /2/a.yaml:2 is not; remove one of them [ObjectInvalid]\n" +
				"/2/a.yaml:6: error: Service/default/a: given twice: /1/z.yaml:1 is used because it comes first, /2/a.yaml:6 is not; remove one of them [ObjectInvalid]\n",
		},
		"a file that does not parse costs itself": {
			archive: "-- a.yaml --\n" + docA + "-- b.yaml --\n" + docB + "---\n- [\n",
			paths:   []string{""},
			want: "/a.yaml:1 Service/default/a\n" +
				"/b.yaml:5: error: File//b.yaml: did not find expected node content; nothing of the file is used [ManifestUnreadable]\n",
		},
		"a link that leads nowhere costs itself": {
			archive: "-- a.yaml --\n" + docA + "-- b.yaml -> nowhere --\n",
			paths:   []string{""},
			want: "/a.yaml:1 Service/default/a\n" +
				"/b.yaml:1: error: File//b.yaml: the link leads nowhere: no such file or directory [ManifestUnreadable]\n",
		},
	}
	for sentence, c := range cases {
		t.Run(sentence, func(t *testing.T) {
			dir := unpack(t, c.archive)
			got, err := Read(within(dir, c.paths), strings.NewReader(c.stdin))
			must(t, err)
			if diff := cmp.Diff(c.want, strings.ReplaceAll(contentText(got), dir, "")); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func within(dir string, names []string) []string {
	var paths []string
	for _, name := range names {
		if name != Stdin {
			name = filepath.Join(dir, name)
		}
		paths = append(paths, name)
	}
	return paths
}

func contentText(c *Content) string {
	var b strings.Builder
	for _, change := range c.Changes {
		fmt.Fprintf(&b, "%s:%d %s\n", change.Position.File, change.Position.Line, change.Key)
	}
	for _, finding := range c.Findings {
		fmt.Fprintln(&b, finding)
	}
	return b.String()
}

func TestReadRefusesPathsWithoutManifests(t *testing.T) {
	cases := map[string]struct {
		paths []string
		want  string
	}{
		"no path at all":            {nil, "name a folder"},
		"a missing folder":          {[]string{"missing"}, "there is no such file or folder"},
		"a folder of other files":   {[]string{"other"}, "holds no *.yaml"},
		"nothing on standard input": {[]string{"-"}, "standard input is empty"},
	}
	dir := unpack(t, "-- other/README.md --\n-- other/.x.yaml --\n")
	for sentence, c := range cases {
		t.Run(sentence, func(t *testing.T) {
			_, err := Read(within(dir, c.paths), strings.NewReader(""))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestReadTakesPipes(t *testing.T) {
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	go func() {
		_, _ = w.WriteString(docA)
		_ = w.Close()
	}()
	got, err := Read([]string{fmt.Sprintf("/dev/fd/%d", r.Fd())}, nil)
	must(t, err)
	if len(got.Changes) != 1 {
		t.Errorf("got %s", contentText(got))
	}
}

func TestReadBoundsTheSizeOfFiles(t *testing.T) {
	dir := unpack(t, "-- a.yaml --\n"+docA+"-- big.yaml --\n")
	must(t, os.Truncate(filepath.Join(dir, "big.yaml"), maxSize+1)) // sparse
	got, err := Read([]string{dir}, nil)
	must(t, err)
	want := "/a.yaml:1 Service/default/a\n/big.yaml:1: error: File//big.yaml: can't be read: larger than 64 MB; split it into several files; nothing of the file is used [ManifestUnreadable]\n"
	if diff := cmp.Diff(want, strings.ReplaceAll(contentText(got), dir, "")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
