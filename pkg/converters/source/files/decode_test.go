package files

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
)

// outcome is what a file became, as text.
func outcome(c content) string {
	var b strings.Builder
	for _, e := range c.entries {
		fmt.Fprintf(&b, "%d %s\n", e.line, e.key)
	}
	for _, finding := range c.findings {
		fmt.Fprintln(&b, finding)
	}
	for _, finding := range foreignFindings([]*file{{path: "f.yaml", content: c}}) {
		fmt.Fprintln(&b, finding)
	}
	return b.String()
}

func TestDecode(t *testing.T) {
	cases := map[string]struct{ name, text, want string }{
		"documents are told apart by their markers, and each knows its first line": {
			text: "# all of it\n---\n# one\napiVersion: v1\nkind: Service\nmetadata: {name: a}\n---\n---\n\nkind: ConfigMap\napiVersion: v1\nmetadata:\n  name: b\n  namespace: ns\n...\napiVersion: v1\nkind: Namespace\nmetadata: {name: c}\n",
			want: "4 Service/default/a\n10 ConfigMap/ns/b\n16 Namespace/c\n",
		},
		"content may stand behind the marker, and line ends may be those of Windows": {
			text: "--- {apiVersion: v1, kind: Service, metadata: {name: a}}\r\n---\r\napiVersion: v1\r\nkind: Service\r\nmetadata: {name: b}\r\n",
			want: "1 Service/default/a\n3 Service/default/b\n",
		},
		"directives belong to the document behind them": {
			text: "%YAML 1.1\n---\napiVersion: v1\nkind: Service\nmetadata: {name: a}\n",
			want: "3 Service/default/a\n",
		},
		"a marker inside a block of text is no marker": {
			text: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  x: |\n    ---\n    ...\n",
			want: "1 ConfigMap/default/a\n",
		},
		"JSON objects may follow each other": {
			name: "f.json",
			text: "{\"apiVersion\": \"v1\",\n\t\"kind\": \"Service\", \"metadata\": {\"name\": \"a\"}}\n\n{\"apiVersion\": \"v1\", \"kind\": \"Service\",\n \"metadata\": {\"name\": \"b\"}}\n",
			want: "1 Service/default/a\n4 Service/default/b\n",
		},
		"items of a List keep their kinds, those of a typed list have its kind": {
			text: "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Service, metadata: {name: a}}\n- {apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Service, metadata: {name: b}}]}\n---\napiVersion: networking.k8s.io/v1\nkind: IngressList\nitems:\n- metadata: {name: c, namespace: ns}\n",
			want: "1 Service/default/a\n1 Service/default/b\n7 Ingress/ns/c\n",
		},
		"a syntax error names its line": {
			text: "apiVersion: v1\nkind: Service\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Service\nmetadata:\n  name: b\n  labels: a: b\n",
			want: "f.yaml:9: error: File/f.yaml: mapping values are not allowed in this context; nothing of the file is used [ManifestUnreadable]\n",
		},
		"a syntax error of JSON names its line": {
			name: "f.json",
			text: "{\"apiVersion\": \"v1\",\n\"kind\": \"Service\",\n\"metadata\": {\"name\" \"a\"}}\n",
			want: "f.json:3: error: File/f.json: invalid character '\"' after object key; nothing of the file is used [ManifestUnreadable]\n",
		},
		"every broken document is told": {
			text: "a: b: c\n---\n- 1\n---\nkind: Service\n---\napiVersion: v1\nkind: Service\n",
			want: "f.yaml:1: error: File/f.yaml: mapping values are not allowed in this context; nothing of the file is used [ManifestUnreadable]\n" +
				"f.yaml:3: error: File/f.yaml: not a Kubernetes object: fields are required, beginning with apiVersion and kind; nothing of the file is used [ManifestUnreadable]\n" +
				"f.yaml:5: error: File/f.yaml: not a Kubernetes object: apiVersion and kind are required; nothing of the file is used [ManifestUnreadable]\n" +
				"f.yaml:7: error: File/f.yaml: Service without metadata.name; nothing of the file is used [ManifestUnreadable]\n",
		},
		"the values of a Secret are not told": {
			text: "apiVersion: v1\nkind: Secret\nstringData: {? [hunter2] : hunter2}\n---\na: *hunter2\n---\na: !!int hunter2\n---\na: !!binary hunter2\n---\n~: hunter2\n",
			want: strings.ReplaceAll("f.yaml:1: error: File/f.yaml: a key is neither text nor a number#"+
				"f.yaml:5: error: File/f.yaml: there is no such anchor (put text that begins with * in quotes)#"+
				"f.yaml:7: error: File/f.yaml: cannot decode !!str `...` as a !!int#"+
				"f.yaml:9: error: File/f.yaml: !!binary value contains invalid base64 data#"+
				"f.yaml:11: error: File/f.yaml: a key is neither text nor a number#", "#", "; nothing of the file is used [ManifestUnreadable]\n"),
		},
		"an object that does not fit its type costs itself": {
			text: "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {ports: [{port: http}]}\n---\napiVersion: v1\nkind: Service\nmetadata: {name: b}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {x: 1}\n",
			want: "6 Service/default/b\n" +
				"f.yaml:1: error: Service/default/a: cannot unmarshal string into Go struct field ServicePort.spec.ports.port of type int32; the object is left out [ManifestUnreadable]\n" +
				"f.yaml:10: error: ConfigMap/default/c: cannot unmarshal number into Go struct field ConfigMap.data of type string (put the value in quotes); the object is left out [ManifestUnreadable]\n",
		},
		"unknown and repeated fields are told, and the rest of the object counts": {
			text: "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec:\n  selectr: {}\n  type: ClusterIP\n  type: NodePort\n",
			want: "1 Service/default/a\n" +
				"f.yaml:1: warning: Service/default/a spec.selectr: the field does not exist and has no effect; check its spelling and indentation [FieldUnknown]\n" +
				"f.yaml:7: error: Service/default/a: key \"type\" already set in map; the last value counts, remove the others [ObjectInvalid]\n",
		},
		"repeated fields of JSON are told": {
			name: "f.json",
			text: `{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "name": "b"}}`,
			want: "1 Service/default/b\nf.json:1: error: Service/default/b metadata.name: the field is given more than once; the last value counts, remove the others [ObjectInvalid]\n",
		},
		"kinds that are not read are counted, old versions get advice": {
			text: "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: b}\n---\napiVersion: v1\nkind: Endpoints\nmetadata: {name: a}\n---\napiVersion: extensions/v1beta1\nkind: Ingress\nmetadata: {name: a, namespace: ns}\n---\napiVersion: serving.knative.dev/v1\nkind: Service\nmetadata: {name: a}\n---\napiVersion: example.org/v1\nkind: AllowList\nspec: {}\n",
			want: "f.yaml:13: info: Ingress/ns/a: Ingress is not read in version extensions/v1beta1, which Kubernetes no longer serves; write it as networking.k8s.io/v1 [ObjectUnsupported]\n" +
				"f.yaml:1: info: Deployment/*: 2 objects of kind Deployment, version apps/v1, not read by sluice [ObjectUnsupported]\n" +
				"f.yaml:9: info: Endpoints/*: 1 object of kind Endpoints, version v1, not read by sluice; write EndpointSlices (discovery.k8s.io/v1) instead [ObjectUnsupported]\n" +
				"f.yaml:17: info: Service/*: 1 object of kind Service, version serving.knative.dev/v1, not read by sluice [ObjectUnsupported]\n" +
				"f.yaml:21: info: AllowList/*: 1 object of kind AllowList, version example.org/v1, not read by sluice [ObjectUnsupported]\n",
		},
		"names that the API server refuses are refused": {
			text: "apiVersion: v1\nkind: Service\nmetadata: {name: a_b}\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: a.b, namespace: ../x}\n",
			want: "f.yaml:1: error: Service/default/a_b metadata.name: not a valid name: a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?'); the object is left out [ObjectInvalid]\n" +
				"f.yaml:5: error: Secret/../x/a.b metadata.namespace: not a valid name: a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?'); the object is left out [ObjectInvalid]\n",
		},
		"a byte order mark at the beginning is passed over": {
			name: "f.json",
			text: "\ufeff{\"apiVersion\": \"v1\", \"kind\": \"Service\", \"metadata\": {\"name\": \"a\"}}",
			want: "1 Service/default/a\n",
		},
		"a file of comments holds nothing": {text: "# nothing\n---\n\n"},
	}
	for sentence, c := range cases {
		t.Run(sentence, func(t *testing.T) {
			f := &file{path: c.name}
			if f.path == "" {
				f.path = "f.yaml"
			}
			if diff := cmp.Diff(c.want, outcome(f.read([]byte(c.text)))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	text := `
apiVersion: v1
kind: Service
metadata: {name: s}
spec: {ports: [{port: 80}, {port: 81, targetPort: http, protocol: UDP}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: e}
addressType: IPv4
ports: [{port: 80}]
endpoints: []
---
apiVersion: v1
kind: Secret
metadata: {name: x}
data: {a: YQ==, b: Yg==}
stringData: {b: B}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: i}
spec: {rules: [{http: {paths: [{path: /}]}}]}
---
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: c, namespace: ignored}
spec: {parameters: {kind: ConfigMap, name: p}}
`
	objects := map[snapshot.Kind]any{}
	for _, e := range (&file{}).read([]byte(text)).entries {
		objects[e.key.Kind] = e.value
	}
	ports := objects[snapshot.Service].(*corev1.Service).Spec.Ports
	want := []corev1.ServicePort{
		{Port: 80, Protocol: "TCP", TargetPort: intstr.FromInt32(80)},
		{Port: 81, Protocol: "UDP", TargetPort: intstr.FromString("http")},
	}
	if diff := cmp.Diff(want, ports); diff != "" {
		t.Errorf("ports of the Service, -want +got:\n%s", diff)
	}
	slice := objects[snapshot.EndpointSlice].(*discoveryv1.EndpointSlice)
	if p := slice.Ports[0]; *p.Protocol != "TCP" || *p.Name != "" || slice.Namespace != "default" {
		t.Errorf("EndpointSlice: %+v", slice)
	}
	secret := objects[snapshot.Secret].(*snapshot.SecretData)
	if secret.Type != "Opaque" || secret.Data["a"].Reveal() != "a" || secret.Data["b"].Reveal() != "B" {
		t.Errorf("Secret of type %q", secret.Type)
	}
	ingress := objects[snapshot.Ingress].(*networkingv1.Ingress)
	if ingress.Spec.Rules[0].HTTP.Paths[0].PathType != nil {
		t.Error("pathType was filled in, which the API server does not do")
	}
	class := objects[snapshot.IngressClass].(*networkingv1.IngressClass)
	if class.Namespace != "" || *class.Spec.Parameters.Scope != "Cluster" {
		t.Errorf("IngressClass: %+v", class)
	}
}

func TestUnchangedDocumentsAreNotDecodedAgain(t *testing.T) {
	f := &file{path: "f.yaml"}
	one, two := service("a", 1), service("b", 1)
	f.content = f.read([]byte(one + two))
	next := f.read([]byte("# moved\n" + one + service("b", 2)))
	if f.content.entries[0].value != next.entries[0].value || next.entries[0].line != 3 {
		t.Error("the unchanged document was decoded again, or its line is wrong")
	}
	if f.content.entries[1].value == next.entries[1].value {
		t.Error("the changed document was not decoded")
	}
}

// service is the document of a Service.
func service(name string, port int) string {
	return fmt.Sprintf("---\napiVersion: v1\nkind: Service\nmetadata: {name: %s}\nspec: {ports: [{port: %d}]}\n", name, port)
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		"", "---", "...", "%YAML 1.1\n---\n", "{", "{}{}", "--- {}", "[1]", "a: &a [*a]", "? [a] : b", "\ufeffa: 1", "null", "a: .nan",
		service("a", 1), `{"apiVersion":"v1","kind":"List","items":[{"kind":"Secret","apiVersion":"v1","data":{"a":"!"}}]}`,
		"apiVersion: v1\nkind: List\nitems:\n- null\n- 1\n", "apiVersion: v1\nkind: Service\nmetadata: null\nspec: 1\n",
	} {
		f.Add([]byte(seed), true)
		f.Add([]byte(seed), false)
	}
	f.Fuzz(func(t *testing.T, data []byte, json bool) {
		source := &file{path: "f.yaml"}
		if json {
			source.path = "f.json"
		}
		c := source.read(data)
		lines := strings.Count(string(data), "\n") + 1
		if slices.ContainsFunc(c.findings, func(f report.Finding) bool {
			return f.Line < 1 || f.Line > lines+1 || strings.ContainsAny(f.String(), "\n\r\x00")
		}) {
			t.Fatalf("a finding outside of the file's %d lines, or of several lines: %v", lines, c.findings)
		}
		for _, e := range c.entries {
			if e.value == nil || e.line < 1 || e.line > lines {
				t.Fatalf("entry %v on line %d of %d", e.key, e.line, lines)
			}
		}
		source.content = c
		again := source.read(data)
		if len(again.entries) != len(c.entries) || len(again.findings) != len(c.findings) {
			t.Fatal("reading once more gives something else")
		}
	})
}
