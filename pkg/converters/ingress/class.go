package ingress

import (
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/resolve"
	"github.com/sluice-proxy/sluice/pkg/converters/settings"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// classAnnotation is the way of naming a class from before IngressClass.
const classAnnotation = "kubernetes.io/ingress.class"

// Class says which Ingresses belong to this controller.
type Class struct {
	Name         string // of the class that the annotation may name without an IngressClass object
	Controller   string // spec.controller of this controller's classes
	WatchWithout bool   // Ingresses that name no class, without a default class, belong to it too
	Namespace    string // of the controller: where parameters are looked up
}

// selection is the answer to whether an Ingress is this controller's.
type selection struct {
	mine     bool
	class    *networkingv1.IngressClass // nil: none, so no parameters
	findings []report.Finding
}

// selects decides by the annotation, else by the field, else by the default class.
func (c Class) selects(v *snapshot.View, ing *networkingv1.Ingress, origin model.Origin) selection {
	if name := ing.Annotations[classAnnotation]; name != "" {
		class := v.IngressClass(name)
		if class == nil {
			return selection{mine: name == c.Name}
		}
		return c.ours(class)
	}
	if ing.Spec.IngressClassName != nil {
		name := *ing.Spec.IngressClassName
		class := v.IngressClass(name)
		if class == nil {
			origin.Field = "spec.ingressClassName"
			return selection{findings: []report.Finding{report.New(report.ClassMissing, origin, "there is no IngressClass %q; create it, or name another one", name)}}
		}
		return c.ours(class)
	}
	defaults := v.DefaultClasses()
	if len(defaults) == 0 && !c.WatchWithout {
		return selection{findings: []report.Finding{report.New(report.ClassNone, origin,
			"the Ingress names no class, and no IngressClass is marked as default: it is not served; set spec.ingressClassName")}}
	}
	for _, class := range defaults {
		if class.Spec.Controller == c.Controller {
			return c.ours(class)
		}
	}
	return selection{mine: c.WatchWithout}
}

func (c Class) ours(class *networkingv1.IngressClass) selection {
	if class.Spec.Controller != c.Controller {
		return selection{}
	}
	return selection{mine: true, class: class}
}

// parameters are the options of a class: a ConfigMap in the controller's namespace or, with
// scope Namespace, in the one that the parameters name.
func (c Class) parameters(v *snapshot.View, class *networkingv1.IngressClass) ([]settings.Layer, []report.Finding) {
	if class == nil || class.Spec.Parameters == nil {
		return nil, nil
	}
	p := class.Spec.Parameters
	origin := model.Origin{Kind: string(snapshot.IngressClass), Name: class.Name, Field: "spec.parameters"}
	if p.Kind != "ConfigMap" || p.APIGroup != nil && *p.APIGroup != "" {
		return nil, []report.Finding{report.New(report.ClassParameters, origin, "parameters of kind %q are not known; name a ConfigMap (kind ConfigMap, no apiGroup)", p.Kind)}
	}
	namespace := c.Namespace
	if p.Scope != nil && *p.Scope == networkingv1.IngressClassParametersReferenceScopeNamespace && p.Namespace != nil {
		namespace = *p.Namespace
	}
	object := v.ConfigMap(namespace, p.Name)
	if object == nil {
		return nil, []report.Finding{report.New(report.ClassParameters, origin, "there is no ConfigMap %s/%s; create it", namespace, p.Name)}
	}
	return []settings.Layer{resolve.ConfigMapLayer(object)}, nil
}
