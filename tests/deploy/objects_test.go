package deploy

import (
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
)

// objects are the objects of a rendering by kind.
type objects struct {
	t        *testing.T
	all      []runtime.Object
	template *corev1.PodTemplateSpec
}

// decode reads manifests strictly: a field that the API does not have is an error.
func decode(t *testing.T, text string) *objects {
	t.Helper()
	types := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, gatewayv1.Install, monitoringv1.AddToScheme} {
		if err := add(types); err != nil {
			t.Fatal(err)
		}
	}
	decoder := serializer.NewCodecFactory(types, serializer.EnableStrict).UniversalDeserializer()
	o := &objects{t: t}
	names := map[string]bool{}
	for reader := utilyaml.NewYAMLReader(newReader(text)); ; {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return o
		}
		if err != nil {
			t.Fatal(err)
		}
		if strings.TrimSpace(comment.ReplaceAllString(string(document), "")) == "" {
			continue
		}
		object, kind, err := decoder.Decode(document, nil, nil)
		if err != nil {
			t.Fatalf("%v\n%s", err, document)
		}
		meta := object.(metav1.Object)
		if id := kind.String() + meta.GetNamespace() + "/" + meta.GetName(); names[id] || meta.GetName() == "" {
			t.Errorf("%s is there twice, or has no name", id)
		} else {
			names[id] = true
		}
		o.add(object)
	}
}

var comment = regexp.MustCompile(`(?m)^(#.*|---.*)$`)

func (o *objects) add(object runtime.Object) {
	o.all = append(o.all, object)
	switch object := object.(type) {
	case *appsv1.Deployment:
		o.workload(object.Spec.Selector, &object.Spec.Template)
	case *appsv1.DaemonSet:
		o.workload(object.Spec.Selector, &object.Spec.Template)
	}
}

func (o *objects) workload(selector *metav1.LabelSelector, template *corev1.PodTemplateSpec) {
	o.template = template
	o.selects("the workload", selector, template.Labels)
}

// of are the objects of one type.
func of[T runtime.Object](o *objects) []T {
	var list []T
	for _, object := range o.all {
		if typed, ok := object.(T); ok {
			list = append(list, typed)
		}
	}
	return list
}

func (o *objects) selects(what string, selector *metav1.LabelSelector, target map[string]string) {
	o.t.Helper()
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil || s.Empty() || !s.Matches(labels.Set(target)) {
		o.t.Errorf("%s: the selector %v does not match %v (%v)", what, selector, target, err)
	}
}

// check follows all that refers to something else.
func check(t *testing.T, text string) {
	t.Helper()
	o := decode(t, text)
	if o.template == nil {
		t.Fatal("there is no workload")
	}
	o.checkServices()
	o.checkPolicies()
	o.checkRoles()
	o.checkRights()
	o.checkPod()
	o.checkPrograms(text)
}

// port finds a named port of the pod.
func (o *objects) port(name string) bool {
	return slices.ContainsFunc(o.template.Spec.Containers, func(c corev1.Container) bool { return portOf(c, name) })
}

func portOf(c corev1.Container, name string) bool {
	return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == name })
}

func (o *objects) checkServices() {
	for _, service := range of[*corev1.Service](o) {
		o.selects("Service "+service.Name, &metav1.LabelSelector{MatchLabels: service.Spec.Selector}, o.template.Labels)
		for _, port := range service.Spec.Ports {
			if !o.port(port.TargetPort.StrVal) {
				o.t.Errorf("Service %s: the pod has no port %q", service.Name, port.TargetPort.StrVal)
			}
		}
	}
	for _, monitor := range of[*monitoringv1.ServiceMonitor](o) {
		var found []*corev1.Service
		for _, service := range of[*corev1.Service](o) {
			if s, err := metav1.LabelSelectorAsSelector(&monitor.Spec.Selector); err == nil && s.Matches(labels.Set(service.Labels)) {
				found = append(found, service)
			}
		}
		if len(found) != 1 || found[0].Spec.Ports[0].Name != monitor.Spec.Endpoints[0].Port {
			o.t.Errorf("the ServiceMonitor finds %d Services, want the one for metrics", len(found))
		}
	}
}

