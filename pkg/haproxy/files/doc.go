// Package files is the only package that touches the configuration folder and the
// registry folder.
//
//	CONFIG/.sluice            marker and lock: the folder is sluice's
//	CONFIG/current -> gen-7   what HAProxy is started on; swapped by one rename
//	CONFIG/gen-7/conf.d/ maps/ crt-lists/ lists/ certs/
//	CONFIG/gen-6/             the last good generation, as long as it holds no key that
//	                          gen-7 lacks
//	STATE/registry/           registry.json and shard-NNN.json
//
// Files never change in place: a new version is written under a hidden temporary name
// in the same folder and renamed over the old one. Hence a generation can share its
// unchanged files with the one before by hard links, and a process that dies at any
// point leaves whole files only. Files below certs/, and those whose content is a
// secret, have mode 0600 from their creation, whatever the umask; the others 0644.
//
// What must survive a loss of power is synced: each file before its rename, the files of
// a batch together before the first rename (Batch.WriteAll), each folder once per batch
// (Batch.Sync), and a generation as a whole before the swap. Two kinds
// of files are not synced, since HAProxy does not outlive a loss of power and nothing
// is lost with them: maps/sluice.map, which then just tells that a full start is
// needed, and the registry, whose damaged records cost one rewrite of their shards.
//
// It imports model, shard and tree. It decides nothing: which files belong into the
// folder is plan's business, the order of the steps that of apply.
//
// Limits: Linux only (flock, syncfs). A Folder is changed by one goroutine at a time; only
// Stage of another generation may run beside a write to the current one. Scan, Compare and
// Generation may be called from any goroutine.
package files
