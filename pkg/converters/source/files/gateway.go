package files

import (
	"reflect"

	"k8s.io/apimachinery/pkg/util/validation"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
)

// gatewayKindOf is how a kind of the Gateway API is read; false if it is none. The fields are
// those of the experimental channel.
func gatewayKindOf(name string) (kind, bool) {
	k := kind{apiVersion: gatewayv1.GroupVersion.String(), checkName: validation.IsDNS1123Subdomain}
	beta, alpha := []string{"v1beta1"}, []string{"v1alpha2", "v1alpha3"}
	switch snapshot.Kind(name) {
	case snapshot.GatewayClass:
		k.cluster, k.alike, k.decode = true, beta, typed(completeGateway[gatewayv1.GatewayClass])
	case snapshot.Gateway:
		k.alike, k.decode = beta, typed(completeGateway[gatewayv1.Gateway])
	case snapshot.ListenerSet:
		k.decode = typed(completeGateway[gatewayv1.ListenerSet])
	case snapshot.HTTPRoute:
		k.alike, k.decode = beta, typed(completeGateway[gatewayv1.HTTPRoute])
	case snapshot.GRPCRoute:
		k.decode = typed(completeGateway[gatewayv1.GRPCRoute])
	case snapshot.TLSRoute:
		k.alike, k.decode = alpha, typed(completeGateway[gatewayv1.TLSRoute])
	case snapshot.TCPRoute:
		k.alike, k.decode = alpha[:1], typed(completeGateway[gatewayv1.TCPRoute])
	case snapshot.UDPRoute:
		k.alike, k.decode = alpha[:1], typed(completeGateway[gatewayv1.UDPRoute])
	case snapshot.ReferenceGrant:
		k.alike, k.decode = beta, typed(completeGateway[gatewayv1.ReferenceGrant])
	case snapshot.BackendTLSPolicy:
		k.alike, k.decode = alpha[1:], typed(completeGateway[gatewayv1.BackendTLSPolicy])
	default:
		return kind{}, false
	}
	return k, true
}

// completeGateway fills in the defaults of the CRDs (config/crd of the Gateway API), wherever
// in an object their types stand.
func completeGateway[T any](object *T) any {
	complete(reflect.ValueOf(object).Elem())
	return object
}

// complete completes a value from the outside in: a default may have defaults itself.
func complete(value reflect.Value) {
	switch value.Kind() {
	case reflect.Pointer:
		if !value.IsNil() {
			complete(value.Elem())
		}
	case reflect.Slice:
		for i := range value.Len() {
			complete(value.Index(i))
		}
	case reflect.Struct:
		completeListener(value.Addr().Interface())
		completeRoute(value.Addr().Interface())
		completeReference(value.Addr().Interface())
		for i := range value.NumField() {
			if value.Type().Field(i).IsExported() {
				complete(value.Field(i))
			}
		}
	}
}

// fill sets a field that is not given.
func fill[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

func completeListener(part any) {
	switch p := part.(type) {
	case *gatewayv1.Listener:
		fill(&p.AllowedRoutes, gatewayv1.AllowedRoutes{})
	case *gatewayv1.ListenerEntry:
		fill(&p.AllowedRoutes, gatewayv1.AllowedRoutes{})
	case *gatewayv1.AllowedRoutes:
		fill(&p.Namespaces, gatewayv1.RouteNamespaces{})
	case *gatewayv1.RouteNamespaces:
		fill(&p.From, gatewayv1.NamespacesFromSame)
	case *gatewayv1.AllowedListeners:
		fill(&p.Namespaces, gatewayv1.ListenerNamespaces{})
	case *gatewayv1.ListenerNamespaces:
		fill(&p.From, gatewayv1.NamespacesFromNone)
	case *gatewayv1.RouteGroupKind:
		fill(&p.Group, gatewayv1.GroupName)
	case *gatewayv1.ListenerTLSConfig:
		fill(&p.Mode, gatewayv1.TLSModeTerminate)
	case *gatewayv1.FrontendTLSValidation:
		if p.Mode == "" {
			p.Mode = gatewayv1.AllowValidOnly
		}
	case *gatewayv1.GatewaySpecAddress:
		fill(&p.Type, gatewayv1.IPAddressType)
	}
}

func completeRoute(part any) {
	switch p := part.(type) {
	case *gatewayv1.HTTPRouteSpec:
		if p.Rules == nil {
			p.Rules = make([]gatewayv1.HTTPRouteRule, 1)
		}
	case *gatewayv1.HTTPRouteRule:
		if p.Matches == nil {
			p.Matches = make([]gatewayv1.HTTPRouteMatch, 1)
		}
	case *gatewayv1.HTTPRouteMatch:
		fill(&p.Path, gatewayv1.HTTPPathMatch{})
	case *gatewayv1.HTTPPathMatch:
		fill(&p.Type, gatewayv1.PathMatchPathPrefix)
		fill(&p.Value, "/")
	case *gatewayv1.HTTPHeaderMatch:
		fill(&p.Type, gatewayv1.HeaderMatchExact)
	case *gatewayv1.HTTPQueryParamMatch:
		fill(&p.Type, gatewayv1.QueryParamMatchExact)
	case *gatewayv1.HTTPRequestRedirectFilter:
		fill(&p.StatusCode, 302)
	case *gatewayv1.HTTPCORSFilter:
		if p.MaxAge == 0 {
			p.MaxAge = 5
		}
	case *gatewayv1.Fraction:
		fill(&p.Denominator, 100)
	case *gatewayv1.GRPCMethodMatch:
		fill(&p.Type, gatewayv1.GRPCMethodMatchExact)
	case *gatewayv1.GRPCHeaderMatch:
		fill(&p.Type, gatewayv1.GRPCHeaderMatchExact)
	case *gatewayv1.SessionPersistence:
		fill(&p.Type, gatewayv1.CookieBasedSessionPersistence)
	case *gatewayv1.CookieConfig:
		fill(&p.LifetimeType, gatewayv1.SessionCookieLifetimeType)
	}
}

func completeReference(part any) {
	switch p := part.(type) {
	case *gatewayv1.ParentReference:
		fill(&p.Group, gatewayv1.GroupName)
		fill(&p.Kind, gatewayv1.Kind(snapshot.Gateway))
	case *gatewayv1.ParentGatewayReference:
		fill(&p.Group, gatewayv1.GroupName)
		fill(&p.Kind, gatewayv1.Kind(snapshot.Gateway))
	case *gatewayv1.BackendRef:
		fill(&p.Weight, 1)
	case *gatewayv1.BackendObjectReference:
		fill(&p.Group, "")
		fill(&p.Kind, gatewayv1.Kind(snapshot.Service))
	case *gatewayv1.SecretObjectReference:
		fill(&p.Group, "")
		fill(&p.Kind, gatewayv1.Kind(snapshot.Secret))
	}
}
