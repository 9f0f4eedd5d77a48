package gateway

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write docs/gateway-api.md anew")

//go:generate go test -run TestGatewayPageIsFresh -update .

func TestGatewayPageIsFresh(t *testing.T) {
	page := filepath.Join("..", "..", "..", "docs", "gateway-api.md")
	if *update {
		if err := os.WriteFile(page, []byte(Markdown()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(page)
	if err != nil || string(have) != Markdown() {
		t.Errorf("docs/gateway-api.md is stale, run \"go generate ./pkg/converters/gateway\": %v", err)
	}
}
