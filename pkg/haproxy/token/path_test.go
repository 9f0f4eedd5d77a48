package token

import "testing"

func TestPath(t *testing.T) {
	cases := map[string]struct{ path, want string }{
		"an ordinary path stays":                                                        {"/foo/bar.html", "/foo/bar.html"},
		"escapes of unreserved characters are decoded":                                  {"/%61dmin/%7E", "/admin/~"},
		"escapes that say something else get upper case digits, the others are decoded": {"/a%2fb%3A", "/a%2Fb:"},
		"a broken escape stays":                                                         {"/a%2/%zz%", "/a%2/%zz%"},
		"double slashes are one":                                                        {"/a//b///", "/a/b/"},
		"dot segments are resolved":                                                     {"/a/./b/../c/..", "/a/"},
		"the root has no parent":                                                        {"/../..", "/"},
		"escaped dot segments are dot segments":                                         {"/a/%2e%2E/b", "/b"},
		"a name that begins with a dot stays":                                           {"/.well-known/x", "/.well-known/x"},
		"characters outside ASCII are escaped as clients do":                            {"/ä", "/%C3%A4"},
		"a quote is escaped as clients do":                                              {`/"`, "/%22"},
		"an escaped percent sign is not decoded another time":                           {"/%2561", "/%2561"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got, err := Path(c.path); err != nil || got != c.want {
				t.Errorf("%s becomes %s (%v), want %s", c.path, got, err, c.want)
			}
		})
	}
}

func TestRuleHost(t *testing.T) {
	cases := map[string]struct{ host, want string }{
		"no host is any host":          {"", AnyHost},
		"letters become lower case":    {"A.Example.com", "a.example.com"},
		"a wildcard stays":             {"*.example.com", "*.example.com"},
		"an address is none":           {"10.0.0.1", ""},
		"a wildcard elsewhere is none": {"a.*.com", ""},
		"an underscore is none":        {"a_b.com", ""},
		"a line break is none":         {"a.com\nb", ""},
		"a wildcard alone is none":     {"*", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got, err := RuleHost(c.host); got != c.want || (err != nil) != (c.want == "") {
				t.Errorf("%q becomes %q (%v), want %q", c.host, got, err, c.want)
			}
		})
	}
}
