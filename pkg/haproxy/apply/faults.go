package apply

import "github.com/sluice-proxy/sluice/pkg/haproxy/files"

// FaultPoints are the names of the steps that Config.Fault is told of: those of the
// folder, and those between them.
func FaultPoints() []string {
	return append(files.FaultPoints(),
		"batch begins", "batch marked", "commands sent", "generation swapped", "key set", "records saved", "batch saved",
		"reload begins", "early commands sent", "reload staged", "journal staged", "checked", "swapped", "reloaded",
		"journal replayed", "reload ends", "swapped back", "reload abandoned", "journal told", "removals tried",
	)
}
