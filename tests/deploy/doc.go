// Package deploy tests what is deployed: the Helm chart, the plain manifests made of it and
// the Dockerfile. It is a module of its own, since Helm's engine, the Kubernetes API types
// and a parser of Dockerfiles are no business of the product.
//
// Each folder of testdata is one way to use the chart: values.yaml, and golden.yaml, what
// the chart makes of it. Every object is decoded strictly by the types of the Kubernetes
// API, what refers to something is followed, and flags are shown to the program itself.
//
//	go test . -update    writes golden files, the plain manifests and the table of values anew
//
// Limits: nothing is installed here; that is for tests with a control plane.
package deploy
