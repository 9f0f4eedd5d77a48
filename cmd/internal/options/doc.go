// Package options holds what the command line says: one struct, one table of flags.
//
// Every command takes the flags of the table that name it. docs/flags.md is generated
// from the table, and a test fails when it is stale. Validate refuses what can be refused
// without looking at the machine, and says what to write instead.
//
// It imports pflag and nothing of the project. It stands before the line: cmd/sluice fills
// it in, loop reads it.
//
// Limits: flags are the only source; there are no environment variables but
// $SLUICE_HAPROXY, and no configuration file.
package options
