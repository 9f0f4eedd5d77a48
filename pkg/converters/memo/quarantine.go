package memo

import (
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/ingress"
	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/resolve"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// quarantine holds the objects whose newest form HAProxy refused. Until such an object
// changes, the converters see another form of it, so that endpoints, certificates and other
// objects stay up to date meanwhile:
//
//   - its last good form, that is, the one that stood in the last applied Model;
//   - if there is none, or if it is refused too, no such object;
//   - but nothing opens what the newest form protects: where the good form does not protect
//     in the same way, the paths of an Ingress, or those that lead to a Service, answer 503,
//     and a ConfigMap keeps the newest texts of its protective options;
//   - what a backend reads from a Secret (users, authorities) has no other form, since an
//     older list of users would let somebody in again: resolve denies the path.
type quarantine struct {
	refused map[snapshot.Key]refusal
	pending []snapshot.Key // to be marked by the next Update

	// What follows from refused; nil where nothing is.
	forms        map[snapshot.Key]any
	backendForms map[snapshot.Key]any
	denied       map[snapshot.Key]bool
	words        map[snapshot.Key]string // what is served instead

	good  map[snapshot.Key]any // the form of each object in the last applied Model
	tried map[snapshot.Key]any // those that changed since, in the last planned Model; nil: gone
	shown map[snapshot.Key]any // those that changed since that; nil: gone
}

// refusal is one object in quarantine.
type refusal struct {
	form    any // what was refused
	strikes int // how often, in whatever form
	why     string
	spared  []spared // objects that may be to blame instead, see suspects
}

// spared is an object in the form that may be to blame.
type spared struct {
	key  snapshot.Key
	form any
}

func (r refusal) spares(key snapshot.Key) int {
	return slices.IndexFunc(r.spared, func(s spared) bool { return s.key == key })
}

func newQuarantine() quarantine {
	return quarantine{refused: map[snapshot.Key]refusal{}, good: map[snapshot.Key]any{}, tried: map[snapshot.Key]any{}, shown: map[snapshot.Key]any{}}
}

// kept tells whether good forms of a kind are kept. Slices change too often, and what they
// hold can't be refused: addresses are parsed.
func kept(kind snapshot.Kind) bool {
	switch kind {
	case snapshot.Ingress, snapshot.IngressClass, snapshot.Service, snapshot.Secret, snapshot.ConfigMap,
		snapshot.ListenerSet, snapshot.BackendTLSPolicy, snapshot.ReferenceGrant:
		return true
	}
	return gatewayKind(kind)
}

// Planned says that the Model of the last Update is on its way to HAProxy. What changes
// from now on is not in it.
func (m *Memo) Planned() {
	q := &m.quarantine
	if len(q.tried) == 0 {
		q.tried, q.shown = q.shown, map[snapshot.Key]any{}
		return
	}
	maps.Copy(q.tried, q.shown)
	q.shown = map[snapshot.Key]any{}
}

// Applied says that HAProxy serves the Model that was last planned: the forms of the
// objects in it are good ones.
func (m *Memo) Applied() {
	q := &m.quarantine
	if len(q.good) == 0 && len(q.refused) == 0 {
		maps.DeleteFunc(q.tried, func(_ snapshot.Key, form any) bool { return form == nil })
		q.good, q.tried = q.tried, map[snapshot.Key]any{}
		return
	}
	for key, form := range q.tried {
		if _, refused := q.refused[key]; refused {
			continue
		}
		if form == nil {
			delete(q.good, key)
		} else {
			q.good[key] = form
		}
	}
	q.tried = map[snapshot.Key]any{}
}

// Quarantine says that HAProxy refused what these objects ask for together in the Model
// that was last planned, and why. The next Update does without the one that is to blame.
// An object that changed since then gets its chance first. Origins without an object are
// ignored. The result tells whether the next Update makes anything different of them:
// where nothing is left to try, somebody else is to blame.
func (m *Memo) Quarantine(origins []model.Origin, why string) bool {
	q := &m.quarantine
	suspects, others := m.suspects(origins)
	differs := false
	for _, key := range suspects {
		form := m.current(key)
		if newer, changed := q.shown[key]; changed && !sameForm(newer, form) {
			differs = true
			continue
		}
		r := q.refused[key]
		r.form, r.why, r.spared = form, why, others
		r.strikes++
		differs = differs || r.strikes <= len(q.choices(key, form))
		q.release(key)
		q.refused[key] = r
		q.pend(key, form)
	}
	q.derive()
	return differs
}

// suspects are the objects to blame: those that changed since the last applied Model, if
// any did; and Ingresses rather than what they share with others. The latter are spared: if
// one of them is refused later on, or changes, the Ingresses get another chance.
func (m *Memo) suspects(origins []model.Origin) (suspects []snapshot.Key, others []spared) {
	var known, changed []snapshot.Key
	for _, origin := range origins {
		key := snapshot.Key{Kind: snapshot.Kind(origin.Kind), Namespace: origin.Namespace, Name: origin.Name}
		form := m.current(key)
		if form == nil || slices.Contains(known, key) {
			continue
		}
		known = append(known, key)
		if m.quarantine.good[key] != form {
			changed = append(changed, key)
		}
	}
	if len(changed) > 0 {
		known = changed
	}
	for _, key := range known {
		if key.Kind == snapshot.Ingress || routeKind(key.Kind) {
			suspects = append(suspects, key)
		} else {
			others = append(others, spared{key, m.current(key)})
		}
	}
	if len(suspects) == 0 {
		return known, nil
	}
	return suspects, others
}

// release lets go what was refused in the place of an object that was spared, and the object.
func (q *quarantine) release(key snapshot.Key) {
	for other, r := range q.refused {
		if other == key || r.spares(key) >= 0 {
			delete(q.refused, other)
			q.pend(other, r.form)
		}
	}
}

// pend has what depends on an object run by the next Update.
func (q *quarantine) pend(key snapshot.Key, form any) {
	q.pending = append(q.pending, key)
	if slice, ok := form.(*discoveryv1.EndpointSlice); ok {
		q.pending = append(q.pending, snapshot.Key{Kind: snapshot.Endpoints, Namespace: slice.Namespace, Name: slice.Labels[discoveryv1.LabelServiceName]})
	}
}

// Quarantined are the objects in quarantine, sorted.
func (m *Memo) Quarantined() []model.Origin {
	var origins []model.Origin
	for key := range m.quarantine.refused {
		origins = append(origins, key.Origin())
	}
	slices.SortFunc(origins, model.CompareOrigins)
	return origins
}

// current is the form of an object in the Model that was last planned; the snapshot may be
// newer.
func (m *Memo) current(key snapshot.Key) any {
	if form, changed := m.quarantine.tried[key]; changed {
		return form
	}
	if form, good := m.quarantine.good[key]; good {
		return form
	}
	if m.snapshot == nil || kept(key.Kind) {
		return nil
	}
	return m.snapshot.Object(key)
}

// show remembers the newest form of an object and releases it from quarantine if that is
// another one than was refused.
func (m *Memo) show(key snapshot.Key) {
	q := &m.quarantine
	isKept := kept(key.Kind)
	if !isKept && len(q.refused) == 0 {
		return
	}
	form := m.snapshot.Object(key)
	if isKept {
		q.shown[key] = form
	}
	for refused, r := range q.refused {
		i := r.spares(key)
		if refused == key && !sameForm(r.form, form) || i >= 0 && !sameForm(r.spared[i].form, form) {
			q.release(key)
			q.derive()
			return
		}
	}
}

func (q *quarantine) takePending() []snapshot.Key {
	pending := q.pending
	q.pending = nil
	return pending
}

// derive computes the forms that take the place of the refused ones.
func (q *quarantine) derive() {
	q.forms, q.backendForms, q.denied, q.words = nil, nil, nil, nil
	if len(q.refused) == 0 {
		return
	}
	q.forms, q.denied, q.words = map[snapshot.Key]any{}, map[snapshot.Key]bool{}, map[snapshot.Key]string{}
	for key, r := range q.refused {
		choices := q.choices(key, r.form)
		chosen := choices[min(r.strikes, len(choices))-1]
		q.denied[key], q.words[key] = chosen.denied, chosen.words
		if !chosen.denied || key.Kind != snapshot.Ingress && !routeKind(key.Kind) {
			q.forms[key] = chosen.form
		}
	}
	q.backendForms = maps.Clone(q.forms)
	for key := range q.refused {
		if key.Kind == snapshot.Secret {
			q.backendForms[key] = nil
		}
	}
}

// choice is what can stand in for a refused form: another form, nil for none, or, with
// denied set, a path that answers 503.
type choice struct {
	form   any
	denied bool
	words  string // what is served instead
}

// Words of choices.
const (
	wordsGood   = "its last good form is served"
	wordsNone   = "it is left out"
	wordsDenied = "its paths answer 503"
)

// choices are what to try, the best first; the last one makes nothing of the object.
func (q *quarantine) choices(key snapshot.Key, refused any) []choice {
	good := q.good[key]
	if good == refused {
		good = nil // it was good together with something else
	}
	switch form := refused.(type) {
	case *corev1.ConfigMap:
		return configMapChoices(form, good)
	case *corev1.Service:
		if good != nil && weaker(key, good, refused) {
			good = nil
		}
		return append(some(good), choice{denied: true, words: wordsDenied})
	case *networkingv1.Ingress:
		list := some(good)
		if weaker(key, good, refused) {
			list = []choice{{denied: true, words: wordsDenied}}
		}
		return append(list, choice{words: wordsNone})
	}
	if routeKind(key.Kind) && weaker(key, good, refused) {
		return []choice{{denied: true, words: wordsDenied}, {words: wordsNone}}
	}
	return append(some(good), choice{words: wordsNone})
}

func some(form any) []choice {
	if form == nil {
		return nil
	}
	return []choice{{form: form, words: wordsGood}}
}

// weaker tells whether the refused form protects something that the good one (nil: none)
// does not protect in the same way.
func weaker(key snapshot.Key, good, refused any) bool {
	wanted := protection(key, refused)
	return wanted != (model.Digest{}) && wanted != protection(key, good)
}

func protection(key snapshot.Key, form any) model.Digest {
	var annotations map[string]string
	switch form := form.(type) {
	case *networkingv1.Ingress:
		annotations = form.Annotations
	case metav1.Object:
		annotations = form.GetAnnotations()
	}
	return ingress.Protection(resolve.AnnotationLayers(key.Origin(), annotations))
}

// configMapChoices are the good form and none, with the newest texts of the protective
// options in them as long as these are not what is refused.
func configMapChoices(refused *corev1.ConfigMap, good any) []choice {
	protective := map[string]string{}
	for name, text := range refused.Data {
		if ingress.Protects(name) {
			protective[name] = text
		}
	}
	with := func(data map[string]string, words string) choice {
		form := *refused
		form.Data = maps.Clone(protective)
		for name, text := range data {
			if !ingress.Protects(name) {
				form.Data[name] = text
			}
		}
		return choice{form: &form, words: words + ", with the newest texts of options that protect,"}
	}
	var list []choice
	if good != nil {
		list = append(list, with(good.(*corev1.ConfigMap).Data, wordsGood))
	}
	return append(list, with(nil, wordsNone), choice{words: wordsNone})
}

// sameForm tells whether an object did not change in anything that is read of it. Writing
// its status, for example, releases nothing.
func sameForm(a, b any) bool {
	if a == b {
		return true
	}
	switch a := a.(type) {
	case *networkingv1.Ingress:
		b, ok := b.(*networkingv1.Ingress)
		return ok && maps.Equal(a.Annotations, b.Annotations) && reflect.DeepEqual(a.Spec, b.Spec)
	case *corev1.Service:
		b, ok := b.(*corev1.Service)
		return ok && maps.Equal(a.Annotations, b.Annotations) && reflect.DeepEqual(a.Spec, b.Spec)
	case *corev1.ConfigMap:
		b, ok := b.(*corev1.ConfigMap)
		return ok && maps.Equal(a.Data, b.Data)
	case metav1.Object:
		if after, ok := b.(metav1.Object); ok && a.GetGeneration() != 0 && a.GetUID() == after.GetUID() {
			// Statuses do not count for the generation.
			return a.GetGeneration() == after.GetGeneration() && maps.Equal(a.GetAnnotations(), after.GetAnnotations()) && maps.Equal(a.GetLabels(), after.GetLabels())
		}
	}
	return reflect.DeepEqual(a, b)
}

// findings say what is in quarantine.
func (q *quarantine) findings() []report.Finding {
	var findings []report.Finding
	for key, r := range q.refused {
		findings = append(findings, report.New(report.Quarantined, key.Origin(), "%s until it is changed, since HAProxy refuses it: %s", q.words[key], r.why))
	}
	return findings
}
