package property

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// vandalism is one thing that somebody else does to the folders: to the file at a place
// among all (modulo their number), or a new one.
type vandalism struct {
	what string
	at   int
}

var deeds = []string{"truncate", "empty", "append a line", "drop a line", "swap letters", "delete", "replace by a link", "make readable", "new file",
	"new hidden file", "new folder", "new generation", "delete the link", "delete the registry", "damage the registry", "new record"}

// vandalise does it and tells what it was done to.
func (w *world) vandalise(v vandalism) {
	current := filepath.Join(w.dir, "conf", "current")
	registry := filepath.Join(w.dir, "state", "registry")
	create := func(name, text string) {
		_ = os.MkdirAll(filepath.Dir(name), 0o755)
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			w.t.Fatalf("vandalism: %v", err)
		}
	}
	if _, err := os.Stat(current); err != nil && strings.HasPrefix(v.what, "new ") {
		return // the link was deleted before
	}
	switch v.what {
	case "new file":
		names := []string{"conf.d/50-backends-999.cfg", "conf.d/99-extra.cfg", "maps/extra.map", "certs/extra.pem", "lists/extra.lst", "lua/x.lua", "top", "pages/503.http"}
		create(filepath.Join(current, names[v.at%len(names)]), "backend evil from web\n")
	case "new hidden file":
		create(filepath.Join(current, "conf.d", ".x.swp"), "x")
	case "new folder":
		create(filepath.Join(current, "conf.d", "deep", "down", "x.cfg"), "x\n")
	case "new generation":
		create(filepath.Join(w.dir, "conf", "gen-9999", "conf.d", "x.cfg"), "x\n")
	case "delete the link":
		_ = os.Remove(current)
	case "delete the registry":
		_ = os.RemoveAll(registry)
	case "new record":
		create(filepath.Join(registry, []string{"shard-999.json", "shard-007.json", "shard-000.json"}[v.at%3]), "{}")
	case "damage the registry":
		names, _ := filepath.Glob(filepath.Join(registry, "*"))
		if len(names) > 0 {
			create(names[v.at%len(names)], "{")
		}
	default:
		w.vandaliseFile(v, current)
	}
}

func (w *world) vandaliseFile(v vandalism, current string) {
	content, err := read(current)
	if err != nil || len(content) == 0 {
		return // the link is gone already
	}
	var names []string
	for name := range content {
		names = append(names, name)
	}
	slices.Sort(names)
	name := names[v.at%len(names)]
	full, text := filepath.Join(current, name), content[name]
	info, err := os.Stat(full)
	if err != nil {
		return
	}
	w.t.Logf("  %s: %s", v.what, name)
	lines := strings.SplitAfter(string(text), "\n")
	switch v.what {
	case "truncate":
		text = text[:len(text)/2]
	case "empty":
		text = nil
	case "append a line":
		text = append(text, lines[0]+"\n"...)
	case "drop a line":
		text = []byte(strings.Join(lines[:max(0, len(lines)-2)], ""))
	case "swap letters":
		text = []byte(strings.NewReplacer("a", "b", "b", "a", "1", "2", "2", "1").Replace(string(text)))
	case "delete":
		_ = os.Remove(full)
		return
	case "replace by a link":
		_ = os.Remove(full)
		_ = os.Symlink("/dev/null", full)
		return
	case "make readable":
		_ = os.Chmod(full, 0o666)
		return
	}
	if err := os.WriteFile(full, text, 0o644); err != nil {
		w.t.Fatalf("vandalism: %v", err)
	}
	// What has the same size and time of change is not looked at, so a vandal who is
	// quicker than the clock of the file system would not be noticed.
	later := info.ModTime().Add(time.Second)
	if err := os.Chtimes(full, later, later); err != nil {
		w.t.Fatalf("vandalism: %v", err)
	}
}
