package apply

import (
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/shard"
)

// saved is what the registry folder holds, so that only what differs is written.
type saved struct {
	header  shard.Header
	records []stub
}

// stub is what tells one record of a shard from another.
type stub struct {
	path        string
	model, file model.Digest
}

func stubOf(r shard.Record) stub { return stub{r.Path, r.Model, r.File} }

func savedFrom(r *shard.Registry) saved {
	s := saved{header: r.Header, records: make([]stub, len(r.Records))}
	for i := range r.Records {
		s.records[i] = stubOf(r.Records[i])
	}
	return s
}

// save writes the records that differ, then the header if it does. What can't be written
// is logged and tried again with the next batch: the registry spares work, and nothing
// is lost without it.
func (a *Apply) save() {
	a.reg = with(a.reg, func(r *shard.Registry) { r.Header.BootID, r.Header.PID = a.bootID, a.masterPID() })
	for i, r := range a.reg.Records {
		a.saveRecord(i, r)
	}
	for i := len(a.saved.records) - 1; i >= len(a.reg.Records); i-- {
		if err := a.cfg.Folder.RemoveRecord(i); err != nil {
			a.cfg.Log.Error("the registry could not be saved", "error", err)
			break
		}
		a.saved.records = a.saved.records[:i]
	}
	a.cfg.Fault("records saved")
	if a.saved.header == a.reg.Header {
		return
	}
	if err := a.cfg.Folder.SaveHeader(a.reg.Header); err != nil {
		a.cfg.Log.Error("the registry could not be saved", "error", err)
		return
	}
	a.saved.header = a.reg.Header
}

func (a *Apply) saveRecord(i int, r shard.Record) {
	for len(a.saved.records) <= i {
		a.saved.records = append(a.saved.records, stub{})
	}
	stub := stubOf(r)
	if a.saved.records[i] == stub {
		return
	}
	save := func() error { return a.cfg.Folder.SaveRecord(r) }
	if r.Path == "" {
		save = func() error { return a.cfg.Folder.RemoveRecord(i) }
	}
	if err := save(); err != nil {
		a.cfg.Log.Error("the registry could not be saved", "shard", i, "error", err)
		return
	}
	a.saved.records[i] = stub
}
