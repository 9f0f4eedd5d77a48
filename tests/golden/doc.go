// Package golden holds one case file for each behaviour: manifests, and what becomes of
// them. It runs the program as a user would (sluice render) and lets both branches of
// HAProxy read every tree.
//
// A case is a txtar file below cases/. Its comment says in a sentence or two what it
// shows. Files named *.yaml are the source, "common" names files of the folder common/ that
// belong to it too, "flags" holds further flags of render. Every other section is a view of
// the result, and the case holds those that matter:
//
//	global, frontends  conf.d/00-global.cfg, conf.d/20-frontends.cfg
//	tcp                conf.d/25-tcp.cfg
//	profiles           conf.d/10-profiles.cfg without those of the next two
//	base               what all profiles inherit
//	base-tcp           what those of TCP services inherit
//	web                the default profile
//	userlists          conf.d/15-userlists.cfg
//	backends           all shard files
//	maps               all entries of all maps, behind the name of their map
//	lists              all entries of all lists, behind the name of their list
//	crt-list           crt-lists/https.list
//	crt-lists          those of Gateways' own frontends, behind the name of their list
//	files              the names of all files that are not empty
//	udp                what sluice serves itself, beside HAProxy
//	report             the findings
//	status             the statuses that objects get, with the findings again
//
// A view that is named with an expression, such as "frontends /log-format/", holds the
// lines that match.
//
// `make golden` (go test -update) writes the views anew. Names that hold a digest change
// with what they are a digest of; look at the diff before you commit it.
package golden
