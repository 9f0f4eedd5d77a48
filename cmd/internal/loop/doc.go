// Package loop runs the straight line: changes of a source in, a running HAProxy out.
//
// Line is the line up to Plan, a function of values; the offline commands use a prefix
// of it. Loop owns all state in one goroutine: it takes changes while a reload is in
// flight, runs the line, and hands plans to apply. What HAProxy refuses is traced to its
// object here, and the line runs again without it.
package loop
