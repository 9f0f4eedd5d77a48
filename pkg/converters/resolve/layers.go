package resolve

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/settings"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// prefixes of annotations that are options, the weakest first: where an object sets one
// option with both of them, the last one counts.
var prefixes = [...]string{"haproxy-ingress.github.io/", "sluice-proxy.github.io/"}

// AnnotationLayers are the options among the annotations of an object, lowest first.
func AnnotationLayers(object model.Origin, annotations map[string]string) []settings.Layer {
	var layers []settings.Layer
	for _, prefix := range prefixes {
		var raw map[string]string
		for key, text := range annotations {
			if name, ok := strings.CutPrefix(key, prefix); ok {
				if raw == nil {
					raw = map[string]string{}
				}
				raw[name] = text
			}
		}
		if raw != nil {
			object.Field = prefix
			layers = append(layers, settings.Layer{Origin: object, Raw: raw})
		}
	}
	return layers
}

// ConfigMapLayer are the options that a ConfigMap holds.
func ConfigMapLayer(object *corev1.ConfigMap) settings.Layer {
	return settings.Layer{
		Origin: model.Origin{Kind: string(snapshot.ConfigMap), Namespace: object.Namespace, Name: object.Name, Field: "data."},
		Raw:    object.Data,
	}
}

// scopes are those of the options that the layers of a BackendRef may hold. Those of a
// host or a listener are read by the converters.
const scopes = settings.Frontend | settings.Host | settings.Path | settings.Backend | settings.TCP

// optionsOf are all options of a backend: globals < layers of the reference < annotations of
// the Service.
func optionsOf(g *Globals, ref BackendRef, ofService []settings.Layer) (*settings.Set, []report.Finding) {
	set, findings := g.Set.Override(scopes, ref.Layers...)
	if len(ofService) == 0 {
		return set, findings
	}
	conflicts := conflictsOf(ref.Layers, ofService)
	allowed := make([]settings.Layer, len(ofService))
	for i, layer := range ofService {
		var refused []report.Finding
		allowed[i], refused = onService(layer)
		findings = append(findings, refused...)
	}
	set, more := set.Override(settings.Path|settings.Backend, allowed...)
	return set, slices.Concat(findings, conflicts, more)
}

// onService is the layer without the options that have no effect on a Service.
func onService(layer settings.Layer) (settings.Layer, []report.Finding) {
	var findings []report.Finding
	kept := settings.Layer{Origin: layer.Origin, Raw: make(map[string]string, len(layer.Raw))}
	for name, text := range layer.Raw {
		option, known := settings.Lookup(name)
		if known && !option.OnService {
			object := layer.Origin
			object.Field += name
			findings = append(findings, report.New(report.OptionScope, object, "%s has no effect on a Service; it belongs on an Ingress or into the global ConfigMap", name))
			continue
		}
		kept.Raw[name] = text
	}
	return kept, report.Sort(findings)
}

// conflictsOf are the options of a route that the Service overrules.
func conflictsOf(below, above []settings.Layer) []report.Finding {
	var findings []report.Finding
	for _, low := range below {
		if low.Origin.Kind == "ConfigMap" {
			continue // parameters of a class are there to be overruled
		}
		for name, text := range low.Raw {
			for _, high := range above {
				if other, both := high.Raw[name]; both && other != text {
					object := low.Origin
					object.Field += name
					findings = append(findings, report.New(report.OptionConflict, object,
						"%s is set differently by %s, which wins; remove one of them", name, high.Origin.Object()))
					break
				}
			}
		}
	}
	return report.Sort(findings)
}
