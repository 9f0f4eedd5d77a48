package tree

import (
	"bytes"
	"fmt"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// Kind says what a file is for; it is the label of the metric sluice_file_writes_total.
type Kind string

// The kinds of files.
const (
	Global     Kind = "global"     // conf.d/00-global.cfg
	Profiles   Kind = "profiles"   // conf.d/10-profiles.cfg
	Userlists  Kind = "userlists"  // conf.d/15-userlists.cfg, mode 0600
	Frontends  Kind = "frontends"  // conf.d/20-frontends.cfg
	Shard      Kind = "shard"      // conf.d/50-backends-NNN.cfg
	Lua        Kind = "lua"        // lua/NAME.lua
	Map        Kind = "map"        // maps/NAME.map
	CrtList    Kind = "crt-list"   // crt-lists/NAME.list
	List       Kind = "list"       // lists/NAME.lst
	Cert       Kind = "cert"       // certs/DIGEST.pem, mode 0600
	Generation Kind = "generation" // maps/sluice.map: the number of the last applied batch
)

// File is one file of a tree.
type File struct {
	Path   string // below the tree's folder, with slashes
	Kind   Kind
	Digest model.Digest // of the content
	Size   int64        // bytes
	// Content is what to write. It is nil for a file that did not change since the last
	// tree: then the digest alone says what stands there.
	Content []byte
	// Parts hold the content in place of Content where other files share most of them: a map
	// of ten thousand routes is not copied for each one that is added. None is ever changed.
	Parts [][]byte
	// Secret holds the content in place of Content for private keys.
	Secret *model.Secret
}

// NewFile is a file with its digest and size.
func NewFile(path string, kind Kind, content []byte) File {
	return File{Path: path, Kind: kind, Digest: model.DigestOf(content), Size: int64(len(content)), Content: content}
}

// NewFileOf is a file that is put together of parts.
func NewFileOf(path string, kind Kind, parts [][]byte) File {
	file := File{Path: path, Kind: kind, Digest: model.DigestOf(parts...), Parts: parts}
	for _, part := range parts {
		file.Size += int64(len(part))
	}
	return file
}

// ProfilesPath is the file of all profiles.
const ProfilesPath = "conf.d/10-profiles.cfg"

// The number of the last applied batch is an entry of a map of its own.
const (
	GenerationMap  = "sluice"
	GenerationKey  = "generation"
	GenerationPath = "maps/" + GenerationMap + ".map"
)

// GenerationFile is maps/sluice.map with the number of a batch and the digest of the tree
// that the batch leads to, without this file itself.
func GenerationFile(batch uint64, t model.Digest) File {
	return NewFile(GenerationPath, Generation, fmt.Appendf(nil, "%s %d\ntree %s\n", GenerationKey, batch, t))
}

// NewSecretFile is a file whose content can't be printed.
func NewSecretFile(path string, kind Kind, content model.Secret) File {
	return File{Path: path, Kind: kind, Digest: content.Digest(), Size: int64(content.Len()), Secret: &content}
}

// Bytes is the content, whichever way it is held; nil for an unchanged file.
func (f File) Bytes() []byte {
	if f.Secret != nil {
		return []byte(f.Secret.Reveal())
	}
	if f.Parts != nil {
		return bytes.Join(f.Parts, nil)
	}
	return f.Content
}

// Pieces are the content as Bytes has it, one behind the other, without copying it.
func (f File) Pieces() [][]byte {
	if f.Parts != nil || !f.hasContent() {
		return f.Parts
	}
	return [][]byte{f.Bytes()}
}
