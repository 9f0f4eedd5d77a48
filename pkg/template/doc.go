// Package template renders a layout to the files of a tree, with the templates of rootfs
// or of the folder that --templates names.
//
// It is pure: the same layout, model and templates give the same bytes. A shard, table
// or list that is known to stand in the old tree already is not rendered again, and neither
// are the backends of a bucket that did not change: their sections are kept. Servers
// are written by package serverline, a user's text by package token, or, in maps and lists,
// as it passed token when it got into the model: a template decides what stands where, never
// how a value is quoted.
//
// It imports the HAProxy side (model, shard, tree, serverline, token). It stands between
// Shard and Plan.
//
// Limits: a template sees the model, not the objects it was made of. Maps, lists, crt-lists
// and certificates are written without a template.
package template
