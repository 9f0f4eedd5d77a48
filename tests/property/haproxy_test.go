package property

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/sluice-proxy/sluice/pkg/haproxy/apply"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/plan"
	"github.com/sluice-proxy/sluice/pkg/haproxy/serverline"
	"github.com/sluice-proxy/sluice/pkg/haproxy/socket"
)

// haproxy is a HAProxy as the line sees it: the real one, or a model of it.
type haproxy interface {
	// config adds the sides of HAProxy to the configuration of an Apply; hook is called
	// while the folder is read by a reload.
	config(c *apply.Config, pid func() int, hook func(point string))
	die()
	trouble(what string) // that comes once
	// differs says in what a worker differs from what it shall serve; empty: in nothing.
	differs(w *world, want *served) string
}

// fake is a model of HAProxy: master, worker and supervisor in one.
type fake struct {
	mu             sync.Mutex
	current        string // the link to the current generation
	old            bool   // it adds and deletes no backends at run time
	expected       func() int
	hook           func(point string)
	master, worker int
	pids           int // given away so far
	state          *served
	next           string   // trouble that comes once
	complaints     []string // about commands that do not fit the state; in order before a reload
}

func (f *fake) config(c *apply.Config, pid func() int, hook func(point string)) {
	f.expected, f.hook = pid, hook
	c.Worker, c.Master, c.Supervisor, c.Check = fakeWorker{f}, f, f, f.check
}

func (f *fake) die() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.master, f.worker, f.state = 0, 0, nil
}

func (f *fake) trouble(what string) { f.next = what }

func (f *fake) takes(what string) bool {
	if f.next != what {
		return false
	}
	f.next = ""
	return true
}

func (f *fake) check(_ context.Context, confDir string) error {
	f.hook("haproxy checks")
	content, err := read(filepath.Dir(confDir))
	if err == nil {
		_, err = load(content)
	}
	return err
}

func (f *fake) read() (*served, error) {
	content, err := read(f.current)
	if err != nil {
		return nil, err
	}
	return load(content)
}

func (f *fake) Start(context.Context) error {
	next, err := f.read()
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pids += 2
	f.master, f.worker, f.state = f.pids-1, f.pids, next
	return nil
}

func (f *fake) Adopt(context.Context) (int, bool) { return f.PID(), f.PID() != 0 }

func (f *fake) PID() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.master
}

func (f *fake) Reload(context.Context) (string, error) {
	if f.PID() == 0 {
		return "", errors.New("no such socket")
	}
	next, err := f.read()
	if err != nil {
		return "", &socket.Refused{Logs: err.Error()}
	}
	refused := f.takes("reload is refused")
	func() {
		// HAProxy goes on when the controller is killed meanwhile.
		defer func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			if !refused {
				f.pids++
				f.worker, f.state = f.pids, next
			}
		}()
		f.hook("haproxy reads")
	}()
	if refused {
		return "", &socket.Refused{Logs: "cannot bind"}
	}
	if f.takes("answer to reload is lost") {
		return "", errors.New("connection reset")
	}
	return "", nil
}

func (f *fake) Processes(context.Context) ([]socket.Process, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.master == 0 {
		return nil, errors.New("no such socket")
	}
	return []socket.Process{{PID: f.master, Type: "master"}, {PID: f.worker, Type: "worker"}}, nil
}

// fakeWorker is the runtime socket: its PID is the worker's.
type fakeWorker struct{ *fake }

// connect locks the worker where it is the expected one.
func (f fakeWorker) connect() (func(), error) {
	f.mu.Lock()
	switch want := f.expected(); {
	case f.master == 0:
		f.mu.Unlock()
		return nil, errors.New("no such socket")
	case want != 0 && want != f.worker:
		f.mu.Unlock()
		return nil, &socket.WrongWorker{Want: want, Have: f.worker}
	}
	return f.mu.Unlock, nil
}

func (f fakeWorker) PID(context.Context) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.master == 0 {
		return 0, errors.New("no such socket")
	}
	return f.worker, nil
}

