// Package vhost compiles the rules of one virtual host: of all rules that stand in it, which
// one takes a request. The result is entries of maps, never a rule of HAProxy, so a change of
// routes is a change of data.
//
// A virtual host is one listener with one host pattern. The rules in it are put in the order
// of the Gateway API: the exact path, a regular expression, the longest prefix, then, among
// equal paths, method, number of headers, number of query parameters, the older route,
// namespace and name, the order within the route. (Where a regular expression stands is left
// open by the API. Before the prefixes it can be used beside a rule for "/".)
//
//	virtual host#path  --gateway-exact.map-->   action
//	virtual host#path/ --gateway-prefix.map-->  action     the longest key
//
// An action is the name of a backend, behind "^500^" where all tries of a request may take 500 ms
// together; "=" and the id of a weighted set; or "?" and the id of a list, where the first rule of
// the path has conditions. A list is read by
// rootfs/etc/sluice/templates/route.lua. Its elements are divided by ";":
//
//	conditions>action   taken if all conditions hold; "&" stands between two
//	@id                 another list, read before the next element
//	+id                 another list, read instead of what would follow
//
// and conditions are m=METHOD, p~AUTOMATON of the path, and h=name=value, h~name~AUTOMATON
// of a header, q=name=value, q~name~AUTOMATON of a query parameter. Names and values are
// escaped as in a URL. See package pattern for automata.
//
// Each list holds the rules of its own path and goes on with the list of the next shorter
// prefix, so all lists together are as long as the rules. Ids are digests of what they
// stand for and of the virtual host: what an id means never changes, so a reader may keep it,
// and a change of weights or conditions is new entries, a flip of the action, and the removal
// of the old ones.
//
// Beside the lists "guard/" and a virtual host stands where the spelling of a path decides about
// a protection: there a path that can be read in two ways is answered 400. "clients/" and a
// listener stands where clients show a certificate: a request without one is answered 421.
//
// A weighted set has n slots, n being the sum of the weights divided by their greatest common
// divisor, at most 1 000, and at least one for each weight that is not 0.
//
// It imports gateway, and of the HAProxy side model, pattern and token. It is pure, and
// memo's: a part of the fold.
//
// Limits: with more than 1 000 slots, shares are rounded to a thousandth.
package vhost
