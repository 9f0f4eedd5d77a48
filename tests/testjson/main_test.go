package main

import (
	"strings"
	"testing"
)

func TestCountsAndShows(t *testing.T) {
	cases := map[string]struct {
		in    []string
		want  result
		shown string
	}{
		"a passing test is counted and its output left out": {
			in: []string{
				`{"Action":"output","Package":"p","Test":"TestA","Output":"--- PASS: TestA\n"}`,
				`{"Action":"pass","Package":"p","Test":"TestA"}`,
				`{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}`,
				`{"Action":"pass","Package":"p"}`,
			},
			want:  result{passed: 1},
			shown: "ok  \tp\t0.1s\n",
		},
		"a failed subtest is shown, and counted with its parent": {
			in: []string{
				`{"Action":"output","Package":"p","Test":"TestA/x","Output":"wrong\n"}`,
				`{"Action":"fail","Package":"p","Test":"TestA/x"}`,
				`{"Action":"fail","Package":"p","Test":"TestA"}`,
				`{"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}`,
				`{"Action":"fail","Package":"p"}`,
			},
			want:  result{failed: 2},
			shown: "wrong\nFAIL\tp\t0.1s\n",
		},
		"a package that does not compile is one failed test": {
			in: []string{
				`{"ImportPath":"p [p.test]","Action":"build-output","Output":"p.go:1: bad\n"}`,
				`{"ImportPath":"p [p.test]","Action":"build-fail"}`,
				`{"Action":"output","Package":"p","Output":"FAIL\tp [build failed]\n"}`,
				`{"Action":"fail","Package":"p","FailedBuild":"p [p.test]"}`,
			},
			want:  result{failed: 1},
			shown: "p.go:1: bad\nFAIL\tp [build failed]\n",
		},
		"a line that is not of the stream is shown as it is": {
			in:    []string{"go: no such tool"},
			shown: "go: no such tool\n",
		},
		"a skipped test is neither passed nor failed": {
			in:   []string{`{"Action":"skip","Package":"p","Test":"TestA"}`},
			want: result{skipped: 1},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			got, err := show(strings.NewReader(strings.Join(c.in, "\n")+"\n"), &out)
			if err != nil || got != c.want {
				t.Errorf("got %+v, %v; want %+v", got, err, c.want)
			}
			if out.String() != c.shown {
				t.Errorf("shown: %q\nwant:  %q", out.String(), c.shown)
			}
		})
	}
}

func TestNothingRanIsAnError(t *testing.T) {
	if err := run(strings.NewReader(""), &strings.Builder{}, "", ""); err == nil {
		t.Error("a run without tests passed")
	}
}
