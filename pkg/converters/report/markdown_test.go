package report

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/findings.md anew")

//go:generate go test -run TestFindingsPageIsFresh -update .

func TestFindingsPageIsFresh(t *testing.T) {
	page := filepath.Join("..", "..", "..", "docs", "findings.md")
	if *update {
		if err := os.MkdirAll(filepath.Dir(page), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(page, []byte(Markdown()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(page)
	if err != nil || string(have) != Markdown() {
		t.Errorf("docs/findings.md is stale, run \"go generate ./pkg/converters/report\": %v", err)
	}
}

func TestEveryCodeIsDescribed(t *testing.T) {
	for code, e := range Catalogue {
		if e.Title == "" || strings.HasSuffix(e.Title, ".") || !strings.HasSuffix(e.Text, ".") {
			t.Errorf("%s: Title is %q and Text %q, expected a few words and sentences", code, e.Title, e.Text)
		}
	}
}
