package resolve

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/settings"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// wrong is one way in which an option that protects can't be honoured.
type wrong struct {
	text    string // of the option
	others  raw    // options that stand beside it
	objects []any
}

// wrongs are the ways, by option.
func wrongs(t *testing.T) map[string]map[string]wrong {
	texts := func(list ...string) map[string]wrong {
		m := map[string]wrong{}
		for _, text := range list {
			m["the text "+text] = wrong{text: text}
		}
		return m
	}
	ssl := raw{"backend-protocol": "h1-ssl"}
	leaf := newTestPair(t, nil)
	references := func(others raw, content map[string]map[string]string) map[string]wrong {
		m := map[string]wrong{
			"a Secret that is missing":      {text: "s", others: others},
			"no name":                       {text: "", others: others},
			"a name that is none":           {text: "s s", others: others},
			"a file":                        {text: "file:///etc/passwd", others: others},
			"a control character":           {text: "s\n", others: others},
			"a Secret without data":         {text: "s", others: others, objects: []any{secret{"s", nil}}},
			"a Secret of another namespace": {text: "other/s", others: others, objects: []any{secret{"other/s", content["good"]}, secret{"s", content["good"]}}},
		}
		for name, data := range content {
			if name != "good" {
				m["a Secret with "+name] = wrong{text: "s", others: others, objects: []any{secret{"s", data}}}
			}
		}
		return m
	}
	lists := texts("", " ", ",", "junk", "10.0.0.0/8,junk", "10.0.0.0/33", "!10.0.0.1", "10.0.0.1\x00", "10.0.0.0/8\u2028", "\xff")
	return map[string]map[string]wrong{
		optionAllow: lists,
		optionDeny:  lists,
		optionUsers: references(nil, map[string]map[string]string{
			"good":                        {"auth": "u:" + goodHash},
			"another key":                 {"htpasswd": "u:" + goodHash},
			"an empty list":               {"auth": ""},
			"only blanks and remarks":     {"auth": " \n# u:x\n"},
			"a line that is none":         {"auth": "user"},
			"an empty password":           {"auth": "u:\nv::"},
			"unknown hashes":              {"auth": "u:$apr1$abcdefgh$G8UxgLVWdyk/OFY.cNbdA/\nv:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\nw:secret"},
			"one hash of too many rounds": {"auth": "u:" + goodHash + "\nv:" + strings.Replace(goodHash, "$6$", "$6$rounds=30000000$", 1)},
			"bytes that are no text":      {"auth": "\xff\xfe:x"},
		}),
		optionAuthority: references(ssl, map[string]map[string]string{
			"good":                        {"ca.crt": leaf.certificate},
			"another key":                 {"tls.crt": leaf.certificate},
			"an empty list":               {"ca.crt": ""},
			"junk":                        {"ca.crt": "junk"},
			"a key in place of authority": {"ca.crt": leaf.key},
			"a certificate cut short":     {"ca.crt": leaf.certificate[:len(leaf.certificate)-40]},
			"one good and one bad":        {"ca.crt": leaf.certificate + leaf.certificate[:200]},
		}),
		optionClient: references(ssl, map[string]map[string]string{
			"good":            {"tls.crt": leaf.certificate, "tls.key": leaf.key},
			"no key":          {"tls.crt": leaf.certificate},
			"no certificate":  {"tls.key": leaf.key},
			"junk":            {"tls.crt": "junk", "tls.key": "junk"},
			"another's key":   {"tls.crt": leaf.certificate, "tls.key": newTestPair(t, nil).key},
			"a key cut short": {"tls.crt": leaf.certificate, "tls.key": leaf.key[:80]},
		}),
		"auth-url":         texts("http://auth.example.com/"),
		"auth-tls-secret":  texts("ca"),
		"backend-protocol": texts("", "h1ssl", "fcgi", "h2-ssl\n", "https"),
		"secure-backends":  texts("", "yes", "TRUE "),
		"secure-sni":       {"blanks": {text: "a b", others: ssl}, "an expression": {text: "var(txn.x)", others: ssl}, "no text": {text: "", others: ssl}},
		"maxconn-server":   texts("", "ten", "-1", "99999999999999999999"),
		"maxqueue-server":  texts("", "ten", "-1", "1.5"),
		"proxy-body-size":  texts("", "1x", "-1", "0", "99999999999999999999g"),
		optionHostname: {
			"a name that is none":               {text: "a b", others: raw{"backend-protocol": "h1-ssl", optionAuthority: "s"}, objects: []any{secret{"s", map[string]string{"ca.crt": leaf.certificate}}}},
			"no authority":                      {text: "a.example", others: ssl},
			"no TLS":                            {text: "a.example"},
			"another name that is sent":         {text: "a.example", others: raw{"backend-protocol": "h1-ssl", optionAuthority: "s", "secure-sni": "b.example"}, objects: []any{secret{"s", map[string]string{"ca.crt": leaf.certificate}}}},
			"the name of the host that is sent": {text: "a.example", others: raw{"backend-protocol": "h1-ssl", optionAuthority: "s", "secure-sni": "host"}, objects: []any{secret{"s", map[string]string{"ca.crt": leaf.certificate}}}},
		},
	}
}

