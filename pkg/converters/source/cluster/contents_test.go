package cluster

import (
	"fmt"
	"testing"

	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
)

func TestReferencedSecretIsReadRotatedAndDropped(t *testing.T) {
	server := newAPIServer(t)
	server.put(all()...)
	w := follow(t, server, nil)
	w.synced()
	a, missing := key(snapshot.Secret, "a"), key(snapshot.Secret, "later")
	if pending := w.Want([]snapshot.Key{a, missing}, nil); len(pending) != 1 || pending[0] != a {
		t.Fatalf("pending: %v", pending)
	}
	w.until(func() bool { return w.secretValue("a") == "one" })
	if len(w.settled) != 1 {
		t.Errorf("settled: %v", w.settled)
	}

	server.put(secret("a", "two"))
	w.until(func() bool { return w.secretValue("a") == "two" })
	server.put(secret("later", "x"))
	w.has(true, missing)
	server.remove(secret("later", "x"))
	w.has(false, missing)

	w.seen = nil
	server.put(secret("a", "two")) // another version of the same
	server.await("get secrets", 4)
	w.barrier("end")
	if len(w.seen) != 1 {
		t.Errorf("changes of nothing: %s", changedKeys(w.seen))
	}

	w.Want(nil, []snapshot.Key{a, missing})
	w.has(false, a)
	server.put(secret("a", "three"), secret("later", "x"))
	w.Want([]snapshot.Key{key(snapshot.ConfigMap, "a")}, nil)
	w.has(true, key(snapshot.ConfigMap, "a"))
	if n := server.count("get secrets"); n != 4 {
		t.Errorf("a Secret that nobody looks up was read: %d reads", n)
	}
}

func TestReadsAreBounded(t *testing.T) {
	server := newAPIServer(t)
	var keys []snapshot.Key
	for i := range 30 {
		name := fmt.Sprint("s", i)
		server.put(secret(name, "x"))
		keys = append(keys, key(snapshot.Secret, name))
	}
	server.gate = make(chan struct{})
	w := follow(t, server, nil)
	w.synced()
	if pending := w.Want(keys, nil); len(pending) != len(keys) {
		t.Fatalf("%d are pending", len(pending))
	}
	server.await("get secrets", maxGets)
	w.barrier("others are not held up")
	close(server.gate)
	w.until(func() bool { return len(w.settled) == len(keys) })
	w.has(true, keys...)
	if server.mostGets > maxGets {
		t.Errorf("%d reads at a time", server.mostGets)
	}
}

func TestSecretThatVanishesWhileItIsRead(t *testing.T) {
	server := newAPIServer(t)
	server.put(secret("a", "one"))
	server.gate = make(chan struct{})
	w := follow(t, server, nil)
	w.synced()
	a := key(snapshot.Secret, "a")
	w.Want([]snapshot.Key{a}, nil)
	server.remove(secret("a", ""))
	close(server.gate)
	w.until(func() bool { return len(w.settled) == 1 })
	server.put(secret("a", "two"))
	w.until(func() bool { return w.secretValue("a") == "two" })
}

func TestSecretThatIsWantedAgain(t *testing.T) {
	server := newAPIServer(t)
	server.put(secret("a", "one"))
	w := follow(t, server, nil)
	w.synced()
	a := []snapshot.Key{key(snapshot.Secret, "a")}
	w.Want(a, nil)
	w.has(true, a...)
	w.Want(nil, a)
	if pending := w.Want(a, nil); len(pending) != 1 {
		t.Fatalf("pending: %v", pending)
	}
	w.until(func() bool { return len(w.settled) == 2 })
	if w.secretValue("a") != "one" {
		t.Error("the Secret is missing after it counts as settled")
	}
}
