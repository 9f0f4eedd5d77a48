package model

import (
	"strings"
	"time"
)

// DefaultProfile is the name of the profile of a backend that nobody set an option on.
// Its content follows the global ConfigMap, its name never changes: a global change
// does not touch the shards.
const DefaultProfile = "web"

// Profile is one named "defaults" section: everything about a backend that is neither a
// server nor a server option. It is a shape, that is, it says which rules exist. A text
// that HAProxy can look up at run time stands in the backend's Values instead.
//
// Any profile but the default one is named p_ and 16 hexadecimal characters of the digest of
// its Shape.
type Profile struct {
	Name  string
	Shape Shape
	// Literals are the values of the default profile, sorted by slot. Its rules look them
	// up in the table "values" under the profile's own name, where other profiles look up
	// the Values of the backend.
	Literals []Value
}

// Slots of Value that the rules of a profile look up. The templates name them as text; one
// that is not known (KnownSlot) does not render.
const (
	SlotRedirect       = "redirect"        // location of Redirect
	SlotRewrite        = "rewrite"         // new prefix, without a slash at its end; / where the prefix is only taken away
	SlotStrip          = "strip"           // number of bytes of the path that Rewrite replaces
	SlotPath           = "path"            // new path of SetPath
	SlotHost           = "host"            // new host of SetHost
	SlotRedirectScheme = "redirect-scheme" // of RedirectTo, and so for the next
	SlotRedirectHost   = "redirect-host"
	SlotRedirectPort   = "redirect-port"
	SlotBodySize       = "body-size"      // bytes
	SlotTimeoutServer  = "timeout-server" // milliseconds
	SlotTimeoutTunnel  = "timeout-tunnel" // milliseconds
	SlotCORSMethods    = "cors-methods"
	SlotCORSHeaders    = "cors-headers"
	SlotCORSExpose     = "cors-expose"
	SlotCORSMaxAge     = "cors-max-age" // seconds
	SlotCORSOrigin     = "origin/"      // followed by an allowed origin in lower case; any text
	SlotRequestHeader  = "request/"     // followed by the index in RequestHeaders
	SlotMirror         = "mirror/"      // followed by the index: id, numerator and denominator of the requests that are copied
	SlotRespHeader     = "response/"    // followed by the index in ResponseHeaders
)

// KnownSlot tells whether a text is one of the slots or, for those that end in a slash,
// begins with one.
func KnownSlot(slot string) bool {
	switch slot {
	case SlotPath, SlotHost, SlotRedirectScheme, SlotRedirectHost, SlotRedirectPort, SlotRedirect, SlotRewrite, SlotStrip, SlotBodySize, SlotTimeoutServer, SlotTimeoutTunnel,
		SlotCORSMethods, SlotCORSHeaders, SlotCORSExpose, SlotCORSMaxAge:
		return true
	}
	for _, prefix := range []string{SlotCORSOrigin, SlotMirror, SlotRequestHeader, SlotRespHeader} {
		if strings.HasPrefix(slot, prefix) {
			return true
		}
	}
	return false
}

