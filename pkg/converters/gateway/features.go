package gateway

import "slices"

// claims are the features of the Gateway API v1.6 in the five profiles of a gateway, and whether
// this controller does what each stands for, from the object to the traffic. The status of each
// GatewayClass tells those that it does, and the conformance suite runs what they stand for: a
// feature becomes true together with what was missing for it.
func claims() map[string]bool {
	return map[string]bool{
		"Gateway":        true,
		"ReferenceGrant": true,
		"HTTPRoute":      true,
		"GRPCRoute":      true,
		"TLSRoute":       true,
		"TCPRoute":       true,
		"UDPRoute":       true,

		"GatewayAddressEmpty":                                        true,
		"GatewayBackendClientCertificate":                            true,
		"GatewayFrontendClientCertificateValidation":                 true,
		"GatewayFrontendClientCertificateValidationInsecureFallback": true,
		"GatewayHTTPListenerIsolation":                               true,
		"GatewayHTTPSListenerDetectMisdirectedRequests":              true,
		"GatewayInfrastructure":                                      true,
		"GatewayPort8080":                                            true,
		"GatewayStaticAddresses":                                     true,
		"ListenerSet":                                                true,

		"BackendTLSPolicy":                          true,
		"BackendTLSPolicySANValidation":             false,
		"HTTPRoute303RedirectStatusCode":            true,
		"HTTPRoute307RedirectStatusCode":            true,
		"HTTPRoute308RedirectStatusCode":            true,
		"HTTPRouteBackendProtocolH2C":               true,
		"HTTPRouteBackendProtocolWebSocket":         true,
		"HTTPRouteBackendRequestHeaderModification": true,
		"HTTPRouteBackendTimeout":                   true,
		"HTTPRouteCORS":                             true,
		"HTTPRouteDestinationPortMatching":          true,
		"HTTPRouteHostRewrite":                      true,
		"HTTPRouteMethodMatching":                   true,
		"HTTPRouteNamedRouteRule":                   true,
		"HTTPRouteParentRefPort":                    true,
		"HTTPRoutePathRedirect":                     true,
		"HTTPRoutePathRewrite":                      true,
		"HTTPRoutePortRedirect":                     true,
		"HTTPRouteQueryParamMatching":               true,
		"HTTPRouteRequestMirror":                    true,
		"HTTPRouteRequestMultipleMirrors":           true,
		"HTTPRouteRequestPercentageMirror":          true,
		"HTTPRouteRequestTimeout":                   true,
		"HTTPRouteResponseHeaderModification":       true,
		"HTTPRouteRetry":                            true,
		"HTTPRouteRetryBackendTimeout":              true,
		"HTTPRouteRetryConnectionError":             true,
		"HTTPRouteSchemeRedirect":                   true,

		"GRPCRouteNamedRouteRule": true,
		"TLSRouteModeMixed":       true,
		"TLSRouteModeTerminate":   true,
	}
}

// SupportedFeatures are the names of what this controller claims, in alphabetical order.
func SupportedFeatures() []string {
	var list []string
	for name, done := range claims() {
		if done {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}
