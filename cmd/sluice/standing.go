package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-proxy/sluice/cmd/internal/admin"
	"github.com/sluice-proxy/sluice/cmd/internal/loop"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/shard"
	"github.com/sluice-proxy/sluice/pkg/haproxy/tree"
)

// standing is a configuration that a diff compares with.
type standing struct {
	tree    *tree.Tree
	content map[string][]byte // nil values for secrets
	keys    bool              // the secrets are there, too
	dynamic bool              // its HAProxy adds and removes backends at run time
}

// readStanding reads a configuration folder of sluice, or a rendered tree.
func readStanding(folder string) (*standing, error) {
	if current := filepath.Join(folder, "current"); isFolder(current) {
		folder = current
	}
	if !isFolder(filepath.Join(folder, "conf.d")) {
		return nil, fmt.Errorf("--against=%s: there is neither current/ nor conf.d/ in it; name a configuration folder of sluice or a rendered tree", folder)
	}
	// Which HAProxy will run on it is not known: one of the first target.
	st := &standing{tree: &tree.Tree{}, content: map[string][]byte{}, dynamic: true}
	root, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return nil, fmt.Errorf("--against: %w", err)
	}
	err = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		path, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		st.add(filepath.ToSlash(path), model.DigestOf(text), text)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("--against: %w", err)
	}
	return st, nil
}

func isFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// fetchStanding asks a running sluice for its configuration.
func fetchStanding(url string) (*standing, error) {
	var list map[string]admin.File
	var state admin.Status
	for path, into := range map[string]any{"config": &list, "state": &state} {
		if err := fetch(url, path, into); err != nil {
			return nil, err
		}
	}
	st := &standing{tree: &tree.Tree{}, content: map[string][]byte{}, dynamic: state.Dynamic}
	for path, file := range list {
		var digest model.Digest
		if err := digest.UnmarshalText([]byte(file.Digest)); err != nil {
			return nil, fmt.Errorf("--running=%s: %s: %w", url, path, err)
		}
		st.add(path, digest, []byte(file.Content))
	}
	return st, nil
}

// fetch reads an answer of the API of a running sluice.
func fetch(url, path string, into any) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(url, "/")+"/api/v1/"+path, nil)
	if err != nil {
		return fmt.Errorf("--running=%s: %w", url, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("--running=%s: no sluice answers there: %w", url, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("--running=%s: the answer is %s; name the admin address of a sluice, for example http://127.0.0.1:9090", url, response.Status)
	}
	if err := json.NewDecoder(response.Body).Decode(into); err != nil {
		return fmt.Errorf("--running=%s: the answer is not that of sluice's admin address: %w", url, err)
	}
	return nil
}

func (st *standing) add(path string, digest model.Digest, text []byte) {
	kind := tree.KindOf(path)
	if kind.Secret() {
		st.keys, text = true, nil
	}
	st.tree.Add(tree.File{Path: path, Kind: kind, Digest: digest, Size: int64(len(text))})
	st.content[path] = text
}

// registry is what a registry would say of the configuration. What can't be compared is
// taken for equal to what the line wants: the controller's own certificate, which is
// another one in each process, and secrets where this side shows none.
func (st *standing) registry(line *loop.Line) (*shard.Registry, error) {
	served, err := shard.Recover(st.content)
	if err != nil {
		return nil, fmt.Errorf("the configuration to compare with was not written by sluice: %w", err)
	}
	fresh, err := line.Plan(nil)
	if err != nil {
		return nil, err
	}
	for path, file := range fresh.Tree.All {
		if path == "certs/"+loop.OwnCertificate || !st.keys && file.Kind.Secret() {
			st.tree.Add(tree.File{Path: path, Kind: file.Kind, Digest: file.Digest, Size: file.Size})
		}
	}
	if !st.keys {
		served.Certificates = certificatesOf(served, line.Model())
	}
	highest := 0
	for path := range st.content {
		name := strings.TrimSuffix(strings.TrimPrefix(path, "conf.d/50-backends-"), ".cfg")
		if n, err := strconv.Atoi(name); err == nil {
			highest = max(highest, n)
		}
	}
	shards := 1
	for shards <= highest {
		shards *= 2
	}
	header := shard.Header{Version: shard.Version, Shards: shards, Templates: line.Templates()}
	worker := shard.Worker{Dynamic: st.dynamic, Sections: shard.Sections(st.content[tree.ProfilesPath])}
	return &shard.Registry{Header: header, Tree: st.tree, Scanned: true, Served: served, Worker: worker}, nil
}

// certificatesOf are the certificates that a configuration without its keys has: those that
// its crt-list names, and those of the wanted model that no crt-list names.
func certificatesOf(served, wanted *model.Model) []*model.Certificate {
	var list []*model.Certificate
	for _, line := range served.CrtList {
		list = append(list, &model.Certificate{Name: line.Certificate})
	}
	named := map[string]bool{}
	for _, line := range wanted.CrtList {
		named[line.Certificate] = true
	}
	for _, certificate := range wanted.Certificates {
		if !named[certificate.Name] {
			list = append(list, certificate)
		}
	}
	return list
}
