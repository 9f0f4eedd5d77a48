// Package template renders a layout to the files of a tree, with the templates of rootfs
// or of the folder that --templates names.
//
// It is pure: the same layout, model and templates give the same bytes. A shard, table
// or list that is known to stand in the old tree already is not rendered again. Servers
// are written by package serverline, every user's text by package token: a template
// decides what stands where, never how a value is quoted.
//
// It imports the HAProxy side (model, shard, tree, serverline, token). It stands between
// Shard and Plan.
package template
