package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/sluice-proxy/sluice/cmd/internal/admin"
	"github.com/sluice-proxy/sluice/cmd/internal/loop"
	"github.com/sluice-proxy/sluice/pkg/converters/resolve"
	"github.com/sluice-proxy/sluice/pkg/haproxy/files"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// ownCertificate is the controller's own certificate, kept in the state folder so that
// it stays the same over restarts. It is made anew when it is missing, damaged or expired.
func ownCertificate(stateDir string, now time.Time) (*model.Certificate, error) {
	name := filepath.Join(stateDir, loop.OwnCertificate)
	text, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("--state-dir: %w", err)
	}
	certificate, notAfter, err := resolve.ReadPair(model.NewSecret(text))
	if err != nil || notAfter.Before(now) {
		if certificate, err = resolve.SelfSigned(now); err != nil {
			return nil, err
		}
		if err := files.Replace(name, []byte(certificate.PEM.Reveal()), 0o600); err != nil {
			return nil, fmt.Errorf("--state-dir: %w", err)
		}
	}
	certificate.Name = loop.OwnCertificate
	return certificate, nil
}

// shown are the files of the current generation as the API shows them.
func shown(folder *files.Folder) (map[string]admin.File, error) {
	t, content, err := folder.Scan()
	if err != nil {
		return nil, err
	}
	list := make(map[string]admin.File, t.Len())
	for path, file := range t.All {
		f := admin.File{Kind: string(file.Kind), Digest: file.Digest.String(), Size: file.Size}
		if !file.Kind.Secret() {
			f.Content = string(content[path])
		}
		list[path] = f
	}
	return list, nil
}
