// Package model is the backend model: what HAProxy shall do, in HAProxy's terms
// and as plain values.
//
// It owns the types that the converters fill in and that shard, template and plan
// read. It imports the standard library only and knows no Kubernetes type, no file
// and no socket. Its place on the line is between Convert and Shard.
//
// Everything reachable from a Model is immutable once it was handed on. Large parts
// (backends, tables) share structure between one Model and the next, so that two
// Models are compared in time proportional to what differs: equal pointers mean
// equal content.
//
// Limits: a Model holds at most Buckets buckets of backends, which bounds the number
// of shards.
package model
