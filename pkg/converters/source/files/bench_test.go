package files

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// route is an Ingress with its Service and EndpointSlice.
func route(i, version int) string {
	return fmt.Sprintf(`---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: app-%[1]d
  namespace: shop
  annotations:
    sluice-proxy.github.io/balance-algorithm: leastconn
spec:
  ingressClassName: sluice
  rules:
  - host: app-%[1]d.example.com
    http:
      paths:
      - path: /
        pathType: Prefix
        backend:
          service:
            name: app-%[1]d
            port:
              number: 8080
---
apiVersion: v1
kind: Service
metadata:
  name: app-%[1]d
  namespace: shop
spec:
  ports:
  - port: 8080
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: app-%[1]d-1
  namespace: shop
  labels:
    kubernetes.io/service-name: app-%[1]d
addressType: IPv4
ports:
- port: 8080
endpoints:
- addresses: [10.0.0.1]
- addresses: [10.0.0.%[2]d]
`, i, version)
}

const routes = 10_000

func BenchmarkReadFolder(b *testing.B) {
	dir := b.TempDir()
	for i := range routes {
		must(b, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%05d.yaml", i)), []byte(route(i, 2)), 0o644))
	}
	for b.Loop() {
		content, err := Read([]string{dir}, nil)
		must(b, err)
		if len(content.Changes) != 3*routes {
			b.Fatal(len(content.Changes))
		}
	}
}

// BenchmarkChangeInLargeFile is one changed object in a file with all routes, from its
// text to the changes.
func BenchmarkChangeInLargeFile(b *testing.B) {
	var text strings.Builder
	for i := range routes - 1 {
		text.WriteString(route(i, 2))
	}
	s, f := newStore(), &file{path: "f.yaml"}
	change := func(i int) int {
		s.put(f, f.read([]byte(text.String()+route(routes, i%250))))
		changes := s.changes()
		s.deliver(changes)
		s.findings()
		return len(changes)
	}
	change(0)
	for i := 1; b.Loop(); i++ {
		if n := change(i); n != 1 {
			b.Fatal(n)
		}
	}
}
