package model

import "strings"

// Names of the tables; each is the map file maps/<name>.map.
const (
	TableTLS       = "hosts-tls"      // host with TLS, wildcards with their "*." -> "t"
	TableHosts     = "hosts"          // exact host -> the backend that takes all its paths, else host flags
	TableWildcards = "hosts-wildcard" // what follows the first label of a wildcard host -> host flags
	TableExact     = "routes-exact"   // host#path -> backend
	TablePrefix    = "routes-prefix"  // host#path/ -> backend, the longest one wins
	TableTCP       = "tcp"            // port#host or frontend#host -> backend, weighted set, NoBackend or HandOn

	// Of the Gateway API; see package vhost for what stands in them.
	TableListeners  = "gateway-hosts"  // frontend#host -> virtual host
	TableRules      = "gateway-exact"  // virtual host#path -> backend, weighted set or list of rules
	TablePrefixes   = "gateway-prefix" // virtual host#path/ -> the same, the longest one wins
	TableConditions = "conditions"     // id of a list -> rules with conditions
	TableWeights    = "weights"        // id of a weighted set -> number of slots; id/slot -> backend
	TableMirrors    = "mirrors"        // id of a mirror, see SlotMirror -> backend
	TableValues     = "values"         // backend/slot -> text
)

// NoBackend stands in the table "tcp" where nobody is served: no wider host is looked up.
const NoBackend = "-"

// HandOn begins the name of the backend that hands connections on to a frontend.
const HandOn = "_to_"

// LeadsTo are the backends that an entry of a table names; none where it names none, as one
// does that refers to a weighted set or to a list.
func LeadsTo(table, value string) []string {
	switch table {
	case TableExact, TablePrefix, TableMirrors:
		return []string{value}
	case TableTCP:
		if value != NoBackend && !strings.HasPrefix(value, "=") && !strings.HasPrefix(value, HandOn) {
			return []string{value}
		}
	case TableHosts:
		if strings.Contains(value, "_") { // as in every backend's name, and in no flags
			return []string{value}
		}
	case TableRules, TablePrefixes, TableWeights:
		if _, backend := Action(value).Backend(); strings.Contains(backend, "_") { // a set has a number, too
			return []string{backend}
		}
	case TableConditions:
		var list []string
		for element := range strings.SplitSeq(value, ";") {
			_, action, is := strings.Cut(element, ">")
			if _, backend := Action(action).Backend(); is && backend != "" {
				list = append(list, backend)
			}
		}
		return list
	}
	return nil
}

// Action is what a rule of a Gateway leads to: see package vhost.
type Action string

// Backend is the backend that an action names, empty where it names a set or a list, and what
// stands before it: a time limit.
func (a Action) Backend() (limit, backend string) {
	if a == "" || a[0] == '=' || a[0] == '?' {
		return "", ""
	}
	if at := strings.LastIndexByte(string(a), '^') + 1; a[0] == '^' {
		return string(a[:at]), string(a[at:])
	}
	return "", string(a)
}
