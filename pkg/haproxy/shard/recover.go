package shard

import (
	"bufio"
	"bytes"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/serverline"
)

// Recover rebuilds what a worker serves that was started on a generation: the names of
// its backends and profiles, its servers, tables, lists, certificates and crt-list. The
// argument is the content of the generation's files by path; certificates count by their
// path only. What is not in the result (rules, options) is a function of the names.
//
// The files must be those that sluice wrote: the caller compares their digests first.
func Recover(content map[string][]byte) (*model.Model, error) {
	m := &model.Model{}
	var backends []*model.Backend
	for _, name := range slices.Sorted(maps.Keys(content)) {
		text := content[name]
		folder, file := path.Split(name)
		base := strings.TrimSuffix(file, path.Ext(file))
		switch {
		case strings.HasPrefix(name, "conf.d/50-"):
			found, err := recoverBackends(text)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			backends = append(backends, found...)
		case name == "conf.d/10-profiles.cfg":
			m.Profiles = recoverProfiles(text)
		case folder == "maps/" && base != "sluice":
			m.Tables = append(m.Tables, model.NewTable(base, recoverEntries(text)...))
		case folder == "lists/":
			m.Lists = append(m.Lists, &model.List{Name: base, Entries: lines(text)})
		case folder == "certs/":
			m.Certificates = append(m.Certificates, &model.Certificate{Name: file})
		case folder == "crt-lists/":
			m.CrtList = append(m.CrtList, recoverCrtList(base, text)...)
		}
	}
	m.Backends = m.Backends.With(backends, nil)
	if m.Backends.Len() != len(backends) {
		return nil, fmt.Errorf("%d backend sections, but %d names", len(backends), m.Backends.Len())
	}
	return m, nil
}

func recoverBackends(text []byte) ([]*model.Backend, error) {
	var list []*model.Backend
	for _, line := range lines(text) {
		words := strings.Fields(line)
		switch {
		case len(words) == 4 && words[0] == "backend" && words[2] == "from":
			list = append(list, &model.Backend{Name: words[1], Profile: &model.Profile{Name: words[3]}})
		case len(words) > 0 && words[0] == "server":
			server, _, ok := serverline.Parse(line)
			if !ok || len(list) == 0 {
				return nil, fmt.Errorf("not a line that sluice writes: %q", line)
			}
			last := list[len(list)-1]
			last.Servers = append(last.Servers, server)
		}
	}
	for _, b := range list {
		b.Seal()
	}
	return list, nil
}

func recoverProfiles(text []byte) []*model.Profile {
	var list []*model.Profile
	for _, line := range lines(text) {
		if words := strings.Fields(line); len(words) == 4 && words[0] == "defaults" && words[2] == "from" {
			list = append(list, &model.Profile{Name: words[1]})
		}
	}
	return list
}

// Sections are the "defaults" sections of a file of profiles by name, each with a digest of
// its text. One that inherits holds the digest of its base, too.
func Sections(text []byte) map[string]model.Digest {
	sections := map[string]model.Digest{}
	var name, base string
	var h *model.Hasher
	end := func() {
		if h != nil {
			sections[name] = h.Sum(sections[base]).Digest()
		}
	}
	for _, line := range lines(text) {
		words := strings.Fields(line)
		if words[0] == "defaults" && len(words) > 1 {
			end()
			h, name, base = model.NewHasher(), words[1], ""
			if len(words) == 4 && words[2] == "from" {
				base = words[3]
			}
		}
		if h != nil {
			h.Str(line)
		}
	}
	end()
	return sections
}

// Proxies are the names of all backend and listen sections of the files, whoever wrote them.
func Proxies(content map[string][]byte) map[string]bool {
	names := map[string]bool{}
	for name, text := range content {
		if !strings.HasPrefix(name, "conf.d/") {
			continue
		}
		for _, line := range lines(text) {
			if words := strings.Fields(line); len(words) > 1 && (words[0] == "backend" || words[0] == "listen") {
				names[words[1]] = true
			}
		}
	}
	return names
}

func recoverEntries(text []byte) []model.Entry {
	var entries []model.Entry
	for _, line := range lines(text) {
		key, value, _ := strings.Cut(line, " ")
		entries = append(entries, model.Entry{Key: key, Value: value})
	}
	return entries
}

func recoverCrtList(name string, text []byte) []model.CrtLine {
	var list []model.CrtLine
	for _, line := range lines(text) {
		words := strings.Fields(line)
		l := model.CrtLine{List: name, Certificate: path.Base(words[0]), Hosts: words[1:]}
		if len(words) > 4 && words[1] == "[ca-file" {
			l.ClientCA, l.Optional, l.Hosts = path.Base(words[2]), words[4] == "optional]", words[5:]
		}
		list = append(list, l)
	}
	return list
}

// lines are the lines of a text that hold something.
func lines(text []byte) []string {
	var list []string
	scanner := bufio.NewScanner(bytes.NewReader(text))
	scanner.Buffer(nil, len(text)+1)
	for scanner.Scan() {
		if line := scanner.Text(); strings.TrimSpace(line) != "" {
			list = append(list, line)
		}
	}
	return list
}
