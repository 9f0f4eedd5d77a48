package resolve

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// affinity is the persistence cookie.
func (b *behaviour) affinity() {
	b.servers.weight = b.set.Int("initial-weight")
	if b.set.Text("affinity") != "cookie" {
		return
	}
	c := &model.Cookie{
		Name:     b.set.Text("session-cookie-name"),
		Strategy: b.set.Text("session-cookie-strategy"),
		Domain:   b.set.Text("session-cookie-domain"),
		Keywords: slices.Clone(b.set.Names("session-cookie-keywords")),
	}
	if b.set.Bool("session-cookie-preserve") {
		c.Keywords = withKeyword(c.Keywords, "preserve")
	}
	switch site := b.set.Text("session-cookie-same-site"); site {
	case "true", "None":
		c.SameSite, c.Keywords = "None", withKeyword(c.Keywords, "secure")
	case "Lax", "Strict":
		c.SameSite = site
	}
	c.Keywords = slices.DeleteFunc(c.Keywords, func(keyword string) bool { return !cookieTakes(c, keyword) })
	b.shape.Cookie = c
	b.servers.affinity = true
	b.servers.cookieKey = b.set.Text("cookie-key")
	b.servers.podUID = !b.set.Bool("session-cookie-dynamic") && b.set.Text("session-cookie-value-strategy") == "pod-uid"
}

func withKeyword(keywords []string, keyword string) []string {
	if slices.Contains(keywords, keyword) {
		return keywords
	}
	return append(keywords, keyword)
}

// cookieTakes tells whether the cookie's strategy goes with a keyword. HAProxy refuses
// "rewrite" with "indirect", and "preserve" without "insert" or "indirect" (tried with
// 3.2.26 and 3.4.7); "indirect" is among the default keywords.
func cookieTakes(c *model.Cookie, keyword string) bool {
	switch keyword {
	case "indirect":
		return c.Strategy != "rewrite"
	case "preserve":
		return c.Strategy == "insert" || c.Strategy == "prefix" && slices.Contains(c.Keywords, "indirect")
	}
	return true
}

// apply sets what the options say of each server. The cookie's value is a function of the
// server and the salt alone, so a pod has the same one on every replica.
func (v serverValues) apply(servers []model.Server) {
	for i := range servers {
		server := &servers[i]
		server.Weight = v.weight
		switch {
		case !v.affinity:
			server.Cookie = ""
		case server.Cookie == "" || !v.podUID:
			server.Cookie = v.cookie(server)
		}
	}
}

// cookie is the first 16 hexadecimal characters of SHA-256 of address, port and salt.
func (v serverValues) cookie(server *model.Server) string {
	sum := sha256.Sum256([]byte(server.Name() + v.cookieKey))
	return hex.EncodeToString(sum[:8])
}
