package source

import (
	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
)

// Batch is what changed since the last one.
type Batch struct {
	Changes  []snapshot.Change // by key; unchanged objects are left out
	Findings []report.Finding  // all of the source at present, sorted; they replace the former
	Synced   bool              // all that was there at start is delivered; true for good from then on
}
