package settings

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/options.md anew")

//go:generate go test -run TestOptionsPageIsFresh -update .

func TestOptionsPageIsFresh(t *testing.T) {
	page := filepath.Join("..", "..", "..", "docs", "options.md")
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
		t.Errorf("docs/options.md is stale, run \"go generate ./pkg/converters/settings\": %v", err)
	}
}

func TestEveryOptionIsDescribed(t *testing.T) {
	for _, o := range Options() {
		if o.Doc == "" || !strings.HasSuffix(o.Doc, ".") {
			t.Errorf("%s: Doc is %q, expected sentences", o.Name, o.Doc)
		}
		if o.Theirs != "" && o.Note == "" {
			t.Errorf("%s: its default differs from haproxy-ingress, and no Note says why", o.Name)
		}
		if o.Type == Enum && len(o.Values) == 0 || (o.Type == Int || o.Type == Size) && o.Max == 0 {
			t.Errorf("%s: its values have no bound", o.Name)
		}
	}
}

// haproxyIngress is the number of option names of haproxy-ingress 0.17, aliases included.
const haproxyIngress = 266

func TestEveryNameOfHAProxyIngressIsKnown(t *testing.T) {
	own := 0
	for _, o := range Options() {
		if o.Own {
			own++
		}
	}
	if got := len(index) - own + len(UnsupportedOptions()); got != haproxyIngress {
		t.Errorf("%d names are known, expected %d", got, haproxyIngress)
	}
}
