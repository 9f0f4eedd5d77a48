// Package bench measures sluice in a cluster from outside: from the API server's answer to
// a write until HAProxy's traffic shows it.
//
// The driver writes Services, EndpointSlices and Ingresses itself; no pod runs. Endpoints
// are addresses of 10.200.0.0/16, which are all the router's: one responder listens on all
// of them and answers with the address it was asked at. What a bare watcher of the same
// objects in the same run needs to see a write is taken off each time: it is the API
// server's part. The controller runs with the rights that the chart grants.
//
// `make bench-cluster` runs it and writes its part of docs/performance.md. The package is
// behind the build tag "bench", since `make e2e` runs all other packages of the module.
//
// Limits: one machine runs the control plane, HAProxy, the controller and the driver, so
// figures hold scheduling delays of all of them. A client asks one request after the
// other, with a millisecond between them, for endpoints between rounds of the round robin: what
// it sees is late by up to that, and by a round trip, for endpoints those of a round.
package bench
