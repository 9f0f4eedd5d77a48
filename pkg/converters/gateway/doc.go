// Package gateway turns one object of the Gateway API into a Fragment: a Gateway (with the
// ListenerSets attached to it) into its listeners, a route into the listeners it is attached
// to and the rules that it brings there, each with the conditions that its status shall show.
//
// First attach, then emit: a route looks its parents up, and asks of each listener whether
// kind, namespace, hostname and port fit; what is attached brings rules whose backends are
// resolve.BackendRefs. Each function is a pure function of one object and of what the View
// hands out; a look-up of something that does not exist is noted like any other, so that a
// Service, a Namespace, a Secret or a ReferenceGrant that comes or goes runs again what looked
// for it and nothing else.
//
// Which of several rules takes a request, how many routes a listener has and which of two
// Gateways gets an address is not decided here: these are facts across objects, and memo's
// fold.
//
// Attachment follows the words of listeners alone: one that conflicts with another, or whose
// certificate is missing, has its routes attached and serves none of them. A rule that can't be
// honoured is left out (PartiallyInvalid), one with a filter that may keep somebody out answers
// 500 instead. A backend that is missing, not permitted or of another kind keeps its share, and
// answers 500.
//
// Limits: sessionPersistence, ExternalAuth, filters of other APIs (ExtensionRef) and
// retry.backoff are refused, and so are regular expressions that package pattern does not take.
// The certificate of a server can have no other name than the one that is sent
// (BackendTLSPolicy, subjectAltNames). Which certificates have expired is a matter of time,
// hence not told in conditions.
//
// It may import settings, resolve, snapshot and report, and of the HAProxy side model, token
// and pattern. It stands within Convert.
package gateway
