// Package e2e holds tests of the whole product on a real control plane: each is told by what
// a user of the cluster sees, over HTTP or in the API server.
//
// Sluice runs in two ways. Mostly it is a process beside the test, with the service account
// and the rights of deploy/manifests and no others, and with an address of 10.200.0.0/16 for
// its HAProxy: that starts within a second. TestPods applies the manifests as they are, so
// that it runs in pods, with HAProxy, below sluice-init.
//
// A test function has one cluster and goes through its scenarios in their order. Nothing
// sleeps: what takes time is waited for with kube.Eventually. Requests that must not fail
// are sent by a load, see load_test.go.
//
// Place: it uses package kube, and knows of the product its programs, its manifests and
// its admin address. SLUICE_HAPROXY_34 names HAProxy's binary; `make e2e` sets it.
package e2e
