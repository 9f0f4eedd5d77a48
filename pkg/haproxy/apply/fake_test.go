package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sluice-proxy/sluice/pkg/haproxy/plan"
	"github.com/sluice-proxy/sluice/pkg/haproxy/process"
	"github.com/sluice-proxy/sluice/pkg/haproxy/shard"
	"github.com/sluice-proxy/sluice/pkg/haproxy/socket"
)

// haproxy stands for a HAProxy with its sockets. It lives in a file, so that it outlives
// a controller that is killed. It is master, worker and supervisor in one.
type haproxy struct {
	path    string // of the file
	current string // the link to the current generation
	fault   func(point string)
	worker  func() int       // the expected pid
	answer  map[string]error // by verb: what the next such command is answered
	loading func()           // called between reading the files and the switch to the new worker
	reload  func() error     // fails a reload
	early   bool             // the next reload ends with a worker that somebody else started before it
	lost    func() error     // fails the answer to a reload that took place
	hangs   bool             // checks and starts do not end
	slow    bool             // a reload lists the new worker, which does not answer yet
	started []string         // reloads and starts
	sent    []string         // commands
	mu      sync.Mutex       // of what changes the worker
	noSock  bool             // the runtime socket does not answer
	old     bool             // it can't add backends
	streams map[string]bool  // backends with a stream
	probed  []int            // pids of workers
	olds    atomic.Int64     // old workers that have not ended
}

// process as it is kept in the file.
type processes struct {
	Master, Worker int
	Key            string
	State          state
	Profiles       []string // that the worker has loaded
}

func (h *haproxy) read() processes {
	var p processes
	if text, err := os.ReadFile(h.path); err == nil {
		if err := json.Unmarshal(text, &p); err != nil {
			panic(err)
		}
	}
	return p
}

func (h *haproxy) write(p processes) {
	text, err := json.Marshal(p)
	if err == nil {
		err = errors.Join(os.WriteFile(h.path+".new", text, 0o600), os.Rename(h.path+".new", h.path))
	}
	if err != nil {
		panic(err)
	}
	h.fault("haproxy changed")
}

// load reads a generation as HAProxy does: whoever finds a folder half written fails.
func load(dir string) (processes, error) {
	refuse := func(format string, args ...any) (processes, error) {
		return processes{}, &process.Refusal{File: "conf.d", Line: 1, Message: fmt.Sprintf(format, args...)}
	}
	content := map[string][]byte{}
	for _, pattern := range []string{"conf.d/*.cfg", "maps/*.map"} {
		list, _ := filepath.Glob(filepath.Join(dir, pattern))
		for _, path := range list {
			if strings.HasPrefix(filepath.Base(path), ".") {
				continue
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return refuse("%v", err)
			}
			name, _ := filepath.Rel(dir, path)
			content[name] = text
		}
	}
	for _, name := range []string{"conf.d/00-global.cfg", "conf.d/10-profiles.cfg", "conf.d/20-frontends.cfg", "maps/sluice.map", "maps/routes-exact.map"} {
		if _, found := content[name]; !found {
			return refuse("%s is missing", name)
		}
	}
	global := string(content["conf.d/00-global.cfg"])
	if strings.Contains(global, "no-such-keyword") {
		return refuse("unknown keyword")
	}
	m, err := shard.Recover(content) // also refuses a backend that is there twice
	if err != nil {
		return refuse("%v", err)
	}
	s := renderer{}.stateOf(m)
	s.Global = global
	number, _ := generationIn(content["maps/sluice.map"])
	key := strconv.FormatUint(number, 10)
	p := processes{Key: key, State: s}
	for _, profile := range m.Profiles {
		p.Profiles = append(p.Profiles, profile.Name)
	}
	for b := range m.Backends.All {
		if !slices.Contains(p.Profiles, b.Profile.Name) {
			return refuse("%s: no such profile", b.Name)
		}
	}
	return p, nil
}

func (h *haproxy) Check(ctx context.Context, confDir string) error {
	if h.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	_, err := load(filepath.Dir(confDir))
	return err
}

func (h *haproxy) Start(ctx context.Context) error {
	h.started = append(h.started, "start")
	if h.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	next, err := load(h.current)
	if err != nil {
		return err
	}
	next.Master = h.read().Worker + 1
	next.Worker = next.Master + 1
	h.write(next)
	return nil
}

func (h *haproxy) Adopt(context.Context) (int, bool) { return h.PID(), h.PID() != 0 }

func (h *haproxy) PID() int { return h.read().Master }

