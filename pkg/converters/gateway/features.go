package gateway

import "slices"

// SupportedFeatures are the names of what this controller claims of the Gateway API v1.6, in
// alphabetical order: the status of each GatewayClass tells them, and the conformance suite
// runs what they stand for. Nothing stands here that is not done.
func SupportedFeatures() []string {
	list := []string{
		"Gateway",
		"ReferenceGrant",
		"HTTPRoute",

		"GatewayAddressEmpty",
		"GatewayHTTPListenerIsolation",
		"GatewayPort8080",
		"GatewayStaticAddresses",
		"ListenerSet",

		"HTTPRouteDestinationPortMatching",
		"HTTPRouteMethodMatching",
		"HTTPRouteNamedRouteRule",
		"HTTPRouteParentRefPort",
		"HTTPRouteQueryParamMatching",
	}
	slices.Sort(list)
	return list
}