func (f fakeWorker) Generation(context.Context) (uint64, error) {
	unlock, err := f.connect()
	if err != nil {
		return 0, err
	}
	defer unlock()
	n, _ := strconv.ParseUint(f.state.Maps["sluice"]["generation"], 10, 64)
	return n, nil
}

func (f fakeWorker) SetGeneration(_ context.Context, n uint64) error {
	unlock, err := f.connect()
	if err != nil {
		return err
	}
	defer unlock()
	f.state.Maps["sluice"]["generation"] = strconv.FormatUint(n, 10)
	return nil
}

func (f fakeWorker) Probe(context.Context) (socket.Abilities, error) {
	unlock, err := f.connect()
	if err == nil {
		unlock()
	}
	return socket.Abilities{Backends: err == nil && !f.old}, err
}

func (f fakeWorker) Backends(context.Context) ([]string, error) {
	unlock, err := f.connect()
	if err != nil {
		return nil, err
	}
	defer unlock()
	return slices.Collect(maps.Keys(f.state.Backends)), nil
}

func (f fakeWorker) Run(_ context.Context, commands []plan.Command) ([]socket.Result, error) {
	results := make([]socket.Result, len(commands))
	unlock, err := f.connect()
	if err != nil {
		for i, c := range commands {
			results[i] = socket.Result{Command: c, Err: err}
		}
		return results, err
	}
	defer unlock()
	broken := f.takes("socket breaks")
	notAdded := "" // a backend
	for i, c := range commands {
		results[i].Command = c
		if i > 0 && results[i-1].Err != nil {
			if add, ok := commands[i-1].(plan.AddBackend); ok {
				notAdded = add.Backend.Name
			}
		}
		if notAdded != "" && err == nil {
			results[i].Err = &socket.NotSent{Backend: notAdded}
			continue
		}
		if broken && i >= len(commands)/2 {
			err = errors.New("connection reset")
			results[i].Err = err
			continue
		}
		if f.takes("answer is odd") {
			results[i].Err = &socket.UnexpectedAnswer{Command: c.Verb(), Answer: "huh"}
			continue
		}
		if _, ok := c.(plan.AddBackend); ok && f.old {
			f.complaints = append(f.complaints, "this HAProxy adds no backends")
		}
		if why := f.state.carryOut(c); why != "" {
			f.complaints = append(f.complaints, fmt.Sprintf("%s: %s", plan.Describe(c), why))
			results[i].Err = &socket.UnexpectedAnswer{Command: c.Verb(), Answer: why}
		}
	}
	return results, err
}

// carryOut does what a command says, in the way of package socket: what is found done
// already is fine. What HAProxy would answer otherwise is the result.
func (s *served) carryOut(command plan.Command) string {
	switch c := command.(type) {
	case plan.AddBackend, plan.DelBackend:
		return s.onBackend(command)
	case plan.AddServer, plan.SetServer, plan.DelServer:
		return s.onServer(command)
	case plan.EditMap:
		for _, e := range c.Edits {
			if delete(s.Maps[c.Map], e.Key); e.Value != nil {
				s.Maps[c.Map][e.Key] = *e.Value
				if (strings.HasPrefix(c.Map, "routes-") || c.Map == "tcp") && s.Backends[*e.Value] == nil {
					return e.Key + " leads nowhere"
				}
			}
		}
	case plan.EditList:
		list := slices.DeleteFunc(s.Lists[c.List], func(line string) bool { return slices.Contains(c.Remove, strings.TrimSpace(line)) })
		for _, entry := range c.Add {
			list = append(list, entry+"\n")
		}
		slices.Sort(list)
		s.Lists[c.List] = slices.Compact(list)
	default:
		return s.onCertificate(command)
	}
	return ""
}

