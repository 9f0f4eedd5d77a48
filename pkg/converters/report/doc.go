// Package report is what sluice has to say about users' objects: findings, as data.
//
// A finding says that an object is wrong, incomplete or overruled. It is never an error:
// conversion goes on, and the finding reaches the user through check, render and diff, the
// log, the admin address and a metric. The wording of codes lives in the catalogue of
// this package, from which docs/findings.md is generated.
//
// It imports the model for Origin and nothing else of the project. It rides along the
// whole line, from Convert to the end.
//
// Limits: a finding is one sentence about one object. Its severity is that of its code.
package report
