package report

// Code names a kind of finding. Codes are stable: users match on them.
type Code string

// The codes.
const (
	ManifestUnreadable  Code = "ManifestUnreadable"
	ObjectInvalid       Code = "ObjectInvalid"
	ObjectUnsupported   Code = "ObjectUnsupported"
	FieldUnknown        Code = "FieldUnknown"
	ControlCharacter    Code = "ControlCharacter"
	HostInvalid         Code = "HostInvalid"
	PathInvalid         Code = "PathInvalid"
	PathConflict        Code = "PathConflict"
	TLSConflict         Code = "TLSConflict"
	PortConflict        Code = "PortConflict"
	ResourceBackend     Code = "ResourceBackend"
	ServiceMissing      Code = "ServiceMissing"
	ServicePortMissing  Code = "ServicePortMissing"
	EndpointInvalid     Code = "EndpointInvalid"
	EndpointRefuses     Code = "EndpointRefuses"
	ClassNone           Code = "ClassNone"
	ClassMissing        Code = "ClassMissing"
	ClassParameters     Code = "ClassParameters"
	SecretMissing       Code = "SecretMissing"
	SecretInvalid       Code = "SecretInvalid"
	ConfigMapMissing    Code = "ConfigMapMissing"
	CertificateExpired  Code = "CertificateExpired"
	CertificateHost     Code = "CertificateHost"
	OptionUnknown       Code = "OptionUnknown"
	OptionInvalid       Code = "OptionInvalid"
	OptionScope         Code = "OptionScope"
	OptionUnsupported   Code = "OptionUnsupported"
	OptionConflict      Code = "OptionConflict"
	OptionForeign       Code = "OptionForeign"
	OptionRisky         Code = "OptionRisky"
	ProtectionDenied    Code = "ProtectionDenied"
	PasswordHashRefused Code = "PasswordHashRefused"
	CrossNamespace      Code = "CrossNamespace"
	Quarantined         Code = "Quarantined"
	AccessDenied        Code = "AccessDenied"

	ListenerInvalid       Code = "ListenerInvalid"
	ListenerConflict      Code = "ListenerConflict"
	ReferenceNotPermitted Code = "ReferenceNotPermitted"
	RouteNotAttached      Code = "RouteNotAttached"
	RuleInvalid           Code = "RuleInvalid"
	BackendInvalid        Code = "BackendInvalid"
	PolicyInvalid         Code = "PolicyInvalid"
)

// Entry is what the catalogue says of a code.
type Entry struct {
	Severity Severity
	Title    string // a few words
	Text     string // what it means and what to do
}