// denies checks that nobody gets through, and that somebody is told why.
func denies(t *testing.T, f BackendFragment, option string) {
	t.Helper()
	want := model.Shape{Deny: 503}
	if f.Backend.Profile.Shape.Digest() != want.Digest() {
		t.Errorf("not denied: %+v", f.Backend.Profile.Shape)
	}
	if len(f.Backend.Servers) != 0 || f.Backend.Options != (model.ServerOptions{}) || len(f.Backend.Values) != 0 {
		t.Errorf("a denied backend has servers, options or values: %+v", f.Backend)
	}
	if !slices.ContainsFunc(f.Findings, func(f report.Finding) bool {
		return f.Code == report.ProtectionDenied && strings.HasSuffix(f.Object.Field, option) && strings.Contains(f.Message, option)
	}) {
		t.Errorf("no finding ProtectionDenied that names %s: %v", option, f.Findings)
	}
}

// TestEveryProtectionFailsClosed walks every option that protects, every way of getting it
// wrong, and every place where it may stand.
func TestEveryProtectionFailsClosed(t *testing.T) {
	all := wrongs(t)
	for _, option := range settings.Options() {
		if _, covered := all[option.Name]; option.FailClosed && option.Safe == "" && !covered {
			t.Errorf("%s protects and is missing in this test", option.Name)
		}
	}
	for option, ways := range all {
		for way, w := range ways {
			t.Run(option+": "+way, func(t *testing.T) {
				options := raw{option: w.text}
				for name, text := range w.others {
					options[name] = text
				}
				denies(t, ask{ingress: options, objects: w.objects}.resolve(t), option)
				if o, known := settings.Lookup(option); known && o.OnService {
					denies(t, ask{service: options, objects: w.objects}.resolve(t), option)
					// A good value below does not make up for it.
					if o.Type == settings.CIDRs {
						denies(t, ask{ingress: raw{option: "192.0.2.1"}, service: options}.resolve(t), option)
					}
				}
			})
		}
	}
}

func TestTextsThatCantBeReadInTheConfigMapDenyEverybody(t *testing.T) {
	for option, ways := range wrongs(t) {
		for way, w := range ways {
			if o, known := settings.Lookup(option); !known || len(w.objects) > 0 || w.others != nil || o.Type == settings.SecretRef || option == optionHostname {
				continue
			}
			t.Run(option+": "+way, func(t *testing.T) {
				options := raw{option: w.text}
				if f := (ask{global: options}).resolve(t); f.Backend.Profile.Shape.Deny != 503 {
					t.Errorf("not denied: %+v", f.Backend.Profile)
				}
				if g := globals(t, options); len(g.Findings) == 0 {
					t.Error("no finding")
				}
			})
		}
	}
}

