// Package admin serves the admin address: health, readiness, metrics, profiles and the
// API that shows what sluice does.
//
// It reads a Status that the loop publishes, and the files of the current generation;
// it changes nothing. Private keys and password hashes are never served.
//
// It imports report, and plan and tree for their words. It stands beside the line: the loop
// publishes, cmd/sluice starts the server.
//
// Limits: plain HTTP without authentication, so the address is a loopback one unless
// somebody says otherwise.
package admin
