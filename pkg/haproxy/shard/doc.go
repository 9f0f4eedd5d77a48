// Package shard divides the backends into shards and keeps the registry, the one memory
// of what stands in the owned folder.
//
// Place is a pure function (old registry, model) -> layout; plan makes the next registry of
// the layout. On disk the registry is a folder of small files: a header, and one record for
// each shard, which is written only when its shard changes. This package is their text,
// files moves their bytes. Recover reads back what a worker serves from the files that it
// was started on, Sections the profiles that it can add backends from.
//
// It imports model, tree and serverline. It stands between Model and Render.
//
// Limits: at most model.Buckets shards. A number that is no power of two moves more backends
// than need be when it is doubled.
package shard