func TestPartlyMalformedUsers(t *testing.T) {
	text := "bad\nempty:\nplain-empty::\nu:" + goodHash + "\nu:" + goodHash + "\napr:$apr1$abcdefgh$G8UxgLVWdyk/OFY.cNbdA/\n:nobody\n"
	f := ask{ingress: raw{"auth-secret": "s"}, objects: []any{secret{"s", raw{"auth": text}}}}.resolve(t)
	auth := f.Backend.Profile.Shape.BasicAuth
	if auth == nil || len(auth.Users.Users) != 1 || auth.Users.Users[0].Name != "u" {
		t.Fatalf("users %+v", auth)
	}
	if c := codes(f.Findings); c != "PasswordHashRefused PasswordHashRefused PasswordHashRefused PasswordHashRefused SecretInvalid SecretInvalid" {
		t.Errorf("findings %s: %v", c, f.Findings)
	}
	for _, finding := range f.Findings {
		if strings.Contains(finding.String(), "abcdefgh") || strings.Contains(finding.String(), "apr") {
			t.Errorf("a finding tells a line of the Secret: %s", finding)
		}
	}
}

func TestSecretsOfOtherNamespaces(t *testing.T) {
	users := secret{"other/s", raw{"auth": "u:" + goodHash}}
	a := ask{ingress: raw{"auth-secret": "other/s"}, objects: []any{users}}
	f := a.resolve(t)
	denies(t, f, "auth-secret")
	if c := codes(f.Findings); c != "CrossNamespace ProtectionDenied" {
		t.Errorf("findings %s", c)
	}
	a.anyNamespace = true
	if f := a.resolve(t); f.Backend.Profile.Shape.BasicAuth == nil {
		t.Errorf("refused although it is allowed: %v", f.Findings)
	}
	a = ask{global: raw{"auth-secret": "other/s"}, objects: []any{users}}
	if f := a.resolve(t); f.Backend.Profile.Shape.BasicAuth == nil {
		t.Errorf("the administrator's reference is refused: %v", f.Findings)
	}
}

func TestVerifiedServers(t *testing.T) {
	leaf := newTestPair(t, nil)
	authority := secret{"ca", map[string]string{"ca.crt": "# remark\n" + leaf.certificate, "tls.key": leaf.key}}
	client := secret{"client", map[string]string{"tls.crt": leaf.certificate, "tls.key": leaf.key}}
	f := ask{
		ingress: raw{"backend-protocol": "h2-ssl", "secure-verify-ca-secret": "ca", "secure-crt-secret": "client", "secure-verify-hostname": "pod.example"},
		objects: []any{authority, client},
	}.resolve(t)
	if len(f.Findings) > 0 || len(f.CAFiles) != 1 || len(f.Certificates) != 1 {
		t.Fatalf("%+v", f)
	}
	want := model.ServerOptions{SSL: true, Verify: true, CAFile: f.CAFiles[0].Name, CertFile: f.Certificates[0].Name,
		VerifyHost: "pod.example", ALPN: "h2", SNI: noSNI}
	if f.Backend.Options != want {
		t.Errorf("options %+v", f.Backend.Options)
	}
	if text := f.CAFiles[0].PEM.Reveal(); text != leaf.certificate {
		t.Errorf("the file of authorities is\n%s", text)
	}
}

func TestOptionsOfTLSWithoutTLS(t *testing.T) {
	f := ask{ingress: raw{"secure-sni": "host"}}.resolve(t)
	if codes(f.Findings) != "OptionScope" || f.Backend.Options != (model.ServerOptions{}) {
		t.Errorf("%v %+v", f.Findings, f.Backend.Options)
	}
	f = ask{ingress: raw{"secure-verify-ca-secret": "ca"}}.resolve(t)
	denies(t, f, "secure-verify-ca-secret")
	if f := (ask{global: raw{"secure-verify-ca-secret": "ca"}}).resolve(t); f.Backend.Profile.Shape.Deny != 0 {
		t.Errorf("a global default for servers with TLS denies one without: %v", f.Findings)
	}
}
