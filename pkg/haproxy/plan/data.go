package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/serverline"
)

// setServer is the command that brings a server from one state and weight to another.
func setServer(backend string, before, after *model.Server) (SetServer, bool) {
	command := SetServer{Backend: backend, Server: after.Name()}
	if was, is := before.State == model.Maint, after.State == model.Maint; was != is {
		state := model.Ready
		if is {
			state = model.Maint
		}
		command.State = &state
	}
	if weight := serverline.Weight(after); weight != serverline.Weight(before) {
		command.Weight = &weight
	}
	return command, command.State != nil || command.Weight != nil
}

// leafFirst is the order in which tables get new entries: what a route needs is there
// before the route, its redirect to https among it, the route before its host. Entries go
// in the reverse order.
var leafFirst = [...]string{
	model.TableValues, model.TableTLS, model.TableWeights, model.TableConditions, model.TablePrefixes, model.TableRules, model.TableListeners,
	model.TableTCP, model.TablePrefix, model.TableExact, model.TableWildcards, model.TableHosts,
}

func (in Input) planTables() []RuntimeCommand {
	puts := make([]RuntimeCommand, 0, len(leafFirst))
	var removals []RuntimeCommand
	for _, name := range leafFirst {
		old, wanted := table(in.Old.Served, name), table(in.Model, name)
		var put, remove EditMap
		for _, edit := range wanted.Diff(old) {
			if edit.Value == nil {
				remove.Edits = append(remove.Edits, edit)
				continue
			}
			put.Edits = append(put.Edits, edit)
		}
		put.Map, remove.Map = name, name
		if len(put.Edits) > 0 {
			puts = append(puts, RuntimeCommand{put, "entries are new or changed"})
		}
		if len(remove.Edits) > 0 {
			removals = append(removals, RuntimeCommand{remove, "entries are gone"})
		}
	}
	slices.Reverse(removals)
	return append(puts, removals...)
}

func table(m *model.Model, name string) *model.Table {
	for _, t := range m.Tables {
		if t.Name == name {
			return t
		}
	}
	return &model.Table{Name: name}
}

// planLists compares the lists. One that was not served before comes with a profile that
// was not either; where the worker has loaded both, it holds the entries of back then.
func (in Input) planLists() (commands []RuntimeCommand, reasons []string) {
	if model.Same(in.Old.Served.Lists, in.Model.Lists) {
		return nil, nil
	}
	old := make(map[string]*model.List, len(in.Old.Served.Lists))
	maps.Copy(old, in.Old.Worker.Lists)
	for _, list := range in.Old.Served.Lists {
		old[list.Name] = list
	}
	for _, list := range in.Model.Lists {
		stands, ok := old[list.Name]
		if !ok {
			reasons = append(reasons, "new list: "+list.Name)
		}
		if !ok || stands == list {
			continue
		}
		edit := EditList{
			List:   list.Name,
			Add:    missing(list.Entries, stands.Entries),
			Remove: missing(stands.Entries, list.Entries),
		}
		if len(edit.Add)+len(edit.Remove) > 0 {
			commands = append(commands, RuntimeCommand{edit, "entries of an address list changed"})
		}
	}
	return commands, reasons
}

// unused are the lists that the worker holds and that nothing refers to after the plan.
func (in Input) unused() map[string]*model.List {
	if model.Same(in.Old.Served.Lists, in.Model.Lists) {
		return in.Old.Worker.Lists
	}
	lists := make(map[string]*model.List, len(in.Old.Worker.Lists))
	maps.Copy(lists, in.Old.Worker.Lists)
	for _, list := range in.Old.Served.Lists {
		lists[list.Name] = list
	}
	for _, list := range in.Model.Lists {
		delete(lists, list.Name)
	}
	return lists
}

// missing are the members of one list that another one lacks.
func missing(from, in []string) []string {
	known := make(map[string]bool, len(in))
	for _, s := range in {
		known[s] = true
	}
	var list []string
	for _, s := range from {
		if !known[s] {
			list = append(list, s)
		}
	}
	return list
}

// planCertificates compares certificates and the lines of the crt-list. What is loaded
// goes before the routes, what is unloaded after them.
func (in Input) planCertificates() (load, unload []RuntimeCommand, reasons []string) {
	served := in.Old.Served
	if model.Same(served.Certificates, in.Model.Certificates) && model.Same(served.CrtList, in.Model.CrtList) &&
		model.Same(served.CAFiles, in.Model.CAFiles) {
		return nil, nil, nil
	}
	wantedHeads := heads(in.Model.CrtList)
	for name, line := range heads(served.CrtList) {
		if wanted, stays := wantedHeads[name]; stays && !wanted.Equal(line) {
			reasons = append(reasons, "own certificate: it stands in the first line of the crt-list, which can't be changed at run time")
			break
		}
	}
	before, after := certificates(served), certificates(in.Model)
	for _, c := range in.Model.Certificates {
		if before[c.Name] == nil {
			load = append(load, RuntimeCommand{AddCertificate{c}, "new certificate"})
		}
	}
	for _, c := range in.Model.CAFiles {
		if before[c.Name] == nil {
			load = append(load, RuntimeCommand{AddCAFile{c}, "new CA file"})
		}
	}
	added := missingLines(in.Model.CrtList, served.CrtList)
	for _, line := range added {
		load = append(load, RuntimeCommand{AddCrtLine{line}, "server names of a certificate"})
	}
	for _, line := range missingLines(served.CrtList, in.Model.CrtList) {
		unload = append(unload, RuntimeCommand{DelCrtLine{line}, "server names of a certificate"})
	}
	for _, c := range served.Certificates {
		if after[c.Name] == nil && !isCA(served, c) {
			unload = append(unload, RuntimeCommand{DelCertificate{c.Name}, "no line names the certificate"})
		}
	}
	return load, unload, reasons
}

func certificates(m *model.Model) map[string]*model.Certificate {
	list := make(map[string]*model.Certificate, len(m.Certificates)+len(m.CAFiles))
	for _, c := range slices.Concat(m.Certificates, m.CAFiles) {
		list[c.Name] = c
	}
	return list
}

// isCA tells whether a recovered certificate may be one that servers use: those are
// unloaded by the next reload.
func isCA(served *model.Model, c *model.Certificate) bool {
	return !slices.ContainsFunc(served.CrtList, func(line model.CrtLine) bool { return line.Certificate == c.Name })
}

func missingLines(from, in []model.CrtLine) []model.CrtLine {
	known := make(map[string]bool, len(in))
	for _, line := range in {
		known[lineKey(line)] = true
	}
	var list []model.CrtLine
	for _, line := range from {
		if !known[lineKey(line)] {
			list = append(list, line)
		}
	}
	return list
}

// heads are the first lines of the crt-lists by name.
func heads(lines []model.CrtLine) map[string]model.CrtLine {
	first := map[string]model.CrtLine{}
	for _, line := range lines {
		if _, known := first[line.List]; !known {
			first[line.List] = line
		}
	}
	return first
}

func lineKey(line model.CrtLine) string {
	return fmt.Sprintf("%s %s %s %t %s", line.List, line.Certificate, line.ClientCA, line.Optional, strings.Join(line.Hosts, " "))
}

// backendOf is the backend that a command on a server speaks of.
func backendOf(c RuntimeCommand) string {
	switch command := c.Command.(type) {
	case AddServer:
		return command.Backend
	case SetServer:
		return command.Backend
	case DelServer:
		return command.Backend
	}
	return ""
}
