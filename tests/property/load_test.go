package property

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-proxy/sluice/pkg/haproxy/process"
)

// server is what a worker holds of a server besides its name.
type server struct {
	Parameters string // address and options
	Weight     int
	Maint      bool
}

// served is what a worker serves that has loaded a folder, and what commands change of it.
type served struct {
	Sections map[string]string            // head -> rest, without servers
	Backends map[string]map[string]server // sluice's own, whose names begin with _, among them
	Maps     map[string]map[string]string
	Lists    map[string][]string
	Certs    map[string]string // content by name
	CrtList  []string
}

// references are the files and sections that a text names.
var references = regexp.MustCompile(`\b(?:maps|lists|certs|crt-lists)/[^\s,)"]+|http_auth(?:_group)?\(([^)]+)\)|\sfrom (\S+)`)

// load reads the files of a generation, by path, in the way of HAProxy, and refuses what
// HAProxy would refuse.
func load(content map[string][]byte) (*served, error) {
	s := &served{Sections: map[string]string{}, Backends: map[string]map[string]server{}, Maps: map[string]map[string]string{},
		Lists: map[string][]string{}, Certs: map[string]string{}}
	for _, name := range slices.Sorted(maps.Keys(content)) {
		folder, file := path.Split(name)
		base, text := strings.TrimSuffix(file, path.Ext(file)), string(content[name])
		refuse := func(why string) error { return &process.Refusal{File: name, Line: 1, Message: why} }
		if strings.HasPrefix(file, ".") {
			continue
		}
		switch folder {
		case "conf.d/":
			if path.Ext(file) != ".cfg" {
				continue
			}
			if !strings.HasSuffix(text, "\n") {
				return nil, refuse("missing LF on the last line")
			}
			if err := s.sections(text, content); err != nil {
				return nil, refuse(err.Error())
			}
		case "maps/":
			s.Maps[base] = map[string]string{}
			for line := range strings.Lines(text) {
				key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
				if before, twice := s.Maps[base][key]; twice {
					value = before + " and " + value
				}
				s.Maps[base][key] = value
			}
		case "lists/":
			s.Lists[base] = slices.Sorted(strings.Lines(text))
		case "certs/":
			s.Certs[file] = text
		}
	}
	if err := s.crtList(content["crt-lists/https.list"]); err != nil {
		return nil, &process.Refusal{File: "conf.d/20-frontends.cfg", Line: 1, Message: err.Error()}
	}
	return s, s.complete()
}

// sections reads a file of conf.d.
func (s *served) sections(text string, content map[string][]byte) error {
	head := ""
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0][0] == '#' {
			continue
		}
		for _, found := range references.FindAllStringSubmatch(line, -1) {
			if _, there := content[found[0]]; strings.Contains(found[0], "/") && found[1] == "" && found[2] == "" && !there {
				return fmt.Errorf("%s is missing", found[0])
			}
		}
		switch {
		case line[0] != ' ':
			if !slices.Contains([]string{"global", "defaults", "frontend", "backend", "userlist", "resolvers"}, words[0]) {
				return fmt.Errorf("unknown keyword %s", words[0])
			}
			head = strings.Join(words, " ")
			if _, twice := s.Sections[head]; twice {
				return fmt.Errorf("%s is there twice", head)
			}
			s.Sections[head] = ""
			if words[0] == "backend" {
				if s.Backends[words[1]] != nil {
					return fmt.Errorf("backend %s is there twice", words[1])
				}
				s.Backends[words[1]] = map[string]server{}
			}
		case head == "":
			return fmt.Errorf("%s outside of any section", words[0])
		case words[0] == "server":
			servers := s.Backends[strings.Fields(head)[1]]
			if _, twice := servers[words[1]]; twice {
				return fmt.Errorf("server %s is there twice", words[1])
			}
			servers[words[1]] = newServer(words[2:])
		default:
			s.Sections[head] += line
		}
	}
	return nil
}

// newServer reads what stands behind the name of a server.
func newServer(words []string) server {
	v := server{Weight: 1}
	var rest []string
	for i := 0; i < len(words); i++ {
		switch {
		case words[i] == "weight" && i+1 < len(words):
			i++
			v.Weight, _ = strconv.Atoi(words[i])
		case words[i] == "disabled":
			v.Maint = true
		default:
			rest = append(rest, words[i])
		}
	}
	v.Parameters = strings.Join(rest, " ")
	return v
}

func (s *served) crtList(text []byte) error {
	for line := range strings.Lines(string(text)) {
		name := path.Base(strings.Fields(line)[0])
		if _, there := s.Certs[name]; !there {
			return fmt.Errorf("certificate %s is missing", name)
		}
		s.CrtList = append(s.CrtList, strings.TrimSpace(line))
	}
	if len(s.CrtList) == 0 {
		return fmt.Errorf("no certificate")
	}
	return nil
}

// complete refuses what refers to a section that is not there.
func (s *served) complete() error {
	refuse := func(format string, args ...any) error {
		return &process.Refusal{File: "conf.d/00-global.cfg", Line: 1, Message: fmt.Sprintf(format, args...)}
	}
	defined := map[string]bool{}
	for head := range s.Sections {
		words := strings.Fields(head)
		defined[strings.Join(words[:min(2, len(words))], " ")] = true
	}
	for _, head := range []string{"global", "frontend http", "frontend https", "defaults web"} {
		if !defined[head] {
			return refuse("%s is missing", head)
		}
	}
	for head, text := range s.Sections {
		for _, found := range references.FindAllStringSubmatch(head+"\n"+text, -1) {
			if found[1] != "" && !defined["userlist "+found[1]] {
				return refuse("%s: userlist %s is missing", head, found[1])
			}
			if found[2] != "" && strings.Contains(head, found[0]) && !defined["defaults "+found[2]] {
				return refuse("%s: defaults %s is missing", head, found[2])
			}
		}
	}
	return nil
}
