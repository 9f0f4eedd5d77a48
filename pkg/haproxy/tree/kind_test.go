package tree

import "testing"

func TestKindOf(t *testing.T) {
	for sentence, c := range map[string]struct {
		path   string
		want   Kind
		secret bool
	}{
		"a shard file":                        {"conf.d/50-backends-007.cfg", Shard, false},
		"a certificate is a secret":           {"certs/1.pem", Cert, true},
		"password hashes are a secret":        {"conf.d/15-userlists.cfg", Userlists, true},
		"the number of the batch is no table": {GenerationPath, Generation, false},
		"a table":                             {"maps/hosts.map", Map, false},
		"a file of somebody else":             {"conf.d/99.cfg", Foreign, false},
		"a file in a folder below":            {"certs/a/1.pem", Foreign, false},
		"a hidden file":                       {"certs/.1.pem", Foreign, false},
	} {
		if kind := KindOf(c.path); kind != c.want || kind.Secret() != c.secret {
			t.Errorf("%s: %s is %s, secret %v", sentence, c.path, kind, kind.Secret())
		}
	}
}
