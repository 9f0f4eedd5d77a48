package loop

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/converters/source"
	"github.com/sluice-proxy/sluice/pkg/converters/source/files"
	"github.com/sluice-proxy/sluice/pkg/haproxy/apply"
	"github.com/sluice-proxy/sluice/tests/harness"
)

// contents notes what it is asked for, and says that what it holds is on its way.
type contents struct {
	holds  []snapshot.Key
	wanted map[snapshot.Key]bool
}

func (c *contents) Want(wanted, unwanted []snapshot.Key) (pending []snapshot.Key) {
	for _, key := range unwanted {
		delete(c.wanted, key)
	}
	for _, key := range wanted {
		c.wanted[key] = true
		if slices.Contains(c.holds, key) {
			pending = append(pending, key)
		}
	}
	return pending
}

func secretKey(name string) snapshot.Key {
	return snapshot.Key{Kind: snapshot.Secret, Namespace: "test", Name: name}
}

func withTLS(name, host, secret string) string {
	return strings.Replace(harness.Ingress(name, host, "a"), "spec:", "spec:\n  tls: [{hosts: ["+host+"], secretName: "+secret+"}]", 1)
}

// settle delivers nothing but the word that contents are there, or can't be had.
func (w *world) settle(keys ...snapshot.Key) {
	w.take(source.Batch{Synced: true, Settled: keys})
	w.run()
}

func TestPlansWaitForContents(t *testing.T) {
	w := newWorld(t)
	asked := &contents{holds: []snapshot.Key{secretKey("one"), secretKey("two")}, wanted: map[snapshot.Key]bool{}}
	w.Contents = asked
	w.change(base + withTLS("a", "a.example", "one"))
	if len(w.applier.reloads) != 0 || !asked.wanted[secretKey("one")] {
		t.Fatalf("%d reloads before the Secret is there; asked for %v", len(w.applier.reloads), asked.wanted)
	}
	w.settle(secretKey("one"))
	if len(w.applier.reloads) != 1 {
		t.Fatalf("%d reloads after the Secret is there", len(w.applier.reloads))
	}
	w.land(apply.Outcome{Reloaded: true})

	planned := len(w.applier.did) + len(w.applier.reloads)
	w.change(withTLS("b", "b.example", "two"))
	if len(w.applier.did)+len(w.applier.reloads) != planned {
		t.Error("a route is served before its certificate was read")
	}
	w.stopWaiting() // the timer
	w.run()
	if len(w.applier.did)+len(w.applier.reloads) == planned {
		t.Error("a Secret that does not come holds up everybody")
	}
}

func TestWhatNobodyLooksUpIsLetGo(t *testing.T) {
	w := newWorld(t)
	asked := &contents{holds: []snapshot.Key{secretKey("one")}, wanted: map[snapshot.Key]bool{}}
	w.Contents = asked
	w.change(base + withTLS("a", "a.example", "one"))
	w.change(withTLS("a", "a.example", "missing"))
	if asked.wanted[secretKey("one")] || !asked.wanted[secretKey("missing")] {
		t.Errorf("wanted: %v", asked.wanted)
	}
	if len(w.applier.reloads) != 1 {
		t.Errorf("%d reloads: a plan waits for what nobody looks up any more", len(w.applier.reloads))
	}
	if !asked.wanted[snapshot.Key{Kind: snapshot.ConfigMap, Namespace: "sluice-system", Name: "sluice"}] {
		t.Errorf("the global ConfigMap is not asked for: %v", asked.wanted)
	}
}

func TestTroubleOfTheSource(t *testing.T) {
	w := newWorld(t)
	w.take(source.Batch{Trouble: "no way"})
	if w.run(); len(w.applier.reloads) != 0 || w.status.Trouble != "no way" {
		t.Errorf("%d reloads, trouble %q", len(w.applier.reloads), w.status.Trouble)
	}
	w.Once = true
	if done, err := w.done(); !done || err == nil || err.Error() != "no way" {
		t.Errorf("done %v, %v", done, err)
	}
	w.Once = false
	w.change(base)
	w.land(apply.Outcome{Reloaded: true})
	w.take(source.Batch{Trouble: "no way", Synced: true})
	if w.run(); !w.status.Ready || w.status.Trouble != "no way" {
		t.Errorf("ready %v, trouble %q", w.status.Ready, w.status.Trouble)
	}
}

func TestForeignObjectsAreNotConverted(t *testing.T) {
	w := newWorld(t)
	w.change(base + harness.Ingress("a", "a.example", "a"))
	before := w.Line.Conversions()
	content, err := files.Read([]string{files.Stdin}, strings.NewReader(foreign(1000)))
	if err != nil {
		t.Fatal(err)
	}
	w.take(source.Batch{Changes: content.Changes, Synced: true})
	w.run()
	after := w.Line.Conversions()
	for unit, n := range after {
		if n != before[unit] {
			t.Errorf("%d conversions of kind %s", n-before[unit], unit)
		}
	}
}

// foreign are Ingresses of another controller's class.
func foreign(n int) string {
	var b strings.Builder
	b.WriteString("---\napiVersion: networking.k8s.io/v1\nkind: IngressClass\nmetadata: {name: other}\nspec: {controller: example.com/other}\n")
	for i := range n {
		fmt.Fprintf(&b, "---\napiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: f%[1]d, namespace: other}\n"+
			"spec: {ingressClassName: other, rules: [{host: f%[1]d.example}]}\n", i)
	}
	return b.String()
}
