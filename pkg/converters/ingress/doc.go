// Package ingress turns one Ingress into a Fragment: the hosts and paths it claims with
// the backends they lead to, the TLS hosts with their Secrets, and what is wrong with it.
//
// Convert is a pure function of one Ingress and of what the View hands out: the class,
// the class's parameters, no Service and no Secret. So an event on a Service, its
// endpoints or a Secret never runs an Ingress again. Which of two Ingresses wins a path
// is not decided here: that is a fact across objects, and memo's fold.
//
// It may import settings, resolve, snapshot and report, and of the HAProxy side model and
// token. It stands within Convert.
//
// The rules are those of the Ingress API (networking.k8s.io/v1), with these decisions:
//
//   - The annotation kubernetes.io/ingress.class wins over spec.ingressClassName, as the
//     API's documentation of that field demands. It names this controller's own class
//     even where no IngressClass object of that name exists.
//   - A path that is not valid is left out; one whose backend is a resource answers 503.
//   - The defaultBackend of an Ingress with rules serves the hosts of these rules only;
//     without rules it serves every host that nobody claims.
//   - ImplementationSpecific, also where no path type is given, is what the option
//     path-type says: "begin" unless set.
//
// Limits: a TLS entry without hosts needs rules with hosts, since a certificate is chosen
// by host name.
package ingress
