// Package rootfs holds what the image holds below its root, embedded, so that the
// program needs nothing beside it. It imports nothing of the project.
package rootfs

import (
	"embed"
	"io/fs"
)

//go:embed etc/sluice/templates/*.tmpl etc/sluice/templates/*.lua
var files embed.FS

// Templates are the templates of the rendered configuration: NAME.tmpl, and NAME.lua.
func Templates() fs.FS {
	sub, err := fs.Sub(files, "etc/sluice/templates")
	if err != nil {
		panic(err) // the path is a constant of this file
	}
	return sub
}
