// Package settings owns the options of sluice: their names, scopes, types, defaults and
// meanings, and the reading of their values.
//
// Options come from the global ConfigMap, the parameters of an IngressClass and annotations
// of an Ingress or a Service; all of these end in a Set. One table (table_*.go) feeds the defaults, the findings and the page
// docs/options.md. A new option is one row of it. The names are those of
// haproxy-ingress; a name of that project that sluice lacks stands in unsupported.go, so that
// a user is told what to use instead.
//
// A value that can't be read costs only its option: it is as if the key did not stand there.
// An option that fails closed is the exception. It has either a safe value that takes the
// place of an unreadable one, or the path it belongs to must be denied, see Set.Denied.
//
// The texts that a Set hands out hold no control character and are valid UTF-8; they are not
// encoded for HAProxy: whoever writes one sends it through package token.
//
// It imports model (origins, digests), report (findings), token (the check for control
// characters) and the standard library, and knows no Kubernetes type. It stands below the
// converters, which fill Layers and read Sets.
//
// Limits: a text is at most 4096 bytes long and a list of headers 64 lines, so that each
// value fits one runtime command of HAProxy 3.2 (16 kB).
package settings
