package resolve

import (
	"cmp"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/token"
)

// usersKey is the key of a Secret that holds the users.
const usersKey = "auth"

// Bounds of a list of users. HAProxy computes every hash once when it loads the
// configuration, and one at each login.
const (
	maxUsers   = 1000
	maxName    = 255         // bytes of a user's name
	maxPlain   = 1024        // bytes of a plain password
	hashBudget = 500_000_000 // nanoseconds of all hashes of one Secret
)

// userlist is what became of a Secret with users. list is nil where nobody could log in
// as the Secret's owner meant it: then the path must be denied, and why says so.
type userlist struct {
	list     *model.Userlist
	why      string
	findings []report.Finding
}

// usersOf reads the Secret's lines "user:hash" and "user::password". A line that can't be
// used costs that user only, a hash that is too expensive the whole list: what is asked
// for would be a burden on everybody.
func usersOf(v *snapshot.View, key snapshot.Key) userlist {
	origin := key.Origin()
	secret := v.Secret(key.Namespace, key.Name)
	if secret == nil {
		why := "Secret " + key.Namespace + "/" + key.Name + " does not exist"
		return userlist{why: why, findings: []report.Finding{report.New(report.SecretMissing, origin, "the Secret with the users does not exist")}}
	}
	origin.Field = "data." + usersKey
	u := userlist{}
	var users []model.User
	seen := map[string]bool{}
	cost := int64(0)
	for i, line := range strings.Split(secret.Data[usersKey].Reveal(), "\n") {
		line = strings.TrimSuffix(line, "\r")
		if strings.TrimSpace(line) == "" || line[0] == '#' {
			continue
		}
		user, nanoseconds, badLine := parseUser(line)
		cost += nanoseconds
		switch {
		case badLine.code != "":
		case seen[user.Name]:
			badLine = refuse(report.PasswordHashRefused, "that user stands in an earlier line, which counts")
		default:
			seen[user.Name] = true
			users = append(users, user)
			continue
		}
		// The line's number, not its text: it is a secret.
		u.findings = append(u.findings, report.New(badLine.code, origin, "line %d: %s", i+1, badLine.why))
		if badLine.costly {
			u.why = "a password hash in Secret " + key.Namespace + "/" + key.Name + " is too expensive"
		}
	}
	u.conclude(users, cost, origin)
	return u
}

func (u *userlist) conclude(users []model.User, cost int64, origin model.Origin) {
	where := "Secret " + origin.Namespace + "/" + origin.Name
	switch {
	case u.why != "":
	case len(users) == 0:
		u.why = where + " holds no user that can log in, in its key " + usersKey
		u.findings = append(u.findings, report.New(report.SecretInvalid, origin,
			"no usable line; write user:hash, with a hash as mkpasswd -m sha-512 gives it"))
	case len(users) > maxUsers:
		u.why = where + " holds too many users"
		u.findings = append(u.findings, report.New(report.SecretInvalid, origin, "%d users; at most %d", len(users), maxUsers))
	case cost > hashBudget:
		u.why = "the password hashes of " + where + " are too expensive together"
		u.findings = append(u.findings, report.New(report.PasswordHashRefused, origin,
			"%d hashes take about %d ms together, at most %d; use a lighter kind, for example $5$ or $6$ with 5000 rounds",
			len(users), cost/1e6, hashBudget/1_000_000))
	default:
		slices.SortFunc(users, func(a, b model.User) int { return cmp.Compare(a.Name, b.Name) })
		u.list = &model.Userlist{Name: userlistName(users), Users: users, Origin: origin}
	}
}

// userlistName depends on the content alone: equal lists of two Secrets are one section.
func userlistName(users []model.User) string {
	h := model.NewHasher()
	for _, user := range users {
		h.Str(user.Name).Bool(user.Plain).Sum(user.Digest)
	}
	return "u_" + h.Digest().String()
}

// badLine says why a line is not used; no code: it is used.
type badLine struct {
	code   report.Code
	why    string // without any text of the line
	costly bool
}

func refuse(code report.Code, why string) badLine { return badLine{code: code, why: why} }

// parseUser reads one line. nanoseconds is about what HAProxy needs for the hash.
func parseUser(line string) (user model.User, nanoseconds int64, r badLine) {
	name, hash, found := strings.Cut(line, ":")
	if !found {
		return user, 0, refuse(report.SecretInvalid, "no colon between user and hash")
	}
	if name == "" || len(name) > maxName || token.CheckText(line, "") != nil {
		return user, 0, refuse(report.SecretInvalid, "the user's name is empty, too long, or the line holds control characters")
	}
	if plain, isPlain := strings.CutPrefix(hash, ":"); isPlain {
		if plain == "" || len(plain) > maxPlain {
			return user, 0, refuse(report.PasswordHashRefused, "the password is empty or longer than 1024 bytes")
		}
		return newUser(name, plain, true), 0, badLine{}
	}
	nanoseconds, r = checkHash(hash)
	return newUser(name, hash, false), nanoseconds, r
}

func newUser(name, hash string, plain bool) model.User {
	secret := model.NewSecret([]byte(hash))
	return model.User{Name: name, Hash: secret, Plain: plain, Digest: secret.Digest()}
}
