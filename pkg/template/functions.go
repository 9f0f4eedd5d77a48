package template

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/serverline"
	"github.com/sluice-proxy/sluice/pkg/haproxy/token"
)

// functions are what a template may call.
func functions() template.FuncMap {
	return template.FuncMap{
		"word":       word,
		"words":      words,
		"address":    address,
		"quoted":     token.Quoted,
		"logFormat":  token.LogFormat,
		"time":       duration,
		"hashes":     hashes,
		"servers":    servers,
		"value":      value,
		"valueOf":    valueOf,
		"corsOrigin": corsOrigin,
		"unlessSaid": unlessSaid,
		"anyTCP":     anyTCP,
		"anyBehind":  anyBehind,
		"handOn":     handOn,
		"logOf":      logOf,
		"socket":     behind,
		"anyGateway": anyGateway,
		"anyMirror":  anyMirror,
		"labels":     labels,
	}
}

// word is one argument, bare where it can be. A name that a user chose must never stop the
// rendering for everybody else.
func word(text string) (string, error) {
	if bare, err := token.Word(text); err == nil {
		return bare, nil
	}
	return token.Quoted(text)
}

// words encodes a text of several words, each for itself.
func words(text string) (string, error) {
	list := strings.Fields(text)
	for i, w := range list {
		encoded, err := token.Word(w)
		if err != nil {
			return "", err
		}
		list[i] = encoded
	}
	return strings.Join(list, " "), nil
}

// address encodes an address with a port. The brackets of an IPv6 address need no quotes.
func address(text string) (string, error) {
	if _, err := token.Word(strings.NewReplacer("[", "", "]", "").Replace(text)); err != nil {
		return "", err
	}
	return text, nil
}

// duration writes a time as HAProxy reads it (configuration manual, "Time format"): in
// the largest unit that divides it.
func duration(d time.Duration) string {
	ms := d.Milliseconds()
	for _, unit := range []struct {
		ms   int64
		name string
	}{{24 * 3600_000, "d"}, {3600_000, "h"}, {60_000, "m"}, {1000, "s"}} {
		if ms >= unit.ms && ms%unit.ms == 0 {
			return strconv.FormatInt(ms/unit.ms, 10) + unit.name
		}
	}
	return strconv.FormatInt(ms, 10) + "ms"
}

// hashes tells whether a balance algorithm is one that "hash-type" applies to. With the
// default hash type, map-based, such a backend refuses servers at run time.
func hashes(balance string) bool {
	algorithm, _, _ := strings.Cut(balance, " ")
	algorithm, _, _ = strings.Cut(algorithm, "(")
	switch algorithm {
	case "source", "uri", "url_param", "hdr", "rdp-cookie", "hash":
		return true
	}
	return false
}

// servers writes the server lines of a backend.
func servers(b *model.Backend) string {
	options := serverline.Options(b.Options)
	text := make([]byte, 0, len(b.Servers)*(64+len(options)))
	for i := range b.Servers {
		text = append(text, "\n    "...)
		text = serverline.Append(text, &b.Servers[i], options)
	}
	return string(text)
}

// value is the sample expression that looks a value of the backend up. The default
// profile has one value for all backends, so that a global change is a change of a few
// map entries.
func value(p *model.Profile, slot string) (string, error) { return lookUp(p, slot, "") }

// valueOf is like value, for a slot that ends in the content of a variable.
func valueOf(p *model.Profile, slot, variable string) (string, error) {
	return lookUp(p, slot, variable)
}

func lookUp(p *model.Profile, slot, variable string) (string, error) {
	if !model.KnownSlot(slot) {
		return "", fmt.Errorf("there is no value %q", slot)
	}
	const table = "map_str(maps/" + model.TableValues + ".map)"
	if p.Name != model.DefaultProfile {
		if variable != "" {
			variable = "," + variable
		}
		return "be_name,concat(/" + slot + variable + ")," + table, nil
	}
	if variable != "" {
		variable = "concat(," + variable + "),"
	}
	return "str(" + p.Name + "/" + slot + ")," + variable + table, nil
}

// corsOrigin is what Access-Control-Allow-Origin says: "*" is not allowed together with
// credentials (Fetch standard, "CORS protocol and credentials").
func corsOrigin(c *model.CORS) string {
	if c.AnyOrigin && !c.Credentials {
		return "*"
	}
	return "%[var(txn.origin)]"
}

// unlessSaid is the condition that a header is not one that a trusted proxy has set.
func unlessSaid(f *model.Frontend, header string) string {
	if f.TrustedProxies == nil {
		return ""
	}
	return " unless { var(txn.trusted) -m found } { req.hdr(" + header + ") -m found }"
}

// anyTCP tells whether a profile is one of TCP services: then they need a base of their own.
func anyTCP(profiles []*model.Profile) bool {
	return slices.ContainsFunc(profiles, func(p *model.Profile) bool { return p.Shape.TCP })
}

// anyBehind tells whether a frontend hands connections on to another one.
func anyBehind(frontends []*model.TCPFrontend) bool {
	return slices.ContainsFunc(frontends, func(f *model.TCPFrontend) bool { return len(f.HandsTo) > 0 })
}

// handOn is the backend that leads to a frontend.
func handOn(frontend string) string { return model.HandOn + frontend }

// behind is the address of a frontend that stands behind another one: a socket in the folder
// that is sluice's alone. Its name is short, since the path of a socket must be.
func behind(runDir, frontend string) string {
	return "unix@" + runDir + "/" + model.DigestOf([]byte(frontend)).String()[:16] + ".sock"
}

// logOf is how connections of a frontend are logged: not at all, as "option tcplog" does, or by
// a format.
func logOf(process model.Process, f *model.TCPFrontend) string {
	if len(process.LogTargets) == 0 {
		return ""
	}
	return cmp.Or(f.LogFormat, "tcplog")
}

// anyGateway tells whether a frontend serves a Gateway: then the Lua is loaded.
func anyGateway(frontends []*model.Frontend) bool {
	return slices.ContainsFunc(frontends, func(f *model.Frontend) bool { return f.Gateway })
}

// anyMirror tells whether a profile copies requests: then the Lua for that is loaded.
func anyMirror(profiles []*model.Profile) bool {
	return slices.ContainsFunc(profiles, func(p *model.Profile) bool { return p.Shape.Mirror })
}

// labels are the numbers of labels that the wildcards of a frontend may have behind their
// star, the most specific one first.
func labels(most int) []int {
	var list []int
	for n := most; n > 0; n-- {
		list = append(list, n)
	}
	return list
}
