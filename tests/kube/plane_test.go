package kube_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluice-proxy/sluice/tests/kube"
)

// TestControlPlane goes through what may happen to a control plane, with pods that don't
// mind.
func TestControlPlane(t *testing.T) {
	c := start(t)
	t.Run("rights", func(t *testing.T) { rights(t, c) })
	apply(t, c, echo)
	pods := awaitEndpoints(t, c, "echo", 2)

	t.Run("the API server restarts", func(t *testing.T) {
		c.APIServer.Kill()
		if _, err := c.Client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{}); err == nil {
			t.Error("a killed API server answers")
		}
		for _, e := range pods {
			if _, err := ask(e.Addresses[0], "/"); err != nil {
				t.Errorf("a pod without an API server: %v", err)
			}
		}
		if err := c.APIServer.Start(); err != nil {
			t.Fatal(err)
		}
		scale(t, c, 3)
		awaitEndpoints(t, c, "echo", 3)
	})
	t.Run("etcd and the controllers restart", func(t *testing.T) {
		for _, part := range []*kube.Part{c.Etcd, c.Controllers} {
			part.Kill()
			if err := part.Start(); err != nil {
				t.Fatal(err)
			}
		}
		kube.Eventually(t, "scaling works", func() error {
			s, err := c.Client.AppsV1().Deployments("default").GetScale(t.Context(), "echo", metav1.GetOptions{})
			if err == nil {
				s.Spec.Replicas = 1
				_, err = c.Client.AppsV1().Deployments("default").UpdateScale(t.Context(), "echo", s, metav1.UpdateOptions{})
			}
			return err
		})
		awaitEndpoints(t, c, "echo", 1)
	})
	t.Run("the API server hangs", func(t *testing.T) { freeze(t, c) })
	t.Run("the past is compacted", func(t *testing.T) { compact(t, c) })
}

func freeze(t *testing.T, c *kube.Cluster) {
	if err := c.APIServer.Freeze(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := c.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a frozen API server: %v", err)
	}
	if err := c.APIServer.Thaw(); err != nil {
		t.Fatal(err)
	}
	kube.Eventually(t, "it answers again", func() error {
		_, err := c.Client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		return err
	})
}

func compact(t *testing.T, c *kube.Cluster) {
	configMaps := c.Client.CoreV1().ConfigMaps("default")
	old, err := configMaps.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		one := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("one-%d", i)}}
		if _, err := configMaps.Create(t.Context(), one, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Compact(); err != nil {
		t.Fatal(err)
	}
	watch, err := configMaps.Watch(t.Context(), metav1.ListOptions{ResourceVersion: old.ResourceVersion})
	if err == nil {
		defer watch.Stop()
		event := <-watch.ResultChan()
		err = apierrors.FromObject(event.Object)
	}
	if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
		t.Errorf("a watch from before the compaction: %v", err)
	}
}
