package resolve

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
)

// Bounds of one password hash. HAProxy computes it for each request, in the thread that
// serves everybody: 10 000 rounds of sha-crypt take about 3 ms, and so does bcrypt of cost
// 5; each step of the cost doubles it. With cost 10, sixteen clients that know their
// password slow everybody else's requests down to seconds.
const (
	minRounds     = 1000 // fewer are refused by crypt(3) itself
	defaultRounds = 5000
	maxRounds     = 10000
	minBcrypt     = 4
	maxBcrypt     = 5

	nanosecondsPerRound = 300
	nanosecondsMD5      = 500_000
	nanosecondsBcrypt   = 100_000 // of cost 0; cost 10 is 2^10 times as much
)

// checkHash parses a hash as crypt(3) writes it. Only kinds whose cost can be read off it
// are taken, and only those that both supported HAProxy versions can verify (tried with
// 3.2.26 and 3.4.7: $1$, $2a$, $2b$, $2y$, $5$ and $6$; $apr1$ and {SHA} never match).
func checkHash(hash string) (nanoseconds int64, r badLine) {
	kind, rest, ok := cutKind(hash)
	if !ok {
		if hash == "" {
			return 0, refuse(report.PasswordHashRefused, "the hash is empty")
		}
		return 0, unknownKind()
	}
	switch kind {
	case "1":
		return nanosecondsMD5, checkSalted(rest, 8, 22)
	case "5", "6":
		length := map[string]int{"5": 43, "6": 86}[kind]
		return checkShaCrypt(rest, length)
	case "2a", "2b", "2y":
		return checkBcrypt(rest)
	}
	return 0, unknownKind()
}

func unknownKind() badLine {
	return refuse(report.PasswordHashRefused,
		"the kind of hash is not known; write $5$ or $6$ (mkpasswd -m sha-512), $2y$ (htpasswd -B -C 5) or $1$")
}

func cutKind(hash string) (kind, rest string, ok bool) {
	hash, ok = strings.CutPrefix(hash, "$")
	if !ok {
		return "", "", false
	}
	return strings.Cut(hash, "$")
}

func malformed() badLine {
	return refuse(report.PasswordHashRefused, "the hash is malformed or cut short, no password would match it")
}

// checkShaCrypt checks [rounds=N$]salt$hash.
func checkShaCrypt(rest string, length int) (nanoseconds int64, r badLine) {
	rounds := defaultRounds
	if tail, has := strings.CutPrefix(rest, "rounds="); has {
		number, after, found := strings.Cut(tail, "$")
		n, ok := plainNumber(number)
		if !found || !ok || n < minRounds {
			return 0, malformed()
		}
		if n > maxRounds {
			return 0, badLine{report.PasswordHashRefused, "the hash asks for more than 10000 rounds", true}
		}
		rounds, rest = n, after
	}
	return int64(rounds) * nanosecondsPerRound, checkSalted(rest, 16, length)
}

// checkSalted checks salt$hash. crypt(3) takes an empty salt, which is bad but no harm.
func checkSalted(rest string, maxSalt, length int) badLine {
	salt, hash, found := strings.Cut(rest, "$")
	if !found || len(salt) > maxSalt || len(hash) != length || !cryptAlphabet(salt) || !cryptAlphabet(hash) {
		return malformed()
	}
	return badLine{}
}

// checkBcrypt checks NN$ and 53 characters of salt and hash.
func checkBcrypt(rest string) (nanoseconds int64, r badLine) {
	number, hash, found := strings.Cut(rest, "$")
	if !found || len(number) != 2 || len(hash) != 53 || !cryptAlphabet(hash) {
		return 0, malformed()
	}
	cost, err := strconv.ParseUint(number, 10, 8)
	if err != nil || cost < minBcrypt {
		return 0, malformed()
	}
	if cost > maxBcrypt {
		return 0, badLine{report.PasswordHashRefused, fmt.Sprintf("bcrypt of a cost above %d (htpasswd -B -C %d); each request would hold up everybody's", maxBcrypt, maxBcrypt), true}
	}
	return nanosecondsBcrypt << cost, badLine{}
}

// plainNumber reads a number without sign and leading zero; any that is too large for an
// int is as good as the largest one.
func plainNumber(text string) (int, bool) {
	if text == "" || text[0] == '0' || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return int(^uint(0) >> 1), true
	}
	return int(n), true
}

func cryptAlphabet(text string) bool {
	for _, c := range []byte(text) {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '/') {
			return false
		}
	}
	return true
}
