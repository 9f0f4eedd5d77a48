package tree

import "strings"

// Foreign is the kind of a file that sluice does not write: plan removes it.
const Foreign Kind = "foreign"

// Secret tells whether files of a kind hold private keys or passwords: they have mode
// 0600, and their content is shown to nobody.
func (k Kind) Secret() bool { return k == Cert || k == Userlists }

// Folders are the folders of a tree, each of which is there, empty ones too.
func Folders() []string {
	return []string{"conf.d", "maps", "crt-lists", "lists", "lua", "certs"}
}

// KindOf is the kind of a file by its path in the tree.
func KindOf(path string) Kind {
	switch path {
	case "conf.d/00-global.cfg":
		return Global
	case "conf.d/10-profiles.cfg":
		return Profiles
	case "conf.d/15-userlists.cfg":
		return Userlists
	case "conf.d/20-frontends.cfg", "conf.d/25-tcp.cfg":
		return Frontends
	case GenerationPath:
		return Generation
	}
	for _, k := range []struct {
		prefix, suffix string
		kind           Kind
	}{
		{"conf.d/50-backends-", ".cfg", Shard},
		{"lua/", ".lua", Lua},
		{"maps/", ".map", Map},
		{"crt-lists/", ".list", CrtList},
		{"lists/", ".lst", List},
		{"certs/", ".pem", Cert},
	} {
		name, found := strings.CutPrefix(path, k.prefix)
		if found && strings.HasSuffix(name, k.suffix) && !strings.Contains(name, "/") && !strings.HasPrefix(name, ".") {
			return k.kind
		}
	}
	return Foreign
}