// Shape are the rules and parameters of a profile. Its zero value has none of the
// optional rules and leaves timeouts to the base section.
type Shape struct {
	// TCP: the section is in mode tcp. Of the rest only what such a section can do has an
	// effect: the balance, timeouts, checks, address lists, and Deny, which closes the connection.
	TCP              bool          `json:",omitempty"`
	TCPTimeoutServer time.Duration `json:",omitempty"` // 0: that of the base section; so for the next
	TCPTimeoutTunnel time.Duration `json:",omitempty"`

	// Parameters of the section.
	Balance        string        // "balance" and its arguments
	TimeoutConnect time.Duration // 0: that of the base section
	TimeoutQueue   time.Duration // 0: that of the base section
	Retry          *Retry        `json:",omitempty"` // nil: that of the base section
	AbortOnClose   bool          `json:",omitempty"` // "option abortonclose": no more tries once the client is gone
	HTTPCheck      *HTTPCheck    // "option httpchk"
	Cookie         *Cookie       // session affinity

	// Rules on the request, in the order in which they are applied.
	Deny            int         // answer every request with this status: a protection that can't be honoured
	RetryUnsafe     bool        `json:",omitempty"` // requests, too, that are not idempotent (POST, PATCH)
	AllowList       *List       // 403 unless the client's address is in it
	AllowExcept     *List       // 403 although it is in AllowList
	DenyList        *List       // 403 if the client's address is in it
	DenyExcept      *List       // not denied although it is in DenyList
	SSLRedirect     int         // status of the redirect to https on hosts with TLS; 0: none
	SSLPort         int         `json:",omitempty"` // that the redirect names; 0: none, which is 443
	CORS            *CORS       // answers preflights before authentication
	BasicAuth       *Auth       // 401 unless a user of the list
	Redirect        int         // status of a redirect to Values[SlotRedirect]; 0: none
	LimitBody       bool        // 413 above Values[SlotBodySize]
	Rewrite         bool        // replace Values[SlotStrip] bytes of the path by Values[SlotRewrite]
	SetPath         bool        `json:",omitempty"` // replace the path by Values[SlotPath]
	SetHost         bool        `json:",omitempty"` // replace the host by Values[SlotHost]
	RedirectTo      *RedirectTo `json:",omitempty"` // redirect of the Gateway API; nil: none
	TimeoutServer   bool        // from Values[SlotTimeoutServer]
	TimeoutTunnel   bool        // from Values[SlotTimeoutTunnel]
	RequestHeaders  []Header    // values from Values[SlotRequestHeader + index]
	Mirror          bool        `json:",omitempty"` // copy requests as Values[SlotMirror + index] say
	ResponseHeaders []Header    // values from Values[SlotRespHeader + index]
	HSTS            string      // value of Strict-Transport-Security on hosts with TLS; empty: none
}

// Retry says what becomes of a request whose server fails before it answers.
type Retry struct {
	Times int    // "retries": further attempts, which bounds what failing servers cost the others
	On    string // "retry-on"; empty: none
	Moves bool   // "option redispatch 1": each of them at another server
}

// RedirectTo is a redirect that is put together of parts: each is the request's, or Values has
// it. The path is what Rewrite or SetPath make of it.
type RedirectTo struct {
	Status             int
	Scheme, Host, Port bool
}

// Cookie is the "cookie" keyword.
type Cookie struct {
	Name     string
	Strategy string   // insert, prefix or rewrite
	Keywords []string // "indirect", "nocache", "httponly", "secure", "preserve"
	Domain   string
	SameSite string // empty, None, Lax or Strict
}

// HTTPCheck is "option httpchk" with its "http-check send": a GET of the URI.
type HTTPCheck struct{ URI string }

// Auth is HTTP basic authentication.
type Auth struct {
	Users *Userlist
	Realm string
}

// CORS says which rules of cross-origin resource sharing exist; see the slots for its values.
type CORS struct {
	AnyOrigin   bool // "*": every origin, no look-up
	Credentials bool
	Expose      bool
	// Wildcards are the numbers of labels that stand behind the star of allowed origins, the
	// greatest first; 0: the star is the whole host.
	Wildcards []int `json:",omitempty"`
	// EchoMethods and EchoHeaders: a preflight is allowed what it asks for, and the values for
	// these are not looked up.
	EchoMethods bool `json:",omitempty"`
	EchoHeaders bool `json:",omitempty"`
	Refuses     bool `json:",omitempty"` // preflights of other origins are answered 403, and don't reach the server
}

// HeaderOp says what is done with a header.
type HeaderOp string

// The operations, as HAProxy names them.
const (
	SetHeader HeaderOp = "set-header"
	AddHeader HeaderOp = "add-header"
	DelHeader HeaderOp = "del-header"
)

// Header is one rule on a header. Its value, where there is one, is looked up at run time.
type Header struct {
	Op   HeaderOp
	Name string
}

// List is a file of addresses that an ACL reads: lists/<Name>.lst. Its content can
// change at run time, its name depends on whose list it is.
type List struct {
	Name    string
	Entries []string // addresses and networks in canonical form, sorted
	Origin  Origin
}

// Userlist is a "userlist" section, named after a digest of its content.
type Userlist struct {
	Name   string
	Users  []User // sorted by name
	Origin Origin
}

// User is one user of a Userlist.
type User struct {
	Name   string
	Hash   Secret // as crypt(3) writes it, or the password where Plain is set
	Plain  bool   // "insecure-password"
	Digest Digest // of Hash
}
