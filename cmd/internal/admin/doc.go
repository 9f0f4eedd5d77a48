// Package admin serves the admin address: health, readiness, metrics, profiles and the
// API that shows what sluice does.
//
// It reads a Status that the loop publishes, and the files of the current generation;
// it changes nothing. Private keys and password hashes are never served.
package admin
