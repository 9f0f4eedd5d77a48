package deploy

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// may tells whether a role allows something. A namespace is one that flags name.
func (o *objects) may(verb, group, resource, namespace, name string) bool {
	allows := func(rule rbacv1.PolicyRule) bool {
		return slices.Contains(rule.Verbs, verb) && slices.Contains(rule.APIGroups, group) && slices.Contains(rule.Resources, resource) &&
			(len(rule.ResourceNames) == 0 || name != "" && slices.Contains(rule.ResourceNames, name))
	}
	for _, role := range of[*rbacv1.ClusterRole](o) {
		if slices.ContainsFunc(role.Rules, allows) {
			return true
		}
	}
	for _, role := range of[*rbacv1.Role](o) {
		if role.Namespace == namespace && slices.ContainsFunc(role.Rules, allows) {
			return true
		}
	}
	return false
}

// values are those of a flag of sluice run.
func (o *objects) values(flag string) []string {
	var list []string
	for _, arg := range o.template.Spec.Containers[0].Args {
		if value, ok := strings.CutPrefix(arg, "--"+flag+"="); ok {
			list = append(list, value)
		}
	}
	return list
}

// checkRights holds that sluice may do what its flags have it do. Without one of these rights
// it waits for ever, or does without what was asked for.
func (o *objects) checkRights() {
	if len(of[*rbacv1.Role](o)) == 0 {
		return // with rbac.create: false they are somebody else's
	}
	want := func(verbs, group, resource, namespace, name string) {
		for verb := range strings.SplitSeq(verbs, " ") {
			if !o.may(verb, group, resource, namespace, name) {
				o.t.Errorf("sluice may not %s %s %s in namespace %q", verb, resource, name, namespace)
			}
		}
	}
	const read = "get list watch"
	served := o.values("watch-namespace")
	if len(served) == 0 {
		served = []string{""}
	}
	for _, namespace := range served {
		want(read, "networking.k8s.io", "ingresses", namespace, "")
		want(read, "", "services", namespace, "")
		want(read, "discovery.k8s.io", "endpointslices", namespace, "")
		want(read, "", "secrets", namespace, "")
		want(read, "", "configmaps", namespace, "")
		want("create", "", "events", namespace, "")
		if len(o.values("gateway-api")) == 0 {
			want(read, "gateway.networking.k8s.io", "httproutes", namespace, "")
			want("create patch", "", "services", namespace, "") // of Gateways
		}
	}
	if slices.Contains(o.values("leader-elect"), "true") {
		lease := "sluice"
		if class := o.values("ingress-class")[0]; class != lease {
			lease += "-" + class
		}
		want("get update", "coordination.k8s.io", "leases", namespace, lease)
	}
	named := map[string][][2]string{
		"configmap": {{"", "configmaps"}}, "tcp-services-configmap": {{"", "configmaps"}}, "default-ssl-certificate": {{"", "secrets"}},
		"publish-service": {{"", "services"}}, "default-backend-service": {{"", "services"}, {"discovery.k8s.io", "endpointslices"}},
	}
	for flag, resources := range named {
		for _, value := range o.values(flag) {
			namespace, name, _ := strings.Cut(value, "/")
			for _, r := range resources {
				only := name
				if r[1] == "configmaps" || r[1] == "endpointslices" {
					only = "" // all of the namespace are listed
				}
				want(read, r[0], r[1], namespace, only)
			}
			if flag != "publish-service" {
				want("create", "", "events", namespace, "") // what is wrong with it
			}
		}
	}
}
