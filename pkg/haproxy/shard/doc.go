// Package shard divides the backends into shards and keeps the registry, the one memory
// of what stands in the owned folder.
//
// Place is a pure function (old registry, model) -> (layout, new registry). The registry
// is a folder of small files: a header, and one record for each shard, which is written
// only when its shard changes. files.go reads and writes the text of a record; the
// bytes themselves are moved by apply.
//
// It imports the model and tree. It stands between Model and Render.
package shard
