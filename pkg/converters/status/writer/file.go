package writer

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/converters/status"
	"github.com/sluice-proxy/sluice/pkg/haproxy/files"
)

// filePause is the least time between two writes of the file.
const filePause = 200 * time.Millisecond

const kindFile = "File"

// File writes all statuses and findings into one file: each object with its status, where
// something is wanted of it, and with its findings. It is for standalone mode.
type File struct {
	path    string
	log     *slog.Logger
	metrics Metrics
	wake    chan struct{} // holds a value while something is not written

	mu      sync.Mutex
	entries map[snapshot.Key]*entry
}

// entry is one object of the file.
type entry struct {
	status  status.Status
	notices []status.Notice
	text    []byte // nil: to be made
}

// NewFile prepares a writer; Run does the work.
func NewFile(path string, log *slog.Logger, metrics Metrics) *File {
	f := &File{path: path, log: log, metrics: metrics, wake: make(chan struct{}, 1), entries: map[snapshot.Key]*entry{}}
	f.touch() // the file of an earlier run may say something else
	return f
}

func (f *File) touch() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// Leads is true: nobody else writes the file.
func (f *File) Leads() bool { return true }

// Post takes over the items that changed.
func (f *File) Post(items []status.Item) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, item := range items {
		e := f.entry(item.Object)
		if e.status.Equal(item.Wanted) {
			continue
		}
		e.status, e.text = item.Wanted, nil
		f.settle(item.Object, e)
		f.touch()
	}
}

// Notice takes over all findings, replacing those before.
func (f *File) Notice(notices []status.Notice) {
	byObject := map[snapshot.Key][]status.Notice{}
	for _, n := range notices {
		key := snapshot.Key{Kind: snapshot.Kind(n.Object.Kind), Namespace: n.Object.Namespace, Name: n.Object.Name}
		byObject[key] = append(byObject[key], n)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, e := range f.entries {
		if _, found := byObject[key]; !found && len(e.notices) > 0 {
			byObject[key] = nil
		}
	}
	for key, list := range byObject {
		e := f.entry(key)
		if slices.Equal(e.notices, list) {
			continue
		}
		e.notices, e.text = list, nil
		f.settle(key, e)
		f.touch()
	}
}

func (f *File) entry(key snapshot.Key) *entry {
	if e := f.entries[key]; e != nil {
		return e
	}
	return &entry{}
}

// settle keeps an entry that says something.
func (f *File) settle(key snapshot.Key, e *entry) {
	if e.status.IsZero() && len(e.notices) == 0 {
		delete(f.entries, key)
	} else {
		f.entries[key] = e
	}
}

// Run writes the file until ctx ends, and once more then if need be.
func (f *File) Run(ctx context.Context) error {
	f.metrics.leads(true)
	var last []byte
	last, _ = os.ReadFile(f.path) // what can't be read is written anew
	for {
		select {
		case <-ctx.Done():
			select {
			case <-f.wake:
				f.write(last)
			default:
			}
			return nil
		case <-f.wake:
			last = f.write(last)
		}
		pause := time.NewTimer(filePause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
		}
	}
}

// write replaces the file if it says something else than the last one, which it returns.
func (f *File) write(last []byte) []byte {
	text := f.Text()
	if bytes.Equal(text, last) {
		return last
	}
	if err := files.Replace(f.path, text, 0o644); err != nil {
		f.metrics.wrote(kindFile, resultError)
		f.log.Error("the file of statuses was not written; it is tried at the next change", "error", err)
		return last
	}
	f.metrics.wrote(kindFile, resultOK)
	return text
}

// Text is the content of the file.
func (f *File) Text() []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.entries) == 0 {
		return []byte("objects: []\n")
	}
	text := bytes.NewBufferString("objects:\n")
	for _, key := range slices.SortedFunc(maps.Keys(f.entries), snapshot.CompareKeys) {
		e := f.entries[key]
		if e.text == nil {
			e.text = e.marshal(key)
		}
		text.Write(e.text)
	}
	return text.Bytes()
}

// marshal is an entry as a member of the list.
func (e *entry) marshal(key snapshot.Key) []byte {
	type finding struct {
		Severity report.Severity `json:"severity"`
		Code     report.Code     `json:"code"`
		Field    string          `json:"field,omitempty"`
		Message  string          `json:"message"`
		File     string          `json:"file,omitempty"`
		Line     int             `json:"line,omitempty"`
	}
	object := struct {
		APIVersion string         `json:"apiVersion,omitempty"`
		Kind       snapshot.Kind  `json:"kind"`
		Namespace  string         `json:"namespace,omitempty"`
		Name       string         `json:"name"`
		Status     *status.Status `json:"status,omitempty"`
		Findings   []finding      `json:"findings,omitempty"`
	}{APIVersion: status.APIVersion(key.Kind), Kind: key.Kind, Namespace: key.Namespace, Name: key.Name}
	if !e.status.IsZero() {
		object.Status = &e.status
	}
	for _, n := range e.notices {
		object.Findings = append(object.Findings, finding{n.Severity(), n.Code, n.Object.Field, n.Message, n.File, n.Line})
	}
	text, err := yaml.Marshal([]any{object})
	if err != nil {
		panic(fmt.Sprintf("writer: the status of %s: %v", key, err)) // plain texts and numbers
	}
	return text
}
