package resolve

import (
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
)

// Hashes of the password "secret", made by crypt(3) of libxcrypt.
var (
	acceptedHashes = map[string]string{
		"md5":             "$1$abcdefgh$cHJi5PXp/ki/ktXzqlk6I1",
		"bcrypt a":        "$2a$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a",
		"bcrypt b":        "$2b$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a",
		"bcrypt y":        "$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a",
		"sha256":          "$5$abcdefgh$gruCpC7VkOTspMQTTSAR8mtlO9Upms.fwqE5y16JVM.",
		"sha256, rounds":  "$5$rounds=1000$abc$Mz4DiYKTnNKbZLo/mIp3d8Y4aQBhv3uhSwxLDy55/Y8",
		"sha512":          goodHash,
		"sha512, rounds":  "$6$rounds=10000$abcdefgh$dtkgtX8ow6kub/Iulo6m6YRiWBlfmJEeDmTXbQPwlPu6qBjkZV2Ix8CeH0sE3NMp3Sq63bHshmKLBUGe7mWYy/",
		"sha512, no salt": "$6$$2M9DchxW4txWyTYoZrH9D3VvAAQxBpEezYsLY6Cao.jwzEXpyL9xwip9hiUZX7GqTqe/E/z6iKvZqXUuqniQH.",
	}
	refusedHashes = map[string]string{
		"nothing":                    "",
		"a plain password":           "secret",
		"des":                        "abNANd1rDfiNc",
		"apache's md5":               "$apr1$abcdefgh$G8UxgLVWdyk/OFY.cNbdA/",
		"sha1":                       "{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=",
		"yescrypt":                   "$y$j9T$abcdefgh$IUWJt2doU4Kf6E/JP1UkAT3S5O3Q7SSA8SJirXIlEu9",
		"bcrypt of a broken version": "$2x$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a",
		"bcrypt of cost 3":           "$2y$03$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a",
		"bcrypt with a sign":         "$2y$+5$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a",
		"bcrypt cut short":           "$2y$05$abcdefghijklmnopqrstuu",
		"sha512 cut short":           goodHash[:len(goodHash)-1],
		"sha512 and more":            goodHash + "x",
		"sha512 with a colon":        goodHash[:len(goodHash)-1] + ":",
		"a salt that is too long":    "$6$" + strings.Repeat("a", 17) + goodHash[11:],
		"a salt with a blank":        "$6$abc efgh" + goodHash[11:],
		"999 rounds":                 strings.Replace(goodHash, "$6$", "$6$rounds=999$", 1),
		"rounds with a zero":         strings.Replace(goodHash, "$6$", "$6$rounds=05000$", 1),
		"rounds without a number":    strings.Replace(goodHash, "$6$", "$6$rounds=$", 1),
		"rounds with a sign":         strings.Replace(goodHash, "$6$", "$6$rounds=-1$", 1),
		"rounds and nothing":         "$6$rounds=5000",
	}
	costlyHashes = map[string]string{
		"10001 rounds":               strings.Replace(goodHash, "$6$", "$6$rounds=10001$", 1),
		"30 000 000 rounds":          strings.Replace(goodHash, "$6$", "$6$rounds=30000000$", 1),
		"more rounds than any int":   strings.Replace(goodHash, "$6$", "$6$rounds=99999999999999999999$", 1),
		"many rounds, and malformed": "$6$rounds=30000000$x",
		"bcrypt of cost 6":           "$2y$06$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a",
		"bcrypt of cost 31":          "$2y$31$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a",
	}
)

func TestCheckHash(t *testing.T) {
	for name, hash := range acceptedHashes {
		if cost, r := checkHash(hash); r.code != "" || cost <= 0 || cost > hashBudget/10 {
			t.Errorf("%s: refused or without cost: %s, %d ns", name, r.why, cost)
		}
	}
	for name, hash := range refusedHashes {
		if _, r := checkHash(hash); r.code != report.PasswordHashRefused || r.costly {
			t.Errorf("%s: %+v", name, r)
		}
	}
	for name, hash := range costlyHashes {
		if _, r := checkHash(hash); r.code != report.PasswordHashRefused || !r.costly {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestUsersAreBounded(t *testing.T) {
	list := func(line string, n int) userlist {
		var text strings.Builder
		for i := range n {
			text.WriteString(strings.ReplaceAll(line, "#", strings.Repeat("x", i+1)) + "\n")
		}
		return usersOf(view(t, secret{"s", raw{"auth": text.String()}}), secretKey("s"))
	}
	bcrypt := "#:$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a"
	if u := list(bcrypt, 5); u.list == nil {
		t.Errorf("five users: %v", u.findings)
	}
	if u := list(bcrypt, 200); u.list != nil || codes(u.findings) != "PasswordHashRefused" {
		t.Errorf("200 users of 3 ms each: %v", u.findings)
	}
	if u := list("#::p", 200); u.list == nil {
		t.Errorf("200 users: %v", u.findings)
	}
	names := usersOf(view(t, secret{"s", raw{"auth": strings.Repeat("x", maxName+1) + "::p"}}), secretKey("s"))
	if names.list != nil {
		t.Error("a name that is too long")
	}
	if a, b := list("#::p", 2), list("#::q", 2); a.list.Name == b.list.Name {
		t.Error("two lists have one name")
	}
}

func FuzzUsers(f *testing.F) {
	for _, hash := range acceptedHashes {
		f.Add("u:" + hash)
	}
	for _, hash := range costlyHashes {
		f.Add("u:" + hash + "\nv::p\r\n")
	}
	f.Fuzz(func(t *testing.T, text string) {
		u := usersOf(view(t, secret{"s", raw{"auth": text}}), secretKey("s"))
		if (u.list == nil) != (u.why != "") {
			t.Fatalf("%+v", u)
		}
		if u.list == nil {
			return
		}
		for _, user := range u.list.Users {
			if user.Name == "" || user.Hash.Len() == 0 || strings.ContainsAny(user.Name+user.Hash.Reveal(), "\n\r\x00") {
				t.Fatalf("user %q", user.Name)
			}
		}
	})
}

func FuzzPEM(f *testing.F) {
	p := newTestPair(f, nil)
	f.Add(p.certificate, p.key)
	f.Add("\n"+p.certificate+"\n\nshow info\n"+p.certificate, p.key+"\n\n")
	f.Fuzz(func(t *testing.T, certificate, key string) {
		got := Certificate(view(t, secret{"s", map[string]string{"tls.crt": certificate, "tls.key": key}}), secretKey("s"), noon)
		if (got.Certificate == nil) != (len(got.Findings) > 0) {
			t.Fatalf("%+v", got)
		}
		if got.Certificate != nil && strings.Contains(got.Certificate.PEM.Reveal(), "\n\n") {
			t.Fatal("a blank line would end the payload of a command")
		}
	})
}