func (h *haproxy) Reload(context.Context) (string, error) {
	h.started = append(h.started, "reload")
	if h.early {
		h.early = false
		p := h.read()
		p.Worker++ // with what stood there before
		h.write(p)
		return "", nil
	}
	next, err := load(h.current)
	if err != nil {
		return "", &socket.Refused{Logs: "refused"}
	}
	if h.loading != nil {
		h.loading()
	}
	if h.reload != nil {
		if err := h.reload(); err != nil {
			return "", err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	old := h.read()
	if old.Master == 0 {
		return "", errors.New("no such socket")
	}
	next.Master, next.Worker = old.Master, old.Worker+1
	if h.slow {
		return "", errors.New("connection reset")
	}
	h.write(next)
	if h.lost != nil {
		return "", h.lost()
	}
	return "", nil
}

func (h *haproxy) Processes(context.Context) ([]socket.Process, error) {
	p := h.read()
	if h.slow {
		p.Worker++
	}
	list := []socket.Process{{PID: p.Master, Type: "master"}, {PID: p.Worker, Type: "worker"}}
	for n := range int(h.olds.Load()) {
		list = append(list, socket.Process{PID: 100_000 + n, Type: "worker", Old: true})
	}
	return list, nil
}

// runtimeOf is the worker's socket: its PID is another one than the master's.
type runtimeOf struct{ *haproxy }

func (h runtimeOf) PID(context.Context) (int, error) {
	p := h.read()
	if p.Master == 0 || h.noSock {
		return 0, errors.New("no such socket")
	}
	return p.Worker, nil
}

func (h runtimeOf) connect() (processes, error) {
	p := h.read()
	switch want := h.worker(); {
	case p.Master == 0 || h.noSock:
		return p, errors.New("no such socket")
	case want != 0 && want != p.Worker:
		return p, &socket.WrongWorker{Want: want, Have: p.Worker}
	}
	return p, nil
}

func (h runtimeOf) Generation(context.Context) (uint64, error) {
	p, err := h.connect()
	number, _ := generationIn([]byte("generation " + p.Key))
	return number, err
}

func (h runtimeOf) Probe(context.Context) (socket.Abilities, error) {
	p, err := h.connect()
	if err == nil {
		h.haproxy.probed = append(h.probed, p.Worker)
	}
	return socket.Abilities{Backends: err == nil && !h.old}, err
}

func (h runtimeOf) Backends(context.Context) ([]string, error) {
	p, err := h.connect()
	return slices.Collect(maps.Keys(p.State.Backends)), err
}

func (h runtimeOf) SetGeneration(_ context.Context, n uint64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	p, err := h.connect()
	if err == nil {
		p.Key = fmt.Sprint(n)
		h.write(p)
	}
	return err
}

func (h runtimeOf) Run(_ context.Context, commands []plan.Command) ([]socket.Result, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	results := make([]socket.Result, len(commands))
	p, err := h.connect()
	for i, c := range commands {
		results[i] = socket.Result{Command: c, Err: err}
		if err != nil {
			continue
		}
		h.haproxy.sent = append(h.sent, plan.Describe(c))
		if answer, found := h.answer[c.Verb()]; found {
			delete(h.answer, c.Verb())
			results[i].Err = answer
			continue
		}
		if del, ok := c.(plan.DelBackend); ok && h.streams[del.Backend] {
			results[i].Err = &socket.Pending{Backend: del.Backend}
			continue
		}
		results[i].Err = p.carryOut(c)
		h.write(p)
	}
	return results, err
}

func (p processes) carryOut(c plan.Command) error {
	s := p.State
	unexpected := func(text string) error {
		return &socket.UnexpectedAnswer{Command: c.Verb(), Answer: text}
	}
	switch c := c.(type) {
	case plan.AddBackend:
		if !slices.Contains(p.Profiles, c.Backend.Profile.Name) {
			return unexpected("no such profile")
		}
		s.Backends[c.Backend.Name] = map[string]string{}
		for _, server := range c.Backend.Servers {
			s.Backends[c.Backend.Name][server.Name()] = server.State.String()
		}
	case plan.DelBackend:
		for key, value := range s.Maps["routes-exact"] {
			if value == c.Backend {
				return unexpected(key + " leads there")
			}
		}
		delete(s.Backends, c.Backend)
	case plan.AddServer:
		if s.Backends[c.Backend] == nil {
			return unexpected("no such backend")
		}
		s.Backends[c.Backend][c.Server.Name()] = c.Server.State.String()
	case plan.DelServer:
		delete(s.Backends[c.Backend], c.Server)
	case plan.SetServer:
		if s.Backends[c.Backend][c.Server] == "" {
			return unexpected("no such server")
		}
		if c.State != nil {
			s.Backends[c.Backend][c.Server] = c.State.String()
		}
	case plan.EditMap:
		for _, e := range c.Edits {
			if e.Value == nil {
				delete(s.Maps[c.Map], e.Key)
			} else {
				if c.Map == "routes-exact" && *e.Value != plan.Denied && s.Backends[*e.Value] == nil {
					return unexpected(e.Key + " leads nowhere")
				}
				s.Maps[c.Map][e.Key] = *e.Value
			}
		}
	default:
		return unexpected("unknown command")
	}
	return nil
}

// kill ends HAProxy.
func (h *haproxy) kill() {
	p := h.read()
	p.Master, p.State = 0, state{}
	h.write(p)
}

func (h *haproxy) has(command string) bool {
	return slices.ContainsFunc(h.sent, func(s string) bool { return strings.Contains(s, command) })
}