// Catalogue holds every code. It is never changed; docs/findings.md is made of it.
var Catalogue = map[Code]Entry{
	ManifestUnreadable:  {Error, "A manifest can't be read", "The file does not parse. Its last good content stays in force; correct the named line."},
	ObjectInvalid:       {Error, "An object makes no sense", "A required field is missing or contradicts another one. That part of the object is left out."},
	ObjectUnsupported:   {Info, "An object of a kind that sluice does not read", "It is ignored. Remove it from the source if that was not intended."},
	FieldUnknown:        {Warning, "A field that the object's kind does not have", "It has no effect. Check its spelling and its indentation."},
	ControlCharacter:    {Error, "A control character in a value", "Line breaks and other control characters are refused wherever HAProxy would read them. The value is not used."},
	HostInvalid:         {Error, "A host name is not valid", "A host is a DNS name, or a DNS name behind '*.'. The rule is not served."},
	PathInvalid:         {Error, "A path is not valid", "A path begins with '/' and holds neither blanks nor '#' nor '?'. The path is not served."},
	PathConflict:        {Warning, "Two objects claim the same host and path", "The older object is served. Remove the path from one of them."},
	TLSConflict:         {Warning, "Two objects name different certificates for one host", "The Secret of the older object is used."},
	PortConflict:        {Warning, "A port of a TCP service is taken", "A port is a listener of sluice, or is claimed by an older object that asks for something else of it. Choose another port."},
	ResourceBackend:     {Error, "A backend that is not a Service", "Only Services can be backends. The path answers 503."},
	ServiceMissing:      {Error, "A Service does not exist", "The path answers 503 until the Service is created; nothing else needs to be touched then."},
	ServicePortMissing:  {Error, "A Service lacks the port", "The path answers 503 until the Service has a port of that number or name."},
	EndpointInvalid:     {Warning, "An endpoint can't be used", "An EndpointSlice holds an address or a port that is not valid. The other endpoints serve."},
	EndpointRefuses:     {Warning, "A ready endpoint does not take connections", "Its pod refuses connections or does not answer, although its readiness probe succeeds. Requests that meet it are sent to another endpoint; look at the pod and at its probe."},
	ClassNone:           {Info, "An Ingress that belongs to no class", "It is not served. Set spec.ingressClassName, mark an IngressClass as default, or run sluice with --watch-ingress-without-class."},
	ClassMissing:        {Warning, "An IngressClass does not exist", "The object is not served until a class of that name belongs to this controller."},
	ClassParameters:     {Warning, "The parameters of an IngressClass can't be used", "Parameters name a ConfigMap. The class is served without them."},
	SecretMissing:       {Error, "A Secret does not exist", "What needs it is denied, or served with the default certificate, until it is created."},
	ConfigMapMissing:    {Warning, "A ConfigMap does not exist", "Nothing of what it would say is in force until it is created. See whether the flag has its right name."},
	SecretInvalid:       {Error, "A Secret can't be used", "Its content is missing, empty or malformed. Correct the Secret."},
	CertificateExpired:  {Warning, "A certificate has expired", "The host is served with the default certificate. Renew the certificate in the Secret."},
	CertificateHost:     {Info, "A certificate does not cover a host", "Clients will refuse the connection. Add the host to the certificate."},
	OptionUnknown:       {Warning, "An option of that name does not exist", "It has no effect. The message names the nearest options that exist."},
	OptionInvalid:       {Warning, "The value of an option can't be read", "The option keeps its default; an option that protects something denies the path instead."},
	OptionScope:         {Warning, "An option stands where it has no effect", "Some options belong into the global ConfigMap only, some do not work on a Service."},
	OptionUnsupported:   {Warning, "A known option that sluice does not offer", "It has no effect. The message says why and what to use instead."},
	OptionForeign:       {Info, "Annotations of another controller", "Annotations of ingress-nginx and of HAProxy Technologies' controller are not read: none of them has an effect, those that protect something neither. The message names the options that do the same."},
	OptionConflict:      {Warning, "Two objects set one option differently", "The Service wins over the Ingress, the older Ingress over the younger one."},
	OptionRisky:         {Warning, "The value of an option does harm", "It is used as it stands. The message says what it costs and what to set instead."},
	ProtectionDenied:    {Error, "A path is denied because its protection can't be honoured", "An allow list, authentication or verification is wrong. The path answers 503 until it is corrected."},
	PasswordHashRefused: {Error, "A password hash is refused", "Its cost is too high, its kind is unknown or its password is empty. That user can't log in."},
	CrossNamespace:      {Error, "A reference to another namespace is refused", "Only objects of the same namespace may be named. What needs it is denied."},
	Quarantined:         {Error, "HAProxy refuses what an object asks for", "The object is left out, or served in its last good form, so that others are not held up. Correct the object; it is tried again at each of its changes."},
	AccessDenied:        {Error, "A kind of object may not be read", "The cluster does not allow sluice to read it, so it counts as if there were none. Add the permission that the message names."},

	ListenerInvalid:       {Error, "A Gateway or a listener can't be served", "What the message names can't be honoured or does not exist. The other listeners serve."},
	ListenerConflict:      {Error, "Two listeners stand against each other", "A connection could not choose between them. Of two listeners of a Gateway none is served; a ListenerSet yields to the Gateway and to older ListenerSets."},
	ReferenceNotPermitted: {Error, "A reference to another namespace is not permitted", "Create a ReferenceGrant in the other namespace. Until then, requests that need what is named are answered 500."},
	RouteNotAttached:      {Warning, "A route is not attached to a parent", "No listener of the parent takes the route: its section name, port, kind, namespace or hostnames do not fit. It serves at its other parents."},
	RuleInvalid:           {Error, "A rule of a route can't be honoured", "It is left out, or answers 500 where leaving it out would open what a filter protects. The other rules serve."},
	BackendInvalid:        {Error, "A backend of a route is not valid", "Its share of the requests is answered 500."},
	PolicyInvalid:         {Error, "A BackendTLSPolicy can't be honoured", "Requests to the Services that it targets are answered 500; nothing is sent in plain text."},
}
