package writer

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/status"
)

const wholeFile = `objects:
- apiVersion: networking.k8s.io/v1
  findings:
  - code: ObjectInvalid
    field: spec.rules[0]
    message: no paths
    severity: error
  kind: Ingress
  name: x
  namespace: a
  status:
    loadBalancer:
      ingress:
      - ip: 192.0.2.1
- apiVersion: networking.k8s.io/v1
  kind: Ingress
  name: "y"
  namespace: a
  status:
    loadBalancer: {}
`

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "status.yaml")
	var wrote []string
	// written is the file after a writer took the steps and ended.
	written := func(steps func(*File)) string {
		f := NewFile(path, slog.New(slog.DiscardHandler), Metrics{Wrote: func(kind, result string) { wrote = append(wrote, kind+" "+result) }})
		steps(f)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := f.Run(ctx); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	whole := func(f *File) {
		f.Post([]status.Item{item("y", "", "192.0.2.1"), item("x", "192.0.2.1", "")})
		f.Notice([]status.Notice{notice(report.ObjectInvalid, "x", "no paths"), notice(report.ObjectInvalid, "gone", "no paths")})
		f.Notice([]status.Notice{notice(report.ObjectInvalid, "x", "no paths")})
	}
	if diff := cmp.Diff(wholeFile, written(whole)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	written(whole)
	if diff := cmp.Diff([]string{"File ok"}, wrote); diff != "" {
		t.Errorf("the same file is not written again (-want +got)\n%s", diff)
	}
	empty := func(f *File) {
		whole(f)
		f.Post([]status.Item{{Object: keyOf("x")}, {Object: keyOf("y")}})
		f.Notice(nil)
	}
	if got := written(empty); got != "objects: []\n" {
		t.Errorf("nothing is left, but the file is\n%s", got)
	}
}
