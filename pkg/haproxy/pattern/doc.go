// Package pattern turns the regular expressions of users into automata that HAProxy's Lua
// runs: a table of states, one step for each byte of a text.
//
// The expressions are those of RE2 (package regexp/syntax), and one matches if it matches the
// whole text. HAProxy's own expressions would do the same by backtracking, whose cost a tenant
// could drive up for everybody, and they stand in rules, so that each change would be a reload
// and every request would pay for all of them. An automaton is a value in a map: its cost is
// one look-up in a Lua table for each byte, whatever the expression is, and who uses none pays
// nothing.
//
// It imports the standard library only. It stands on the HAProxy side beside token; the
// converters check expressions with it, memo writes what it gives into a map, and
// rootfs/etc/sluice/templates/route.lua reads that.
//
// Limits: no back references, no look-around (RE2 has none) and no word boundaries; an
// expression whose automaton has more than 512 states, or is longer than 6 000 bytes as a
// text, is refused. A byte outside ASCII counts as one character that only "." and negated
// classes match; the path of a request has none, since it is looked up escaped.
package pattern
