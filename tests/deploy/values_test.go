package deploy

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func text(v any) string { return strings.TrimSuffix(fmt.Sprint(v), ".0") }

// value is one value of the chart.
type value struct {
	path, preset, meaning string
	node                  *yaml.Node
}

// values are the values of the chart in their order. Maps that are a value as a whole
// (limits, labels) are one.
func values(t *testing.T) []value {
	t.Helper()
	file, err := os.ReadFile(chartDir + "/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(file, &document); err != nil {
		t.Fatal(err)
	}
	var list []value
	var walk func(prefix string, node *yaml.Node)
	walk = func(prefix string, node *yaml.Node) {
		for i := 0; i < len(node.Content); i += 2 {
			key, v := node.Content[i], node.Content[i+1]
			meaning := strings.Join(strings.Fields(strings.ReplaceAll(key.HeadComment, "#", " ")), " ")
			if v.Kind == yaml.MappingNode && len(v.Content) > 0 && key.Value != "resources" {
				walk(prefix+key.Value+".", v)
				continue
			}
			var preset any
			if err := v.Decode(&preset); err != nil {
				t.Fatal(err)
			}
			shown, err := json.Marshal(preset)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, value{prefix + key.Value, string(shown), meaning, v})
		}
	}
	walk("", document.Content[0])
	return list
}

// The table of values in the chart's README is made of the comments in values.yaml.
func TestValuesAreDocumented(t *testing.T) {
	const begin, end = "<!-- values: made of values.yaml -->\n", "<!-- end of values -->\n"
	table := "| value | default | meaning |\n| --- | --- | --- |\n"
	for _, v := range values(t) {
		if v.meaning == "" {
			t.Errorf("%s has no comment in values.yaml", v.path)
		}
		table += fmt.Sprintf("| `%s` | `%s` | %s |\n", v.path, v.preset, strings.ReplaceAll(v.meaning, "|", `\|`))
	}
	page, err := os.ReadFile(chartDir + "/README.md")
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatal("the chart's README has no place for the table")
	}
	golden(t, chartDir+"/README.md", before+begin+table+end+after)
}

// The schema knows every value, so that a misspelt one is refused.
func TestSchemaIsWhole(t *testing.T) {
	file, err := os.ReadFile(chartDir + "/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	type schema struct {
		Properties           map[string]*schema
		AdditionalProperties any
	}
	var whole schema
	if err := json.Unmarshal(file, &whole); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	var walk func(prefix string, s *schema)
	walk = func(prefix string, s *schema) {
		if len(s.Properties) > 0 && s.AdditionalProperties != false && !strings.Contains(prefix, "resources.") {
			t.Errorf("%s takes any key", prefix)
		}
		for name, property := range s.Properties {
			known[prefix+name] = true
			walk(prefix+name+".", property)
		}
	}
	walk("", &whole)
	for _, v := range values(t) {
		if !known[v.path] {
			t.Errorf("%s is not in values.schema.json", v.path)
		}
	}
}
