package gateway

import (
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
)

// policyOf is a BackendTLSPolicy of namespace apps.
func policyOf(name, created, targets, validation string) string {
	return "kind: BackendTLSPolicy\nmetadata: {namespace: apps, name: " + name + ", generation: 2, creationTimestamp: \"2026-0" + created + "-01T00:00:00Z\"}\n" +
		"spec: {targetRefs: [" + targets + "], validation: {" + validation + "}}"
}

func TestPolicy(t *testing.T) {
	const (
		whole   = "{group: \"\", kind: Service, name: web}"
		port    = "{group: \"\", kind: Service, name: web, sectionName: https}"
		gone    = "{group: \"\", kind: Service, name: gone}"
		trusted = "hostname: a.example.com, caCertificateRefs: [{group: \"\", kind: ConfigMap, name: ca}]"
		good    = "Accepted True Accepted\nResolvedRefs True ResolvedRefs"
	)
	refused := func(reason string) string { return "Accepted False " + reason + "\nResolvedRefs True ResolvedRefs" }
	cases := map[string]struct {
		policy string
		others []string
		want   string
	}{
		"one authority":              {policyOf("p", "2", whole, trusted), nil, good},
		"those of the system":        {policyOf("p", "2", whole, "hostname: a.example.com, wellKnownCACertificates: System"), nil, good},
		"others that are well known": {policyOf("p", "2", whole, "hostname: a.example.com, wellKnownCACertificates: example.com/x"), nil, refused("Invalid")},
		"no authority":               {policyOf("p", "2", whole, "hostname: a.example.com"), nil, refused("Invalid")},
		"a hostname that is none":    {policyOf("p", "2", whole, "hostname: \"*.a.com\", wellKnownCACertificates: System"), nil, refused("Invalid")},
		"an authority that is missing": {
			policyOf("p", "2", whole, "hostname: a.example.com, caCertificateRefs: [{group: \"\", kind: ConfigMap, name: gone}]"), nil,
			"Accepted False NoValidCACertificate\nResolvedRefs False InvalidCACertificateRef",
		},
		"an authority without content": {
			policyOf("p", "2", whole, "hostname: a.example.com, caCertificateRefs: [{group: \"\", kind: ConfigMap, name: empty}]"), nil,
			"Accepted False NoValidCACertificate\nResolvedRefs False InvalidCACertificateRef",
		},
		"an authority of another kind": {
			policyOf("p", "2", whole, "hostname: a.example.com, caCertificateRefs: [{group: invalid.io, kind: InvalidKind, name: ca}]"), nil,
			"Accepted False NoValidCACertificate\nResolvedRefs False InvalidKind",
		},
		"one of two authorities": {
			policyOf("p", "2", whole, "hostname: a.example.com, caCertificateRefs: [{group: \"\", kind: ConfigMap, name: gone}, {group: \"\", kind: ConfigMap, name: ca}]"), nil,
			"Accepted True Accepted\nResolvedRefs False InvalidCACertificateRef",
		},
		"the younger one":                {policyOf("p", "2", whole, trusted), []string{policyOf("z", "1", whole, trusted)}, refused("Conflicted")},
		"the older one":                  {policyOf("p", "2", whole, trusted), []string{policyOf("z", "3", whole, trusted)}, good},
		"of equal age, by name":          {policyOf("p", "2", whole, trusted), []string{policyOf("a", "2", whole, trusted)}, refused("Conflicted")},
		"one for a port and one for all": {policyOf("p", "2", port, trusted), []string{policyOf("z", "1", whole, trusted)}, good},
		"two for a port":                 {policyOf("p", "2", port, trusted), []string{policyOf("z", "1", port, trusted)}, refused("Conflicted")},
		"one of two targets is left":     {policyOf("p", "2", whole+", "+port, trusted), []string{policyOf("z", "1", port, trusted)}, good},
		"no such Service":                {policyOf("p", "2", gone, trusted), nil, refused("TargetNotFound")},
		"no such port":                   {policyOf("p", "2", strings.Replace(port, "https", "other", 1), trusted), nil, refused("TargetNotFound")},
		"the hostname as the only name":  {policyOf("p", "2", whole, trusted+", subjectAltNames: [{type: Hostname, hostname: a.example.com}]"), nil, good},
		"another name":                   {policyOf("p", "2", whole, trusted+", subjectAltNames: [{type: URI, uri: \"spiffe://x/y\"}]"), nil, refused("Invalid")},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := load(t, append(c.others, c.policy, authority(t, "apps", "ca"), "kind: ConfigMap\nmetadata: {namespace: apps, name: empty}",
				"kind: Service\nmetadata: {namespace: apps, name: web}\nspec: {ports: [{port: 443, name: https}]}")...)
			f := ConvertPolicy(s.View(), snapshot.Key{Kind: snapshot.BackendTLSPolicy, Namespace: "apps", Name: "p"})
			ancestors := f.Ancestors(ours, []snapshot.Key{gatewayKey("gw"), gatewayKey("gw")})
			if len(ancestors) != 1 || ancestors[0].AncestorRef.Name != "gw" || *ancestors[0].AncestorRef.Namespace != "infra" {
				t.Fatalf("ancestors %+v", ancestors)
			}
			if got := said(ancestors[0].Conditions); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			generationOf(t, 2, ancestors[0].Conditions)
			if (len(f.Findings) == 0) != (c.want == good) && name != "one of two targets is left" {
				t.Errorf("findings %v", f.Findings)
			}
		})
	}
}
