package socket

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCountersOf(t *testing.T) {
	const head = "# pxname,svname,qcur,econ,eresp,wretr,wredis,status,\n"
	got, err := countersOf("show stat", head+"a_80,BACKEND,0,1,2,3,4,UP,\nb_80,BACKEND,0,0,0,0,0,UP,\na_80,10.0.0.1:80,0,,0,7,0,UP,\n")
	want := []Counters{
		{Backend: "a_80", Retries: 3, Redispatches: 4, ConnectionErrors: 1, ResponseErrors: 2},
		{Backend: "a_80", Server: "10.0.0.1:80", Retries: 7},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	for _, bad := range []string{"", "Unknown command", "# pxname,svname,\na,b,\n", head + "a_80,BACKEND,0,1\n"} {
		if got, err := countersOf("show stat", bad); err == nil {
			t.Errorf("%q: %v and no error", bad, got)
		}
	}
}
