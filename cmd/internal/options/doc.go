// Package options holds what the command line says: one struct, one table of flags.
//
// Every command takes the flags of the table that name it. docs/flags.md is generated
// from the table, and a test fails when it is stale.
package options
