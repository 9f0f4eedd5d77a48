package plan

import (
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// tightenGateways are the routes of Gateways that a reload puts behind a protection, as tighten
// has them. An action may stand for many backends there: in the old worker it becomes one of the
// same conditions and shares, where what the old worker does not protect leads to nobody.
func (in Input) tightenGateways() []RuntimeCommand {
	t := &tightening{
		in: in, reason: unknownProtection,
		old: protections{m: in.Old.Served, known: map[string]string{}}, wanted: protections{m: in.Model, known: map[string]string{}},
		edits: map[string][]model.Edit{}, tight: map[string]bool{},
	}
	for _, name := range ruleTables {
		for _, e := range table(in.Model, name).Diff(table(in.Old.Served, name)) {
			t.rule(name, e)
		}
	}
	t.hosts()
	t.guards()
	var commands []RuntimeCommand
	for _, name := range leafFirst {
		if edits := t.edits[name]; len(edits) > 0 {
			commands = append(commands, RuntimeCommand{EditMap{Map: name, Edits: edits}, t.reason})
		}
	}
	return commands
}

// ruleTables are those of the rules of virtual hosts.
var ruleTables = [...]string{model.TablePrefixes, model.TableRules}

type tightening struct {
	in          Input
	old, wanted protections
	reason      string
	edits       map[string][]model.Edit // by table
	tight       map[string]bool         // virtual hosts with a rule among them
}

func (t *tightening) put(table, key string, value *string) {
	t.edits[table] = append(t.edits[table], model.Edit{Key: key, Value: value})
}

// rule compares who is kept out of a path before and after.
func (t *tightening) rule(name string, e model.Edit) {
	before := covers(t.in.Old.Served, name, e.Key)
	after := covers(t.in.Model, name, e.Key)
	if !t.wanted.protects(after) || t.wanted.of(after) == t.old.of(before) {
		return
	}
	host, _, _ := strings.Cut(e.Key, "#")
	t.tight[host] = true
	t.tell(name, e)
}

// tell is the edit as the old worker gets it.
func (t *tightening) tell(name string, e model.Edit) {
	if e.Value != nil {
		action := t.action(*e.Value)
		e.Value = &action
	}
	t.put(name, e.Key, e.Value)
}

// hosts are the names that from now on lead to another virtual host, one that protects: the
// old worker gets all of it.
func (t *tightening) hosts() {
	moved := map[string]bool{}
	for _, e := range table(t.in.Model, model.TableListeners).Diff(table(t.in.Old.Served, model.TableListeners)) {
		if e.Value == nil {
			continue
		}
		host := *e.Value
		_, guarded := table(t.in.Model, model.TableConditions).Lookup(guardOf(host))
		if guarded || t.tight[host] || t.wanted.protects(covers(t.in.Model, model.TablePrefixes, host+"#/")) {
			t.put(model.TableListeners, e.Key, e.Value)
			t.tight[host], moved[host] = true, true
		}
	}
	if len(moved) == 0 {
		return
	}
	for _, name := range ruleTables {
		told := map[string]bool{}
		for _, e := range t.edits[name] {
			told[e.Key] = true
		}
		for _, e := range table(t.in.Model, name).Diff(table(t.in.Old.Served, name)) {
			if host, _, _ := strings.Cut(e.Key, "#"); moved[host] && !told[e.Key] {
				t.tell(name, e)
			}
		}
	}
}

// guards are the virtual hosts where a path that can be read in two ways is answered 400 from
// now on.
func (t *tightening) guards() {
	for _, e := range table(t.in.Model, model.TableConditions).Diff(table(t.in.Old.Served, model.TableConditions)) {
		if host, is := strings.CutPrefix(e.Key, guardOf("")); is && e.Value != nil && t.tight[host] {
			t.put(model.TableConditions, e.Key, e.Value)
		}
	}
}

func guardOf(host string) string { return "guard/" + host }

// action is one of the same conditions and shares for the old worker.
func (t *tightening) action(action string) string {
	switch {
	case strings.HasPrefix(action, "="):
		slots := t.wanted.slots(action)
		for i := range slots {
			slots[i] = t.action(slots[i])
		}
		id := "=" + nameOf(slots)
		for i, slot := range slots {
			t.put(model.TableWeights, id+"/"+strconv.Itoa(i), &slot)
		}
		n := strconv.Itoa(len(slots))
		t.put(model.TableWeights, id, &n)
		return id
	case strings.HasPrefix(action, "?"):
		return "?" + t.list(action[1:])
	}
	if _, backend := model.Action(action).Backend(); !t.keeps(backend) {
		return Denied
	}
	return action
}

// list is the id of a list for the old worker.
func (t *tightening) list(id string) string {
	elements := t.wanted.elements(id)
	for i, element := range elements {
		if conditions, action, is := strings.Cut(element, ">"); is {
			elements[i] = conditions + ">" + t.action(action)
		} else {
			elements[i] = element[:1] + t.list(element[1:])
		}
	}
	id, text := nameOf(elements), strings.Join(elements, ";")
	t.put(model.TableConditions, id, &text)
	return id
}

// nameOf is an id of a set or list that the old worker alone knows.
func nameOf(content []string) string {
	return model.NewHasher().Str("old worker").Str(content...).Digest().String()[:16]
}

// keeps tells whether the old worker has a backend and keeps those out whom it shall.
func (t *tightening) keeps(backend string) bool {
	if strings.HasPrefix(backend, "_") {
		return true
	}
	if t.in.nameOnly(backend) {
		t.reason = unsureProtection
	}
	return t.in.Old.Served.Backends.Lookup(backend) != nil && !t.in.protectsMore(backend, backend)
}

// covers is the action of a path, of its own or of the longest prefix.
func covers(m *model.Model, name, key string) string {
	if action, known := table(m, name).Lookup(key); known {
		return action
	}
	prefixes := table(m, model.TablePrefixes)
	key = strings.TrimSuffix(key, "/") + "/"
	for strings.Contains(key, "#/") {
		if action, known := prefixes.Lookup(key); known {
			return action
		}
		key = key[:strings.LastIndexByte(key[:len(key)-1], '/')+1]
	}
	return ""
}

// protections tells of actions of a model whom they keep out.
type protections struct {
	m     *model.Model
	known map[string]string // by id of sets and lists
}

func (p protections) protects(action string) bool { return strings.Contains(p.of(action), protected) }

const protected = "!"

// of is the same text for actions that keep the same requests out.
func (p protections) of(action string) string {
	if action == "" {
		return ""
	}
	if action[0] != '=' && action[0] != '?' {
		_, backend := model.Action(action).Backend()
		if b := p.m.Backends.Lookup(backend); b != nil && b.Profile.Shape.Protects() {
			return protected + b.Profile.Shape.Protection().String()
		}
		return ""
	}
	if text, known := p.known[action]; known {
		return text
	}
	var parts []string
	if action[0] == '=' {
		for _, slot := range p.slots(action) {
			parts = append(parts, p.of(slot))
		}
		parts = slices.Compact(parts)
	} else {
		parts = p.list(action[1:])
	}
	text := strings.Join(parts, ";")
	if len(parts) > 1 && strings.Contains(text, protected) {
		text = protected + nameOf(parts)
	} else if len(parts) > 1 {
		text = ""
	}
	p.known[action] = text
	return text
}

func (p protections) list(id string) []string {
	parts := p.elements(id)
	for i, element := range parts {
		if conditions, action, is := strings.Cut(element, ">"); is {
			parts[i] = conditions + ">" + p.of(action)
		} else {
			parts[i] = element[:1] + p.of("?"+element[1:])
		}
	}
	return parts
}

// slots are the actions of a weighted set.
func (p protections) slots(id string) []string {
	weights := table(p.m, model.TableWeights)
	text, _ := weights.Lookup(id)
	n, _ := strconv.Atoi(text)
	list := make([]string, n)
	for i := range list {
		list[i], _ = weights.Lookup(id + "/" + strconv.Itoa(i))
	}
	return list
}

// elements are those of a list.
func (p protections) elements(id string) []string {
	text, _ := table(p.m, model.TableConditions).Lookup(id)
	if text == "" {
		return nil
	}
	return strings.Split(text, ";")
}