func (o *objects) checkPolicies() {
	for _, budget := range of[*policyv1.PodDisruptionBudget](o) {
		o.selects("PodDisruptionBudget", budget.Spec.Selector, o.template.Labels)
	}
	for _, policy := range of[*networkingv1.NetworkPolicy](o) {
		o.selects("NetworkPolicy", &policy.Spec.PodSelector, o.template.Labels)
		for _, rule := range policy.Spec.Ingress {
			for _, port := range rule.Ports {
				if !o.port(port.Port.StrVal) {
					o.t.Errorf("NetworkPolicy: the pod has no port %q", port.Port.StrVal)
				}
				if port.Port.StrVal == "admin" && len(rule.From) == 0 {
					o.t.Error("NetworkPolicy: the admin port is open to everybody")
				}
			}
		}
	}
	for _, scaler := range of[*autoscalingv2.HorizontalPodAutoscaler](o) {
		deployments := of[*appsv1.Deployment](o)
		if len(deployments) != 1 || deployments[0].Name != scaler.Spec.ScaleTargetRef.Name || deployments[0].Spec.Replicas != nil {
			o.t.Errorf("the autoscaler's Deployment is not there, or has a fixed number of replicas")
		}
	}
	for _, spread := range o.template.Spec.TopologySpreadConstraints {
		o.selects("spread constraint", spread.LabelSelector, o.template.Labels)
	}
}

// checkRoles follows bindings, and holds that nothing is granted that is never needed.
func (o *objects) checkRoles() {
	roles := map[string][]rbacv1.PolicyRule{}
	for _, role := range of[*rbacv1.ClusterRole](o) {
		roles["ClusterRole/"+role.Name] = role.Rules
	}
	for _, role := range of[*rbacv1.Role](o) {
		roles["Role/"+role.Namespace+"/"+role.Name] = role.Rules
	}
	bound := func(name string, subjects []rbacv1.Subject) {
		if _, found := roles[name]; !found {
			o.t.Errorf("%s is bound and is not there", name)
		}
		if len(subjects) != 1 || subjects[0].Name != o.template.Spec.ServiceAccountName || subjects[0].Namespace != namespace {
			o.t.Errorf("%s is bound to %v, and the pod runs as %s", name, subjects, o.template.Spec.ServiceAccountName)
		}
	}
	n := 0
	for _, binding := range of[*rbacv1.ClusterRoleBinding](o) {
		bound("ClusterRole/"+binding.RoleRef.Name, binding.Subjects)
		n++
	}
	for _, binding := range of[*rbacv1.RoleBinding](o) {
		bound("Role/"+binding.Namespace+"/"+binding.RoleRef.Name, binding.Subjects)
		n++
	}
	if n != len(roles) {
		o.t.Errorf("%d roles, %d bindings", len(roles), n)
	}
	for name, rules := range roles {
		for _, rule := range rules {
			if slices.Contains(rule.Verbs, "*") || slices.Contains(rule.Resources, "*") || slices.Contains(rule.APIGroups, "*") ||
				slices.Contains(rule.Verbs, "delete") || slices.Contains(rule.Resources, "secrets") && slices.ContainsFunc(rule.Verbs, writes) {
				o.t.Errorf("%s grants too much: %v", name, rule)
			}
		}
	}
	for _, account := range of[*corev1.ServiceAccount](o) {
		if account.Name != o.template.Spec.ServiceAccountName {
			o.t.Errorf("the pod runs as %s, the ServiceAccount is %s", o.template.Spec.ServiceAccountName, account.Name)
		}
	}
}

func writes(verb string) bool { return !slices.Contains([]string{"get", "list", "watch"}, verb) }
