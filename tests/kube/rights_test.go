package kube_test

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sluice-proxy/sluice/tests/kube"
)

const reader = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: reader}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader}
rules: [{apiGroups: [""], resources: [services], verbs: [get, list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{kind: ServiceAccount, name: reader, namespace: default}]
`

// rights checks that a service account may do what it was granted and nothing else.
func rights(t *testing.T, c *kube.Cluster) {
	apply(t, c, reader)
	user, err := c.ServiceAccount(t.Context(), "default", "reader")
	if err != nil {
		t.Fatal(err)
	}
	file, err := c.Kubeconfig("reader", user)
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Services("default").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("listing services, which is granted: %v", err)
	}
	if _, err := client.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("listing secrets, which isn't granted: %v", err)
	}
	if _, err := client.CoreV1().Services("kube-system").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("listing services of another namespace, which isn't granted: %v", err)
	}
}
