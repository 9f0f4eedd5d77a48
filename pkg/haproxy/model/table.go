package model

import "strings"

// Names of the tables; each is the map file maps/<name>.map.
const (
	TableTLS       = "hosts-tls"      // host with TLS, wildcards with their "*." -> "t"
	TableHosts     = "hosts"          // exact host -> the backend that takes all its paths, else host flags
	TableWildcards = "hosts-wildcard" // what follows the first label of a wildcard host -> host flags
	TableExact     = "routes-exact"   // host#path -> backend
	TablePrefix    = "routes-prefix"  // host#path/ -> backend, the longest one wins
	TableTCP       = "tcp"            // port#host -> backend of a TCP service

	// Of the Gateway API; see package vhost for what stands in them.
	TableListeners  = "gateway-hosts"  // frontend#host -> virtual host
	TableRules      = "gateway-exact"  // virtual host#path -> backend, weighted set or list of rules
	TablePrefixes   = "gateway-prefix" // virtual host#path/ -> the same, the longest one wins
	TableConditions = "conditions"     // id of a list -> rules with conditions
	TableWeights    = "weights"        // id of a weighted set -> number of slots; id/slot -> backend
	TableValues     = "values"         // backend/slot -> text
)

// LeadsTo is the backend that an entry of a table leads to; empty where it leads to none.
func LeadsTo(table, value string) string {
	switch table {
	case TableExact, TablePrefix, TableTCP:
		return value
	case TableHosts:
		if strings.Contains(value, "_") { // as in every backend's name, and in no flags
			return value
		}
	}
	return ""
}
