package template

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/serverline"
	"github.com/sluice-proxy/sluice/pkg/haproxy/tree"
)

// tables renders the map files.
func tables(in Input, t *tree.Tree) error {
	for _, table := range in.Model.Tables {
		path := "maps/" + table.Name + ".map"
		if in.Old.Served != nil && slices.Contains(in.Old.Served.Tables, table) && in.keep(path, t) {
			continue
		}
		t.Add(tree.NewFileOf(path, tree.Map, table.Text()))
	}
	return nil
}

// lists renders the address lists.
func lists(in Input, t *tree.Tree) error {
	if len(in.Model.Lists) > 0 && in.Old.Served != nil && model.Same(in.Old.Served.Lists, in.Model.Lists) && in.keepFolder("lists", t) {
		return nil
	}
	served := map[*model.List]bool{}
	if in.Old.Served != nil {
		for _, list := range in.Old.Served.Lists {
			served[list] = true
		}
	}
	for _, list := range in.Model.Lists {
		path := "lists/" + list.Name + ".lst"
		if served[list] && in.keep(path, t) {
			continue
		}
		var text strings.Builder
		for _, entry := range list.Entries {
			text.WriteString(entry)
			text.WriteByte('\n')
		}
		t.Add(tree.NewFile(path, tree.List, []byte(text.String())))
	}
	return nil
}

// certificates renders the files below certs/. One that stands there with the right
// content is not written again: somebody may have changed what stands there.
func certificates(in Input, t *tree.Tree) error {
	if served := in.Old.Served; served != nil && model.Same(served.Certificates, in.Model.Certificates) &&
		model.Same(served.CAFiles, in.Model.CAFiles) && in.keepFolder("certs", t) {
		return nil
	}
	for _, list := range [][]*model.Certificate{in.Model.Certificates, in.Model.CAFiles} {
		for _, c := range list {
			if path := "certs/" + c.Name; !in.holds(path, c) || !in.keep(path, t) {
				t.Add(tree.NewSecretFile(path, tree.Cert, c.PEM))
			}
		}
	}
	return nil
}

// holds tells whether the old tree's file is that of a certificate. Most are named after
// a digest of their content, which spares to compute it.
func (in Input) holds(path string, c *model.Certificate) bool {
	if in.Old.Tree == nil {
		return false
	}
	stands, ok := in.Old.Tree.Lookup(path)
	return ok && (strings.HasPrefix(c.Name, stands.Digest.String()) || stands.Digest == c.PEM.Digest())
}

// crtLists renders the certificate lists of the frontends.
func crtLists(in Input, t *tree.Tree) error {
	if served := in.Old.Served; served != nil && len(in.Model.CrtList) > 0 && model.Same(served.CrtList, in.Model.CrtList) && in.keepFolder("crt-lists", t) {
		return nil
	}
	for rest := in.Model.CrtList; len(rest) > 0; {
		name, end := rest[0].List, 0
		for end < len(rest) && rest[end].List == name {
			end++
		}
		var text strings.Builder
		for i := range rest[:end] {
			words, err := serverline.CrtLine(&rest[i])
			if err != nil {
				return fmt.Errorf("crt-list %s: %w", name, err)
			}
			text.WriteString(words)
			text.WriteByte('\n')
		}
		t.Add(tree.NewFile("crt-lists/"+name+".list", tree.CrtList, []byte(text.String())))
		rest = rest[end:]
	}
	return nil
}
