package resolve

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/settings"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/token"
)

// Key identifies the backend unit: references of equal keys are equal backends, with equal
// findings. So the objects that the layers stand on are part of it: what is wrong with
// options is said of each object that has them. (Units of several objects whose backends do
// the same share one name.)
func (r BackendRef) Key() string {
	h := model.NewHasher().Str(r.StripPath).Int(int64(r.Deny), int64(len(r.Layers))).Bool(r.TCP)
	for _, layer := range r.Layers {
		h.Sum(layer.Digest()).Str(layer.Origin.String())
	}
	if g := r.Gateway; g != nil {
		h.Bool(g.H2, g.Passthrough, g.UDP).Sum(g.Filters.Digest()).Str(g.ClientCertificate.String())
	}
	return r.Namespace + "/" + r.Service + "/" + r.Port + "/" + h.Digest().String()
}

// Backend resolves a reference: the Service with its endpoints and annotations, the options
// of all layers, the Secrets that they name.
func Backend(v *snapshot.View, g *Globals, ref BackendRef) BackendFragment {
	var ofService []settings.Layer
	serviceKey := snapshot.Key{Kind: snapshot.Service, Namespace: ref.Namespace, Name: ref.Service}
	var service *corev1.Service
	if ref.Service != "" && ref.Deny == 0 {
		if service = v.Service(ref.Namespace, ref.Service); service != nil {
			ofService = AnnotationLayers(serviceKey.Origin(), service.Annotations)
		}
	}
	set, findings := optionsOf(g, ref, ofService)
	if service != nil {
		findings = append(findings, ForeignAnnotations(serviceKey.Origin(), service.Annotations)...)
	}
	var terms *routeTerms
	if ref.Gateway != nil && ref.Deny == 0 {
		terms = routeTermsOf(v, service, &ref)
		findings = append(findings, terms.blame(v, service, &ref)...)
	}
	b := behaviourOf(v, g, set, asks{ref, terms})
	backend := &model.Backend{
		Profile: b.profile,
		Options: b.options,
		Values:  b.values,
		Origins: originsOf(ref, serviceKey),
	}
	findings = slices.Concat(findings, b.findings)
	if ref.Service != "" && b.shape.Deny == 0 {
		endpoints := endpointsOf(v, service, ref, endpointRules{b.servers.podUID, g.LocalEndpoints, g.Place})
		findings = append(findings, endpoints.findings...)
		if ref.Datagrams() {
			findings = append(findings, endpoints.keepAddresses(&ref)...)
		}
		b.servers.apply(endpoints.servers)
		backend.Servers = endpoints.servers
		if endpoints.dns {
			backend.Static, backend.Options.Resolvers = reasonDNS, ResolversName
		}
	}
	backend.Name = nameOf(ref, backend, g.unusual(b))
	fragment := BackendFragment{Backend: backend.Seal(), Findings: report.Sort(saidOnce(findings))}
	if b.ca != nil {
		fragment.CAFiles = []*model.Certificate{b.ca}
	}
	if b.client != nil {
		fragment.Certificates = []*model.Certificate{b.client}
	}
	return fragment
}

// saidOnce leaves out what is wrong with the text of an option where the path is denied for
// it: that finding says so, too.
func saidOnce(findings []report.Finding) []report.Finding {
	denied := map[model.Origin]bool{}
	for _, f := range findings {
		if f.Code == report.ProtectionDenied {
			denied[f.Object] = true
		}
	}
	return slices.DeleteFunc(findings, func(f report.Finding) bool {
		return denied[f.Object] && (f.Code == report.OptionInvalid || f.Code == report.OptionUnsupported)
	})
}

// nameOf is the Service's port, with a suffix unless the backend does what one without any
// option does. What the options say of each server (unusual is nil where that is what the
// global settings say) is part of the suffix: two routes to one Service may differ in it.
func nameOf(ref BackendRef, b *model.Backend, unusual *serverValues) string {
	name := token.Name(ref.Namespace, ref.Service, ref.Port)
	if b.Profile.Name == model.DefaultProfile && b.Options == (model.ServerOptions{}) && len(b.Values) == 0 && unusual == nil {
		return name
	}
	digest := model.DigestOptions(b.Profile, b.Options, b.Values)
	if unusual != nil {
		digest = model.NewHasher().Sum(digest).Int(int64(unusual.weight)).Bool(unusual.podUID).Digest()
	}
	return name + "_" + digest.Short()
}

// originsOf are the Service, then the objects whose layers say something, sorted.
func originsOf(ref BackendRef, service snapshot.Key) []model.Origin {
	var origins []model.Origin
	for _, layer := range ref.Layers {
		if len(layer.Raw) > 0 {
			origins = append(origins, layer.Origin.Object())
		}
	}
	slices.SortFunc(origins, model.CompareOrigins)
	origins = slices.Compact(origins)
	if ref.Service == "" {
		return origins
	}
	return slices.Insert(origins, 0, service.Origin())
}