func (s *served) onBackend(command plan.Command) string {
	switch c := command.(type) {
	case plan.AddBackend:
		base := "base-backend"
		if c.Backend.Profile.Shape.TCP {
			base = "base-tcp"
		}
		rules, loaded := s.Sections["defaults "+c.Backend.Profile.Name+" from "+base]
		if !loaded {
			return "no such profile"
		}
		for _, found := range references.FindAllStringSubmatch(rules, -1) {
			if _, there := s.Sections["userlist "+found[1]]; found[1] != "" && !there {
				return "userlist " + found[1] + " is not loaded"
			}
			if name, is := strings.CutPrefix(found[0], "lists/"); is && s.Lists[strings.TrimSuffix(name, ".lst")] == nil {
				return name + " is not loaded"
			}
		}
		s.Sections["backend "+c.Backend.Name+" from "+c.Backend.Profile.Name] = ""
		s.Backends[c.Backend.Name] = map[string]server{}
		for _, server := range c.Backend.Servers {
			if why := s.onServer(plan.AddServer{Backend: c.Backend.Name, Server: server, Options: c.Backend.Options}); why != "" {
				return why
			}
		}
	case plan.DelBackend:
		for _, name := range []string{"routes-exact", "routes-prefix", "tcp", "hosts"} {
			for key, value := range s.Maps[name] {
				if value == c.Backend {
					return key + " leads there"
				}
			}
		}
		delete(s.Backends, c.Backend)
		maps.DeleteFunc(s.Sections, func(head, _ string) bool { return strings.HasPrefix(head, "backend "+c.Backend+" ") })
	}
	return ""
}

func (s *served) onServer(command plan.Command) string {
	switch c := command.(type) {
	case plan.AddServer:
		servers, found := s.Backends[c.Backend]
		if !found {
			return "no such backend"
		}
		v := newServer(strings.Fields(string(serverline.AppendParameters(nil, &c.Server, serverline.Options(c.Options)))))
		v.Maint = c.Server.State == model.Maint
		for _, word := range strings.Fields(v.Parameters) {
			if name, is := strings.CutPrefix(word, "certs/"); is && s.Certs[name] == "" {
				return name + " is not loaded"
			}
		}
		if before, found := servers[c.Server.Name()]; found {
			v.Parameters = before.Parameters // "add server" is answered that it exists
		}
		servers[c.Server.Name()] = v
	case plan.SetServer:
		v, found := s.Backends[c.Backend][c.Server]
		if !found {
			return "no such server"
		}
		if c.Weight != nil {
			v.Weight = *c.Weight
		}
		if c.State != nil {
			v.Maint = *c.State == model.Maint
		}
		s.Backends[c.Backend][c.Server] = v
	case plan.DelServer:
		delete(s.Backends[c.Backend], c.Server)
	}
	return ""
}

func (s *served) onCertificate(command plan.Command) string {
	switch c := command.(type) {
	case plan.AddCertificate:
		if s.Certs[c.Certificate.Name] == "" {
			s.Certs[c.Certificate.Name] = c.Certificate.PEM.Reveal()
		}
	case plan.AddCAFile:
		if s.Certs[c.Certificate.Name] == "" {
			s.Certs[c.Certificate.Name] = c.Certificate.PEM.Reveal()
		}
	case plan.DelCertificate:
		if slices.ContainsFunc(s.CrtList, func(line string) bool { return strings.HasPrefix(line+" ", "certs/"+c.Name+" ") }) {
			return "it is in use"
		}
		for name, servers := range s.Backends {
			for _, v := range servers {
				if slices.Contains(strings.Fields(v.Parameters), "certs/"+c.Name) {
					return "it is in use by " + name
				}
			}
		}
		delete(s.Certs, c.Name)
	case plan.AddCrtLine:
		line := crtLine(c.Line.Certificate, c.Line.Hosts)
		if _, found := s.Certs[c.Line.Certificate]; !found {
			return "no such certificate"
		}
		if !slices.Contains(s.CrtList, line) {
			s.CrtList = append(s.CrtList, line)
		}
	case plan.DelCrtLine:
		line := crtLine(c.Line.Certificate, c.Line.Hosts)
		if s.CrtList[0] == line {
			return "the first line can't be deleted"
		}
		s.CrtList = slices.DeleteFunc(s.CrtList, func(l string) bool { return l == line })
	default:
		return "unknown command"
	}
	return ""
}

func crtLine(certificate string, hosts []string) string {
	return strings.Join(append([]string{"certs/" + certificate}, hosts...), " ")
}
