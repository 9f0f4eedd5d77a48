package kubelet

import (
	"strings"

	"github.com/sluice-proxy/sluice/tests/kube/internal/container"
)

// Image is what a container image is here: programs of this machine, and what the image's
// configuration would say.
type Image struct {
	// Files are mounted, read-only: path in the container to path on this machine. All else of the machine is visible, too.
	Files map[string]string
	// Readable are further paths of the machine that a container's user must be able to reach although a folder
	// above them is closed.
	Readable   []string
	Entrypoint []string // a pod's command stands in for it, and for Cmd
	Cmd        []string // a pod's args stand in for it
	Env        []string // NAME=VALUE
	Dir        string   // working folder; default /
	UID, GID   int
	// Listens says that the program is a server: a container without a readiness probe is not ready before it
	// listens. A kubelet would call it ready at once, and its first requests would fail.
	Listens bool
}

// ImageKey is a reference without registry host, tag and digest: what images are known by.
func ImageKey(reference string) string {
	reference, _, _ = strings.Cut(reference, "@")
	if host, rest, found := strings.Cut(reference, "/"); found && (strings.ContainsAny(host, ".:") || host == "localhost") {
		reference = rest
	}
	// After the host is gone, a colon can only begin the tag.
	reference, _, _ = strings.Cut(reference, ":")
	return reference
}

func (i Image) mounts() []container.Mount {
	var mounts []container.Mount
	for target, source := range i.Files {
		mounts = append(mounts, container.Mount{Source: source, Target: target, ReadOnly: true})
	}
	return mounts
}

// argv follows the table of the pod's command and args against the image's.
func (i Image) argv(command, args []string) []string {
	switch {
	case len(command) > 0:
		return append(append([]string{}, command...), args...)
	case len(args) > 0:
		return append(append([]string{}, i.Entrypoint...), args...)
	default:
		return append(append([]string{}, i.Entrypoint...), i.Cmd...)
	}
}
