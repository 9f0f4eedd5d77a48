package gateway

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/resolve"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// ListenerID names a listener.
type ListenerID struct {
	Gateway snapshot.Key
	Set     snapshot.Key // the ListenerSet that brings it; zero: the Gateway itself
	Name    string
}

// Listener is one listener of a Gateway, or of a ListenerSet that is attached to it.
type Listener struct {
	ID       ListenerID
	Port     int
	Protocol gatewayv1.ProtocolType // HTTP, HTTPS, TLS, TCP or UDP
	Host     string                 // in lower case; "*.example.com" stands for one or more labels; token.AnyHost
	// Passthrough: TLS is handed on as it is (protocol TLS, mode Passthrough).
	Passthrough bool
	// Secrets are the certificates where TLS ends here, those that are permitted.
	Secrets []snapshot.Key
	// ClientAuth is how clients prove who they are; nil: they need not.
	ClientAuth *ClientAuth
	// Serves tells whether connections are to be taken: the listener is accepted, conflicts
	// with none that comes first and has what it needs.
	Serves bool
	Origin model.Origin // with the field
}

// ClientAuth is frontend validation: who signs the certificates of clients.
type ClientAuth struct {
	Authorities []snapshot.Key // ConfigMaps or Secrets with ca.crt
	// Fallback lets clients in whose certificate is missing or not valid
	// (AllowInsecureFallback).
	Fallback bool
}

// Fragment is what one Gateway comes to.
type Fragment struct {
	Mine       bool // of a class of this controller; otherwise nothing else is set
	Created    time.Time
	Generation int64
	Listeners  []Listener // of the Gateway, then of its ListenerSets, in the order of precedence
	// Addresses are those that the Gateway asks for, in canonical form where they are
	// addresses; AnyAddress: one more that it leaves to us.
	Addresses  []string
	AnyAddress bool
	// Labels and Annotations are those that what is made for the Gateway shall carry
	// (spec.infrastructure).
	Labels, Annotations map[string]string
	// ClientCertificate is the Secret that servers are shown (spec.tls.backend); zero: none.
	ClientCertificate snapshot.Key
	// Status is that of the Gateway, but for what is known in the fold only: addresses, the
	// numbers of attached routes, and what follows for Programmed; see Placed.
	Status gatewayv1.GatewayStatus
	// Sets are the statuses of all ListenerSets that name the Gateway as parent, in the same way.
	Sets     []SetStatus
	Findings []report.Finding

	key snapshot.Key
}

// SetStatus is the status of one ListenerSet.
type SetStatus struct {
	Key        snapshot.Key
	Generation int64
	Attached   bool
	Status     gatewayv1.ListenerSetStatus
}

// PathMatch says how a Match compares paths.
type PathMatch uint8

// The comparisons of HTTPPathMatch; what needs no path at all is Prefix "/".
const (
	PathPrefix  PathMatch = iota // element by element
	PathExact                    // the path itself
	PathPattern                  // a regular expression, anchored at both ends
)

// Condition compares one header or query parameter.
type Condition struct {
	Name    string // of a header in lower case
	Value   string
	Pattern bool // Value is a regular expression, anchored at both ends
}

// Match is one way in which a request fits a rule.
type Match struct {
	Path    string // normalised as token spells it; without a slash at its end for PathPrefix, but for "/"
	How     PathMatch
	Method  string      // empty: any
	Headers []Condition // sorted by name, names unique
	Query   []Condition // sorted by name, names unique
}

// Target is one of the backends of a rule with its share of the requests.
type Target struct {
	Weight  int // 0 to 1 000 000
	Backend resolve.BackendRef
}

// Rule is one rule of a route. Of its Matches one must fit.
type Rule struct {
	Name    string  // empty: it has none
	Matches []Match // never empty for HTTP and gRPC; nil for connections
	// Targets are never empty: a rule without backends that answers by itself (a redirect), or
	// that has none that can be used, has one without a Service. All weights 0 is one with
	// Deny 500.
	Targets []Target
	// Closed: a filter that may keep somebody out can't be honoured, so every request gets 500.
	Closed bool
	Origin model.Origin // with the field
}

// Attachment is a place where the rules of a route stand: one listener, with the hosts that
// the route has in common with it.
type Attachment struct {
	Listener ListenerID
	Hosts    []string // sorted; for connections without names: token.AnyHost
	// Rules are in the order of the route. They differ from one listener to the next where the
	// Gateway's settings, its client certificate or the listener's port say so; otherwise it is
	// the same slice.
	Rules   []Rule
	Parents []int // the entries of RouteFragment.Parents by which the route came here; sorted
}

// RouteFragment is what one route comes to.
type RouteFragment struct {
	// Mine tells whether a parent is a Gateway of this controller; otherwise nothing else is set.
	Mine        bool
	Created     time.Time
	Generation  int64
	Attachments []Attachment // sorted by listener
	// Parents are the entries of the status that are this controller's, in the order of the
	// spec. They are complete but for lastTransitionTime, which the writer sets.
	Parents  []gatewayv1.RouteParentStatus
	Findings []report.Finding
}

// ClassFragment is what one GatewayClass comes to.
type ClassFragment struct {
	Mine   bool
	Status gatewayv1.GatewayClassStatus
}

// PolicyFragment is what one BackendTLSPolicy comes to.
type PolicyFragment struct {
	Targets []snapshot.Key // the Services that it is for; sorted
	// Conditions are those of each ancestor; Ancestors makes entries of the status of them.
	Conditions []metav1.Condition
	Findings   []report.Finding
}
