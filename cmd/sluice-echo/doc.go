// Command sluice-echo answers every request with what it received, as JSON. It stands in
// for the pods of a Service in demonstrations and tests.
//
// Each --listen NAME=ADDRESS is one pod of Service NAME; --pods-of MANIFESTS is the pod
// behind each address of the EndpointSlices in a file or folder. A request may ask for a status
// (?status=503), a delay (?delay=2s) or a body of a size (?size=1048576). HTTP/2 is
// served without TLS, too; with --tls every address speaks TLS with a certificate of its
// own making.
package main
