// Package resolve turns what a route asks for into what HAProxy is given: a Service with
// its options into a model.Backend, a Secret into a certificate, the global settings into
// the process, its base sections and its frontends. Routes of every API go through it, so
// that a feature has one implementation.
//
// Everything here is a pure function of its arguments and of the objects that the View
// hands out; each look-up is noted by the View, found or missing, so that memo knows when
// to run the unit again. What is wrong with an object is a finding. What protects
// something and can't be honoured denies the path with 503, it never opens it.
//
// It may import settings, snapshot, report, and on the HAProxy side model and token. It
// stands within Convert.
//
// Limits: a Secret holds at most maxUsers users and maxCertificates certificates; the
// costs of password hashes are bounded (see users.go), since HAProxy computes each of
// them when it loads the configuration.
package resolve
