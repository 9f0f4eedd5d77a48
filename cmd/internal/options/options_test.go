package options

import (
	"flag"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

//go:generate go test -run TestFlagsPageIsFresh -update .

var update = flag.Bool("update", false, "write docs/flags.md anew")

func TestFlagsPageIsFresh(t *testing.T) {
	const page = "../../../docs/flags.md"
	if *update {
		if err := os.WriteFile(page, []byte(Markdown()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(page)
	if err != nil || string(text) != Markdown() {
		t.Errorf("docs/flags.md is stale: run make generate (%v)", err)
	}
}

func TestTableIsSorted(t *testing.T) {
	if !slices.IsSortedFunc(table, func(a, b row) int { return strings.Compare(a.name, b.name) }) {
		t.Error("the table of flags is not sorted by name")
	}
}

func TestValidate(t *testing.T) {
	cases := map[string]struct {
		args []string
		want string // part of the error; empty: none
	}{
		"the defaults are valid":                    {nil, ""},
		"a name needs a namespace":                  {[]string{"--configmap=sluice"}, "write namespace/name"},
		"a name has one slash":                      {[]string{"--default-ssl-certificate=a/b/c"}, "write namespace/name"},
		"an address needs a port":                   {[]string{"--http-address=127.0.0.1"}, "write ADDRESS:PORT"},
		"a name is no address":                      {[]string{"--http-address=web.example:80"}, "write ADDRESS:PORT"},
		"a port is a number":                        {[]string{"--http-address=*:http"}, "write ADDRESS:PORT"},
		"a port is not 0":                           {[]string{"--http-address=*:0"}, "write ADDRESS:PORT"},
		"all addresses are fine":                    {[]string{"--http-address=*:80,[::]:80"}, ""},
		"a folder that HAProxy can't have a socket": {[]string{"--run-dir=/a,b"}, "name another folder"},
		"an IPv6 address is fine":                   {[]string{"--https-address=[::1]:443"}, ""},
		"there are at most 1024 shards":             {[]string{"--backend-shards=1025"}, "from 1 to 1024"},
		"a source is manifests or a cluster":        {[]string{"--source=a", "--kubeconfig=b"}, "exclude each other"},
		"manifests are not watched by namespace":    {[]string{"--source=a", "--watch-namespace=b"}, "leave it out"},
		"namespaces are names":                      {[]string{"--watch-namespace=a/b"}, "name of a namespace"},
		"no interval is negative":                   {[]string{"--reload-interval=-1s"}, "or 0 for no bound"},
		"namespaces are a list":                     {[]string{"--watch-namespace=a,b", "--watch-namespace=c"}, ""},
		"memory is a quantity":                      {[]string{"--haproxy-memory-limit=much"}, "such as 512Mi"},
		"memory is enough to start":                 {[]string{"--haproxy-memory-limit=48Mi"}, "needs 32 at least"},
		"memory is for an HAProxy of sluice's":      {[]string{"--haproxy-memory-limit=1Gi", "--master-socket=/m"}, "start HAProxy with -m"},
		"a health address has a port":               {[]string{"--health-address=1.2.3.4"}, "--health-address=1.2.3.4: write ADDRESS:PORT"},
		"addresses of Ingresses are IPs and names":  {[]string{"--publish-address=192.0.2.1,2001:db8::1", "--publish-address=lb.example"}, ""},
		"an address of Ingresses has no port":       {[]string{"--publish-address=192.0.2.1:80"}, "write an IP address or a host name"},
		"a Service with addresses has a namespace":  {[]string{"--publish-service=lb"}, "write namespace/name"},
		"addresses come from one place":             {[]string{"--publish-service=a/lb", "--publish-address=192.0.2.1"}, "give one of them"},
		"a UDP listener has a session":              {[]string{"--udp-sessions=0"}, "--udp-sessions=0: write a number"},
		"sessions of clients end":                   {[]string{"--udp-idle-timeout=0"}, "write a time from 1s"},
		"a log format that does not exist is named": {[]string{"--log-format=xml"}, "text, json"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := &Options{}
			flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
			o.Bind(flags, Run)
			if err := flags.Parse(c.args); err != nil {
				t.Fatal(err)
			}
			err := o.Validate()
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func TestProcessMemory(t *testing.T) {
	const mi = 1 << 20
	cases := map[string]struct {
		limit     string
		own, want int64
	}{
		"no limit":                                  {"", 100 * mi, 0},
		"two workers share it":                      {"1Gi", math.MaxInt64, 512 * mi},
		"bytes, as the downward API writes them":    {"1073741824", math.MaxInt64, 512 * mi},
		"what the controller may use is its own":    {"1Gi", 256 * mi, 384 * mi},
		"a controller that may use all has no part": {"1Gi", 1024 * mi, 512 * mi},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := (&Options{HAProxyMemoryLimit: c.limit}).ProcessMemory(c.own)
			if err != nil || got != c.want {
				t.Errorf("%d, %v; want %d", got, err, c.want)
			}
		})
	}
	if _, err := (&Options{HAProxyMemoryLimit: "256Mi"}).ProcessMemory(200 * mi); err == nil {
		t.Error("28 MiB are enough for each process")
	}
}

func TestFoldersBecomeAbsolute(t *testing.T) {
	t.Chdir(t.TempDir())
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	o := &Options{ConfigDir: "c", StateDir: "./s/", RunDir: "a b/../r"}
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	if o.ConfigDir != here+"/c" || o.StateDir != here+"/s" || o.RunDir != here+"/r" {
		t.Errorf("%s %s %s", o.ConfigDir, o.StateDir, o.RunDir)
	}
}
