package files

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// maxNesting bounds Lists in Lists.
const maxNesting = 4

// document is what one document of a file says. It is a function of the document's text
// alone, so that it can be kept as long as the text does not change; lines in it
// count from the text's first line, which is 0.
type document struct {
	objects []object
	foreign []foreign
	remarks []remark
	broken  bool // what it holds can't be told
}

// object is one object, or the place of one that does not fit its type.
type object struct {
	key     snapshot.Key
	value   any    // nil: refused
	refusal string // why
	line    int
}

// foreign is an object of a kind that sluice does not read.
type foreign struct {
	apiVersion, kind string
	line             int
}

// remark is a finding whose file is not known yet.
type remark struct {
	finding report.Finding
	line    int
}

// head is what must be known of any object.
type head struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"metadata"`
	Items *[]json.RawMessage `json:"items"`
}

// decode reads one document. It never fails: what is wrong is a remark.
func decode(c chunk, isJSON bool) *document {
	d := &document{}
	first := c.first - c.start
	if values, lines, err := jsonValues(c.text); err == nil {
		for i, value := range values {
			d.add(value, "", "", place{line: lines[i]})
		}
		return d
	} else if isJSON && !errors.Is(err, errNoJSON) {
		line := first
		var at *offsetError
		if errors.As(err, &at) {
			line = lineAt(c.text, at.offset)
		}
		d.fail(line, err.Error())
		return d
	}
	value, err := yaml.YAMLToJSONStrict(c.text)
	if err != nil {
		strict := err
		if value, err = yaml.YAMLToJSON(c.text); err != nil {
			d.failYAML(first, err)
			return d
		}
		defer func() { d.duplicates(first, strict) }()
	}
	d.add(value, "", "", place{line: first})
	return d
}

// fail records that the document can't be read. The finding's object is the file,
// which is filled in later.
func (d *document) fail(line int, message string) {
	d.broken = true
	d.remarks = append(d.remarks, remark{report.New(report.ManifestUnreadable, model.Origin{}, "%s", oneLine(message)), line})
}

// errNoJSON says that a text does not look like JSON at all.
var errNoJSON = errors.New("not JSON")

// offsetError is a syntax error of JSON with its place.
type offsetError struct {
	err    error
	offset int
}

func (e *offsetError) Error() string { return e.err.Error() }

// jsonValues reads a text that holds one or more JSON objects in a row.
func jsonValues(text []byte) (values [][]byte, lines []int, err error) {
	begin := 0
	line, _ := cutLine(text, 0)
	if _, mark := marker(line); mark != "" {
		begin = len("---")
	}
	if body := bytes.TrimSpace(text[begin:]); len(body) == 0 || body[0] != '{' {
		return nil, nil, errNoJSON
	}
	decoder := json.NewDecoder(bytes.NewReader(text[begin:]))
	for {
		var value json.RawMessage
		err := decoder.Decode(&value)
		if errors.Is(err, io.EOF) {
			return values, lines, nil
		}
		end := begin + int(decoder.InputOffset())
		if err != nil {
			if _, offset := kjson.SyntaxErrorOffset(err); offset > 0 {
				end = begin + int(offset) - 1
			} else if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
				end = begin + int(syntax.Offset) - 1
			} else {
				end = len(bytes.TrimSpace(text))
			}
			return nil, nil, &offsetError{err, end}
		}
		values = append(values, value)
		lines = append(lines, lineAt(text, end-len(value)))
	}
}

// yamlLine finds the places that messages of the YAML parser name, 1-based.
var yamlLine = regexp.MustCompile(`\bline ([0-9]+): `)

// failYAML records a syntax error at the line that the parser names.
func (d *document) failYAML(first int, err error) {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	line := first
	if m := yamlLine.FindStringSubmatch(message); m != nil {
		n, _ := strconv.Atoi(m[1])
		line = n - 1
		message = yamlLine.ReplaceAllString(message, "")
	}
	d.fail(line, withoutValues(message))
}

// quotedValue is a value in a message of the YAML parser.
var quotedValue = regexp.MustCompile("`[^`]*`")

// withoutValues takes out of a message what the parser quotes of the text: the file may
// hold a Secret. Single characters of the syntax stay.
func withoutValues(message string) string {
	switch {
	case strings.HasPrefix(message, "unsupported map key"), strings.HasPrefix(message, "invalid map key"):
		return "a key is neither text nor a number"
	case strings.HasPrefix(message, "unknown anchor"):
		return "there is no such anchor (put text that begins with * in quotes)"
	}
	return quotedValue.ReplaceAllString(message, "`...`")
}

// duplicates records that keys are given more than once in one mapping.
func (d *document) duplicates(first int, strict error) {
	origin := model.Origin{}
	if len(d.objects) == 1 {
		origin = d.objects[0].key.Origin()
	}
	for text := range strings.Lines(strict.Error()) {
		m := yamlLine.FindStringSubmatchIndex(text)
		if m == nil {
			continue
		}
		n, _ := strconv.Atoi(text[m[2]:m[3]])
		d.remarks = append(d.remarks, remark{
			report.New(report.ObjectInvalid, origin, "%s; the last value counts, remove the others", oneLine(text[m[1]:])),
			max(n-1, first),
		})
	}
}

// place is where a value stands: its line, and the number of Lists around it.
type place struct{ line, depth int }

// add takes over one value: an object, a List or nothing. apiVersion and kindName are
// those of values that leave them out.
func (d *document) add(raw []byte, apiVersion, kindName string, at place) {
	raw = bytes.TrimSpace(raw)
	if bytes.Equal(raw, []byte("null")) {
		return
	}
	h := head{}
	if !bytes.HasPrefix(raw, []byte("{")) {
		d.fail(at.line, "not a Kubernetes object: fields are required, beginning with apiVersion and kind")
		return
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &h); err != nil {
		d.fail(at.line, "not a Kubernetes object: "+refusal(err))
		return
	}
	if h.APIVersion == "" && h.Kind == "" {
		h.APIVersion, h.Kind = apiVersion, kindName
	}
	switch {
	case h.APIVersion == "" || h.Kind == "":
		d.fail(at.line, "not a Kubernetes object: apiVersion and kind are required")
	case h.Kind == "List" || strings.HasSuffix(h.Kind, "List") && h.Items != nil:
		d.addList(h, at)
	default:
		d.addObject(raw, h, at.line)
	}
}

func (d *document) addList(h head, at place) {
	if at.depth == maxNesting {
		d.fail(at.line, "Lists are nested too deeply; put the objects into one List")
		return
	}
	if h.Items == nil {
		return
	}
	apiVersion, kindName := "", ""
	if h.Kind != "List" { // a typed list: the API server leaves the kind of items out
		apiVersion, kindName = h.APIVersion, strings.TrimSuffix(h.Kind, "List")
	}
	for _, item := range *h.Items {
		d.add(item, apiVersion, kindName, place{at.line, at.depth + 1})
	}
}

func (d *document) addObject(raw []byte, h head, line int) {
	k, ok := kindOf(h.Kind)
	if !ok || !k.reads(h.APIVersion) {
		advice := ""
		if ok {
			advice = oldVersion(k, h.APIVersion, h.Kind)
		}
		if advice == "" {
			d.foreign = append(d.foreign, foreign{h.APIVersion, h.Kind, line})
			return
		}
		origin := model.Origin{Kind: h.Kind, Namespace: h.Metadata.Namespace, Name: h.Metadata.Name}
		d.remark(report.New(report.ObjectUnsupported, origin, "%s", advice), line)
		return
	}
	key := snapshot.Key{Kind: snapshot.Kind(h.Kind), Name: h.Metadata.Name}
	if !k.cluster {
		key.Namespace = h.Metadata.Namespace
		if key.Namespace == "" {
			key.Namespace = "default"
		}
	}
	if key.Name == "" {
		d.fail(line, fmt.Sprintf("%s without metadata.name", h.Kind))
		return
	}
	if field, why := badName(k, key); field != "" {
		origin := key.Origin()
		origin.Field = field
		d.remark(report.New(report.ObjectInvalid, origin, "not a valid name: %s; the object is left out", why), line)
		return
	}
	d.addTyped(raw, k, key, line)
}

func (d *document) addTyped(raw []byte, k kind, key snapshot.Key, line int) {
	value, strict, err := k.decode(raw, key)
	if err != nil {
		d.objects = append(d.objects, object{key: key, refusal: refusal(err), line: line})
		return
	}
	d.objects = append(d.objects, object{key: key, value: value, line: line})
	for _, err := range strict {
		origin, code, text := key.Origin(), report.FieldUnknown, "the field does not exist and has no effect; check its spelling and indentation"
		message := err.Error()
		if strings.HasPrefix(message, "duplicate field") {
			code, text = report.ObjectInvalid, "the field is given more than once; the last value counts, remove the others"
		}
		if _, quoted, ok := strings.Cut(message, " field "); ok {
			if name, err := strconv.Unquote(quoted); err == nil {
				origin.Field = oneLine(name)
			}
		}
		d.remark(report.New(code, origin, "%s", text), line)
	}
}

func (d *document) remark(f report.Finding, line int) {
	d.remarks = append(d.remarks, remark{f, line})
}

// badName names the field with an invalid name, and why. The API server refuses such
// names; here they must not reach names of backends, which are joined of them.
func badName(k kind, key snapshot.Key) (field, why string) {
	if problems := k.checkName(key.Name); len(problems) > 0 {
		return "metadata.name", problems[0]
	}
	if k.cluster {
		return "", ""
	}
	if problems := namespaceKind().checkName(key.Namespace); len(problems) > 0 {
		return "metadata.namespace", problems[0]
	}
	return "", ""
}

func namespaceKind() kind {
	k, _ := kindOf(string(snapshot.Namespace))
	return k
}

// refusal says why an object does not fit its type, and what to do where that is known.
func refusal(err error) string {
	text := strings.TrimPrefix(oneLine(err.Error()), "json: ")
	if strings.HasSuffix(text, "of type string") {
		text += " (put the value in quotes)"
	}
	return text
}

// oneLine makes one line of a message that may quote a user's text.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, s)
}
