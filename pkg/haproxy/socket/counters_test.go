package socket

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const statHead = "# pxname,svname,qcur,econ,eresp,wretr,wredis,status,\n"

func TestCounters(t *testing.T) {
	const answer = statHead + "a_80,BACKEND,0,1,2,3,4,UP,\nb_80,BACKEND,0,0,0,0,0,UP,\na_80,10.0.0.1:80,0,,0,7,0,UP,\n"
	f := newFake(t, func(command) (string, error) { return answer, nil })
	got, err := NewRuntime(f.path, Options{}).ServerCounters(t.Context(), "a_80")
	want := []Counters{
		{Backend: "a_80", Retries: 3, Redispatches: 4, ConnectionErrors: 1, ResponseErrors: 2},
		{Backend: "a_80", Server: "10.0.0.1:80", Retries: 7},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
}

func TestCountersThatMakeNoSense(t *testing.T) {
	for _, bad := range []string{"", "Unknown command", "# pxname,svname,\na,b,\n", statHead + "a_80,BACKEND,0,1\n"} {
		f := newFake(t, func(command) (string, error) { return bad, nil })
		got, err := NewRuntime(f.path, Options{}).BackendCounters(t.Context())
		var unexpected *UnexpectedAnswer
		if !errors.As(err, &unexpected) {
			t.Errorf("%q: %v, %v", bad, got, err)
		}
	}
	f := newFake(t, func(command) (string, error) { return "", errClose })
	if got, err := NewRuntime(f.path, Options{}).BackendCounters(t.Context()); err == nil {
		t.Errorf("HAProxy went away: %v and no error", got)
	}
}

// What a look at many backends costs is this.
func BenchmarkBackendCounters(b *testing.B) {
	var answer strings.Builder
	answer.WriteString(statHead)
	for i := range 5000 {
		fmt.Fprintf(&answer, "tenant-%d_web-%d_80,BACKEND,0,0,0,0,0,UP,%s\n", i, i, strings.Repeat("0,", 100))
	}
	b.ReportAllocs()
	for b.Loop() {
		table := counterTable{command: "show stat"}
		for line := range strings.Lines(answer.String()) {
			if err := table.read([]byte(strings.TrimSuffix(line, "\n"))); err != nil {
				b.Fatal(err)
			}
		}
	}
}
