package resolve

import (
	"time"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/settings"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// Globals are the global settings and what is computed of them once, not per backend.
type Globals struct {
	Set *settings.Set
	// Web is the default profile: the shape of the global settings, with its values as
	// literals. A backend without options of its own shares this pointer.
	Web *model.Profile
	// Findings say what in the global settings can't be honoured for any path.
	Findings []report.Finding
	// AnyNamespace lets an object name Secrets of other namespaces (--allow-cross-namespace).
	// The global ConfigMap and class parameters always may, they are the administrator's.
	AnyNamespace bool
	// LocalEndpoints lets a Service lead to loopback and link-local addresses: to what runs
	// beside HAProxy, the admin address for one (--allow-local-endpoints).
	LocalEndpoints bool
	// Place is where HAProxy runs, for Services that ask for endpoints that are near.
	Place Place

	// web is what a backend without options of its own does. It is nil where the global
	// settings name a Secret: then each backend has to look that up.
	web *behaviour
	// servers is what the global settings say of each server.
	servers serverValues
}

// BackendRef is what a route asks for. It names a backend unit: equal keys are equal
// backends.
type BackendRef struct {
	Namespace string
	Service   string // empty: a backend without servers, for a redirect or a denied path
	// Port is the Service's port as the route writes it: a number in decimal, or a name.
	Port string
	// Layers are the options of the route, lowest first: class parameters, then those of
	// the object. The Service's own annotations are added by Backend.
	Layers []settings.Layer
	// StripPath is the matched path; set only where rewrite-target is in force.
	StripPath string
	// Deny is the status with which the path answers every request, where the converter
	// found that it can't be served, and said so; 0 otherwise.
	Deny int
	// TCP: connections are handed on as they are, see Shape.TCP.
	TCP bool
	// Gateway is what only references of the Gateway API say; nil for all others.
	Gateway *GatewayRef
	// Origin is the object that asks, with the field: findings about a missing Service are
	// its findings. It is no part of the key: of several askers with one key, any may stand
	// here. Always set where a Service is named.
	Origin model.Origin
}

// GatewayRef is what a reference of the Gateway API says beside the Service and its port. A
// Service that is missing, or has not that port, answers 500 then, not 503; the
// BackendTLSPolicies of the Service count; appProtocol says what servers speak.
type GatewayRef struct {
	Filters *Filters // of the rule and of the reference together; nil: none
	// H2: servers speak HTTP/2, whatever the Service says (gRPC).
	H2 bool
	// ClientCertificate is the Secret that servers are shown over TLS; zero: none. One that is
	// missing is a matter of the Gateway, and is not shown.
	ClientCertificate snapshot.Key
	// Passthrough: TLS is between client and server, so policies that ask for TLS to the
	// servers have no effect.
	Passthrough bool
	// UDP: the port is one for datagrams. HAProxy does not serve it, see model.UDPListener.
	UDP bool
}

// Datagrams tells whether the reference asks for a backend of a model.UDPListener.
func (r *BackendRef) Datagrams() bool { return r.Gateway != nil && r.Gateway.UDP }

// BackendFragment is the result of one backend unit.
type BackendFragment struct {
	// Backend is sealed and never nil. Its lists and users hang on its profile's Shape. The
	// entries of a list change at run time, so take them from the newest fragment.
	Backend *model.Backend
	// CAFiles are the files that Options.CAFile names, for model.Model.CAFiles.
	CAFiles []*model.Certificate
	// Certificates are the client certificates that Options.CertFile names, for
	// model.Model.Certificates.
	Certificates []*model.Certificate
	Findings     []report.Finding
}

// CertificateFragment is the result of one certificate unit.
type CertificateFragment struct {
	// Certificate is nil where the Secret can't be used: then the host is served with the
	// default certificate.
	Certificate *model.Certificate
	Names       []string // DNS names and addresses of the leaf, sorted, in lower case
	// Next is when the answer changes by time alone: the leaf becomes valid, or expires.
	// Zero: never.
	Next     time.Time
	Findings []report.Finding
}

// Bind are the addresses of the Ingress listeners, as the flags give them, in HAProxy's
// notation ("*:80", "[::]:80", "127.0.0.1:8080").
type Bind struct{ HTTP, HTTPS []string }

// ProcessFragment is what follows from the global settings alone.
type ProcessFragment struct {
	Process   model.Process
	Defaults  model.Defaults
	Frontends []*model.Frontend // sorted by name; one without an address is left out
	Lists     []*model.List     // that the frontends name
	// Resolvers is the section for servers by DNS name; the model holds it only where a
	// backend has such a server.
	Resolvers *model.Resolvers
	Findings  []report.Finding
}

// StatusDenied is what a path answers that can't be served, or whose protection can't be
// honoured.
const StatusDenied = 503

// StatusBroken is what the Gateway API asks for where a backend does not exist or is not
// permitted, or its TLS can't be had.
const StatusBroken = 500

// ResolversName is the name of the resolvers section.
const ResolversName = "sluice"
