package source

import (
	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
)

// Batch is what changed since the last one.
type Batch struct {
	Changes  []snapshot.Change // one for a key; unchanged objects are left out
	Findings []report.Finding  // all of the source at present, sorted; they replace the former
	Synced   bool              // all that was there at start is delivered; true for good from then on

	// Settled are keys that Contents.Want called pending: their content is among the
	// changes of this batch or an earlier one, or can't be had.
	Settled []snapshot.Key
	// Trouble is what keeps the source from following its objects, in words; empty: nothing.
	// It replaces the former.
	Trouble string
}

// Contents is a source that reads some objects only where they are referenced: the Secrets
// and ConfigMaps of a cluster. It is safe for concurrent use with the source's Run.
type Contents interface {
	// Want tells which keys are looked up from now on, and which no longer are. It returns
	// those of the former that exist and whose content is pending: each of them will stand
	// in the Settled of a batch.
	Want(wanted, unwanted []snapshot.Key) (pending []snapshot.Key)
}
