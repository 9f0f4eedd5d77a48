package gateway

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/resolve"
	"github.com/sluice-proxy/sluice/pkg/converters/settings"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
)

// Class says which GatewayClasses belong to this controller.
type Class struct {
	Controller string // spec.controllerName of this controller's classes
}

// ConvertClass turns the GatewayClass of the given key into its status; the zero
// ClassFragment if there is none, or if it is another controller's.
func ConvertClass(v *snapshot.View, class Class, key snapshot.Key) ClassFragment {
	object := v.GatewayClass(key.Name)
	if object == nil || string(object.Spec.ControllerName) != class.Controller {
		return ClassFragment{}
	}
	accepted := condition(gatewayv1.GatewayClassConditionStatusAccepted, metav1.ConditionTrue, gatewayv1.GatewayClassReasonAccepted,
		"the class belongs to this controller")
	if _, wrong := classParameters(v, object); wrong != nil {
		accepted = condition(gatewayv1.GatewayClassConditionStatusAccepted, metav1.ConditionFalse, wrong.reason, wrong.message)
	}
	f := ClassFragment{Mine: true}
	f.Status.Conditions = []metav1.Condition{accepted}
	observed(f.Status.Conditions, object.Generation)
	for _, name := range SupportedFeatures() {
		f.Status.SupportedFeatures = append(f.Status.SupportedFeatures, gatewayv1.SupportedFeature{Name: gatewayv1.FeatureName(name)})
	}
	return f
}

// of is the class of a Gateway; nil if that is none of this controller's.
func (c Class) of(v *snapshot.View, gw *gatewayv1.Gateway) *gatewayv1.GatewayClass {
	object := v.GatewayClass(string(gw.Spec.GatewayClassName))
	if object == nil || string(object.Spec.ControllerName) != c.Controller {
		return nil
	}
	return object
}

// classParameters are the options of a class: a ConfigMap. A class whose parameters can't be
// used is served without them.
func classParameters(v *snapshot.View, class *gatewayv1.GatewayClass) ([]settings.Layer, *problem) {
	p := class.Spec.ParametersRef
	if p == nil {
		return nil, nil
	}
	if p.Namespace == nil || *p.Namespace == "" {
		return nil, problemOf(gatewayv1.GatewayClassReasonInvalidParameters, "spec.parametersRef names no namespace; name a ConfigMap with its namespace")
	}
	return parameters(v, gatewayv1.LocalParametersReference{Group: p.Group, Kind: p.Kind, Name: p.Name}, string(*p.Namespace))
}

func parameters(v *snapshot.View, p gatewayv1.LocalParametersReference, namespace string) ([]settings.Layer, *problem) {
	if p.Group != "" || p.Kind != gatewayv1.Kind(snapshot.ConfigMap) {
		return nil, problemOf(gatewayv1.GatewayReasonInvalidParameters,
			"parameters of kind %q of group %q are not known; name a ConfigMap (kind ConfigMap, group \"\")", p.Kind, p.Group)
	}
	object := v.ConfigMap(namespace, p.Name)
	if object == nil {
		return nil, problemOf(gatewayv1.GatewayReasonInvalidParameters, "ConfigMap %s/%s does not exist", namespace, p.Name)
	}
	return []settings.Layer{resolve.ConfigMapLayer(object)}, nil
}

// layersOf are the options that all routes of a Gateway have, lowest first: parameters of the
// class, parameters of the Gateway, its annotations.
func layersOf(v *snapshot.View, class *gatewayv1.GatewayClass, gw *gatewayv1.Gateway) []settings.Layer {
	layers, _ := classParameters(v, class)
	if infra := gw.Spec.Infrastructure; infra != nil && infra.ParametersRef != nil {
		more, _ := parameters(v, *infra.ParametersRef, gw.Namespace)
		layers = append(layers, more...)
	}
	origin := snapshot.Key{Kind: snapshot.Gateway, Namespace: gw.Namespace, Name: gw.Name}.Origin()
	return append(layers, resolve.AnnotationLayers(origin, gw.Annotations)...)
}
