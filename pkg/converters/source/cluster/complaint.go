package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// passing tells whether an error is one that a reflector gets over at once: it lists again
// since its version is too old or too new for the server.
func passing(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// unreachable tells whether an error is none of the API server's own.
func unreachable(err error) bool {
	var status apierrors.APIStatus
	return err != nil && !errors.As(err, &status)
}

// isRefused tells whether the kind may not be read.
func (w *watched) isRefused() bool {
	return apierrors.IsForbidden(w.listing) || apierrors.IsForbidden(w.watching)
}

// doubted tells whether a refusal is too young to speak of: the kind could be read before, and
// an API server that starts refuses what it allows later. What is refused is asked for again,
// so a right that was really taken away is named soon.
func (w *watched) doubted() bool {
	return w.sink.listed && time.Since(w.refused) < w.source.pace.grace
}

// trouble says why nothing new comes of the kind; empty: nothing is wrong, or it is refused
// and a finding says so.
func (w *watched) trouble() string {
	err := cmp.Or(w.listing, w.watching)
	switch {
	case err == nil, w.isRefused() && w.without, w.isRefused() && w.doubted():
		return ""
	case w.kind.needs != "" && apierrors.IsNotFound(err):
		return "" // it is not served any more, and soon given up
	case w.isRefused():
		return w.refusal()
	}
	return describe("list and watch "+w.kind.resource.Resource, err)
}

// describe says what is wrong. What is wrong with the connection is the same for all kinds,
// and must read the same.
func describe(what string, err error) string {
	var request *url.Error
	switch {
	case apierrors.IsUnauthorized(err):
		return "the API server does not accept the credentials"
	case errors.As(err, &request):
		return "the API server can't be reached: " + request.Err.Error()
	case unreachable(err):
		return "the API server can't be reached: " + err.Error()
	}
	return fmt.Sprintf("the API server fails to %s: %v", what, err)
}

// refusal says which permission is missing.
func (w *watched) refusal() string {
	verbs := "list"
	switch {
	case apierrors.IsForbidden(w.listing) && apierrors.IsForbidden(w.watching):
		verbs = "list and watch"
	case apierrors.IsForbidden(w.watching):
		verbs = "watch"
	}
	return refusal(verbs, w.kind.resource, w.scope.namespace)
}

func refusal(verbs string, resource schema.GroupVersionResource, namespace string) string {
	role, where := "ClusterRole", ""
	if namespace != "" {
		role, where = "Role in namespace "+namespace, " in namespace "+namespace
	}
	return fmt.Sprintf("sluice may not %s %s%s; add to its %s: apiGroups [%q], resources [%s], verbs [get, list, watch]",
		verbs, resource.Resource, where, role, resource.Group, resource.Resource)
}

// restate compiles what there is to complain about. The caller holds the lock.
func (s *Source) restate() {
	troubles := map[string]bool{}
	var findings []report.Finding
	for _, w := range s.watches {
		if text := w.trouble(); text != "" {
			troubles[text] = true
		}
		if w.isRefused() && w.without {
			findings = append(findings, denied(w.kind.name, w.scope.namespace, w.refusal()+w.consequence()))
		}
	}
	for place := range s.contents.refused {
		findings = append(findings, denied(place.Kind, place.Namespace, refusal("get", resourceOf(place.Kind), place.Namespace)+lost(place.Kind)))
	}
	switch err := s.found.failure; {
	case apierrors.IsForbidden(err) && s.found.answered && s.found.refusals < 2: // as doubted
	case apierrors.IsForbidden(err):
		findings = append(findings, deniedDiscovery())
	case err != nil:
		troubles[describe("tell which resources of the Gateway API it serves", err)] = true
	}
	if err := s.contents.failure; err != nil {
		troubles[describe("get Secrets and ConfigMaps", err)] = true
	}
	findings, trouble := report.Sort(findings), strings.Join(slices.Sorted(maps.Keys(troubles)), "; ")
	if trouble != s.trouble || !slices.Equal(findings, s.findings) {
		s.findings, s.trouble = findings, trouble
		s.poke()
	}
}

// denied is the finding about a kind of which nothing can be read.
func denied(kind snapshot.Kind, namespace, message string) report.Finding {
	return report.New(report.AccessDenied, model.Origin{Kind: string(kind), Namespace: namespace, Name: "*"}, "%s", message)
}

// consequence says what sluice does without the kind.
func (w *watched) consequence() string {
	switch w.kind.name {
	case snapshot.IngressClass:
	case snapshot.Namespace:
		return "; meanwhile listeners that choose routes by labels of their namespaces have none"
	default:
		return lost(w.kind.name)
	}
	if class := w.source.config.Class; class != nil {
		return fmt.Sprintf("; meanwhile the class %q is served by its name, without parameters, and none is the default class", class.Name)
	}
	return "; meanwhile there are none"
}

// lost says what the want of content means.
func lost(kind snapshot.Kind) string {
	if kind == snapshot.Secret {
		return "; meanwhile hosts have the default certificate, and what a Secret would protect is denied"
	}
	return "; meanwhile there are none"
}
