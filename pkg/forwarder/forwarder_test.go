package forwarder

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// patience bounds what takes no time where all is well.
const patience = 10 * time.Second

func TestSharesAreExactAndThatOfAMissingServiceIsDropped(t *testing.T) {
	b := newBed(t, Options{})
	b.apply(b.listener(7, b.backend("one", b.server("one")), 2, b.backend("two", b.server("two")), 1, nil))
	answers := map[string]int{}
	var silent []net.Conn
	for range 100 {
		client := b.client()
		send(t, client, "x")
		if b.served() {
			answers[strings.Fields(receive(t, client))[0]]++
		} else {
			silent = append(silent, client)
		}
	}
	if answers["one"] != 70 || answers["two"] != 20 || len(silent) != 10 {
		t.Errorf("%v, and %d dropped; want 70, 20 and 10 of 100 clients", answers, len(silent))
	}
	send(t, silent[0], "again")
	if b.served() {
		t.Error("the second datagram of a client that is dropped is served: then more than the share is")
	}
}

func TestSessionsOutliveATable(t *testing.T) {
	b := newBed(t, Options{})
	one, two := b.server("one"), b.server("two")
	b.apply(b.listener(1, b.backend("web", one)))
	client := b.client()
	first := ask(t, client)
	b.apply(b.listener(1, b.backend("web", one, two), 5, b.backend("other", b.server("other"))))
	if again := ask(t, client); again != first {
		t.Errorf("the client had %q and has %q after a new table", first, again)
	}
	one.State = model.Drain
	b.apply(b.listener(1, b.backend("web", one, two)))
	if again := ask(t, client); again != first {
		t.Errorf("the client had %q and has %q while its server is drained", first, again)
	}
	if other := ask(t, b.client()); !strings.HasPrefix(other, "two ") {
		t.Errorf("a new client gets %q while the other server is drained", other)
	}
	b.apply(b.listener(1, b.backend("web", two)))
	if again := ask(t, client); !strings.HasPrefix(again, "two ") {
		t.Errorf("the client still has %q, whose server is gone", again)
	}
	if c := b.counters(); c.Moved != 1 || c.Sessions != 2 {
		t.Errorf("%+v, want one session moved and two open", c)
	}
}

func TestAServerThatRefusesIsLeft(t *testing.T) {
	b := newBed(t, Options{})
	gone := b.server("gone")
	b.apply(b.listener(1, b.backend("web", gone, b.server("up"))))
	b.stop("gone")
	for range 4 { // the refusal comes after a datagram, so one of the first is lost
		client := b.client()
		b.until("an answer", func() bool {
			send(t, client, "x")
			answer, ok := receiveSoon(client)
			return ok && strings.HasPrefix(answer, "up ")
		})
	}
}

func TestIdleSessionsEnd(t *testing.T) {
	b := newBed(t, Options{Idle: 20 * time.Millisecond})
	b.apply(b.listener(1, b.backend("web", b.server("one"))))
	client := b.client()
	ask(t, client)
	b.until("the end of the session", func() bool { return b.counters().Sessions == 0 })
	ask(t, client)
	if c := b.counters(); c.Opened < 2 {
		t.Errorf("%+v, want a second session", c)
	}
}

func TestTheOldestSessionMakesRoom(t *testing.T) {
	b := newBed(t, Options{Sessions: 2})
	b.apply(b.listener(1, b.backend("web", b.server("one"))))
	clients := []net.Conn{b.client(), b.client(), b.client()}
	first, second := ask(t, clients[0]), ask(t, clients[1])
	ask(t, clients[0]) // so the second one is the oldest
	ask(t, clients[2])
	if again := ask(t, clients[0]); again != first {
		t.Errorf("the client that was heard last had %q and has %q", first, again)
	}
	if again := ask(t, clients[1]); again == second {
		t.Errorf("the oldest session %q was not ended", again)
	}
	if c := b.counters(); c.Sessions != 2 || c.Evicted != 2 {
		t.Errorf("%+v, want two sessions, and two that made room", c)
	}
}

func TestListsOfAddresses(t *testing.T) {
	b := newBed(t, Options{})
	web := b.backend("web", b.server("one"))
	web.Profile.Shape.AllowList = &model.List{Entries: []string{"127.0.0.0/8"}}
	web.Profile.Shape.AllowExcept = &model.List{Entries: []string{"127.0.0.3"}}
	b.apply(b.listener(1, web))
	let, kept := b.clientAt("127.0.0.2"), b.clientAt("127.0.0.3")
	ask(t, let)
	send(t, kept, "x")
	b.until("the refusal", func() bool { return b.counters().Denied == 1 })
	closed := b.backend("web", web.Servers[0])
	closed.Profile.Shape.DenyList = &model.List{Entries: []string{"127.0.0.2"}}
	b.apply(b.listener(1, closed))
	send(t, let, "x")
	b.until("the refusal", func() bool { return b.counters().Denied == 2 })
	ask(t, kept)
}

func TestAnswersComeFromTheAddressThatWasAsked(t *testing.T) {
	b := newBed(t, Options{})
	l := b.listener(1, b.backend("web", b.server("one")))
	l.Addresses = []string{"*:" + strconv.Itoa(int(b.at.Port()))}
	b.apply(l)
	for _, at := range []string{"127.0.0.2", "127.0.0.3"} {
		conn, err := net.Dial("udp4", net.JoinHostPort(at, strconv.Itoa(int(b.at.Port()))))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		ask(t, conn) // a connected socket takes answers of that address only
	}
}

func TestAPortThatIsTaken(t *testing.T) {
	b := newBed(t, Options{})
	taken, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(b.at))
	if err != nil {
		t.Fatal(err)
	}
	l := b.listener(1, b.backend("web", b.server("one")))
	want := fmt.Sprintf("UDP %s: bind: address already in use", b.at)
	for range 2 { // it is tried again, and said each time
		if why := b.f.Apply([]*model.UDPListener{l}); why["udp"] != want {
			t.Errorf("refused: %v, want %q", why, want)
		}
	}
	taken.Close()
	b.apply(l)
	ask(t, b.client())
	// Another listener takes the address over, within one table.
	moved := *l
	moved.Name = "another"
	b.apply(&moved)
	ask(t, b.client())
}

func TestNothingRunsWithoutListeners(t *testing.T) {
	b := newBed(t, Options{})
	server := b.server("one")
	before := runtime.NumGoroutine()
	b.apply()
	if after := runtime.NumGoroutine(); after != before {
		t.Errorf("%d goroutines, %d before the first table", after, before)
	}
	b.apply(b.listener(1, b.backend("web", server)))
	client := b.client()
	ask(t, client)
	b.apply()
	b.until("the end of all goroutines", func() bool { return runtime.NumGoroutine() == before })
	again, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(b.at))
	if err != nil {
		t.Fatalf("the port is not free: %v", err)
	}
	again.Close()
}

func TestCloseLetsClientsFinish(t *testing.T) {
	b := newBed(t, Options{})
	asked, answer := make(chan struct{}), make(chan struct{})
	slow := b.serverWith("slow", func() { close(asked); <-answer })
	b.apply(b.listener(1, b.backend("web", slow)))
	client, late := b.client(), b.client()
	send(t, client, "x")
	<-asked
	done := make(chan struct{})
	go func() { b.f.Close(t.Context()); close(done) }()
	b.until("a refusal of new clients", func() bool {
		send(t, late, "x")
		return b.counters().Failed > 0
	})
	close(answer)
	receive(t, client)
	<-done
}

func TestDatagramsAllocateNothing(t *testing.T) {
	b := newBed(t, Options{})
	b.apply(b.listener(1, b.backend("web", b.echo())))
	client := b.client()
	payload, buffer := make([]byte, 100), make([]byte, 100)
	n := testing.AllocsPerRun(1000, func() { roundTrip(t, client, payload, buffer) })
	if n >= 1 {
		t.Errorf("%.1f allocations for a datagram and its answer", n)
	}
}

func BenchmarkRoundTrip(b *testing.B) {
	bed := newBed(b, Options{})
	bed.apply(bed.listener(1, bed.backend("web", bed.echo())))
	client := bed.client()
	payload, buffer := make([]byte, 100), make([]byte, 100)
	for b.Loop() {
		roundTrip(b, client, payload, buffer)
	}
}

func roundTrip(t testing.TB, client net.Conn, payload, buffer []byte) {
	if _, err := client.Write(payload); err != nil {
		t.Fatal(err)
	}
	if n, err := client.Read(buffer); err != nil || n != len(payload) {
		t.Fatal(n, err)
	}
}

// bed is a forwarder with servers and clients.
type bed struct {
	t       testing.TB
	f       *Forwarder
	at      netip.AddrPort // of the listener
	servers map[string]*net.UDPConn
	seen    Counters
}

func newBed(t testing.TB, o Options) *bed {
	o.Log = slog.New(slog.DiscardHandler)
	if o.Idle == 0 {
		o.Idle = time.Minute
	}
	if o.Sessions == 0 {
		o.Sessions = 1000
	}
	free := socketAt(t, "127.0.0.1")
	b := &bed{t: t, f: New(o), at: free.LocalAddr().(*net.UDPAddr).AddrPort(), servers: map[string]*net.UDPConn{}}
	free.Close()
	t.Cleanup(func() {
		ended, end := context.WithCancel(context.Background())
		end()
		b.f.Close(ended)
	})
	return b
}

func socketAt(t testing.TB, address string) *net.UDPConn {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP(address)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// server answers each datagram with its name and the address that it came from.
func (b *bed) server(name string) model.Server { return b.serverWith(name, func() {}) }

func (b *bed) serverWith(name string, before func()) model.Server {
	conn := socketAt(b.t, "127.0.0.1")
	b.servers[name] = conn
	go func() {
		buffer := make([]byte, 1000)
		for {
			_, from, err := conn.ReadFromUDPAddrPort(buffer)
			if err != nil {
				return
			}
			before()
			if _, err := conn.WriteToUDPAddrPort([]byte(name+" "+from.String()), from); err != nil {
				return
			}
		}
	}()
	return model.Server{Addr: conn.LocalAddr().(*net.UDPAddr).AddrPort()}
}

// echo is a server that allocates nothing.
func (b *bed) echo() model.Server {
	conn := socketAt(b.t, "127.0.0.1")
	go func() {
		buffer := make([]byte, 1000)
		for {
			n, from, err := conn.ReadFromUDPAddrPort(buffer)
			if err != nil {
				return
			}
			if _, err := conn.WriteToUDPAddrPort(buffer[:n], from); err != nil {
				return
			}
		}
	}()
	return model.Server{Addr: conn.LocalAddr().(*net.UDPAddr).AddrPort()}
}

func (b *bed) stop(name string) { b.servers[name].Close() }

func (b *bed) backend(name string, servers ...model.Server) *model.Backend {
	return &model.Backend{Name: name, Servers: servers, Profile: &model.Profile{}}
}

// listener has targets: weights, each followed by a backend; nil is one that can't be served.
func (b *bed) listener(targets ...any) *model.UDPListener {
	l := &model.UDPListener{Name: "udp", Addresses: []string{b.at.String()}}
	for i := 0; i < len(targets); i += 2 {
		backend, _ := targets[i+1].(*model.Backend)
		l.Targets = append(l.Targets, model.UDPTarget{Weight: targets[i].(int), Backend: backend})
	}
	return l
}

func (b *bed) apply(listeners ...*model.UDPListener) {
	b.t.Helper()
	if why := b.f.Apply(listeners); len(why) > 0 {
		b.t.Fatalf("refused: %v", why)
	}
}

func (b *bed) counters() Counters {
	if list := b.f.Counters(); len(list) > 0 {
		return list[0]
	}
	return Counters{}
}

// served waits until the next datagram was taken, and tells whether a server got it.
func (b *bed) served() bool {
	b.t.Helper()
	var now Counters
	b.until("a datagram", func() bool {
		now = b.counters()
		return now.Unserved > b.seen.Unserved || now.Opened > b.seen.Opened
	})
	served := now.Opened > b.seen.Opened
	b.seen = now
	return served
}

func (b *bed) until(what string, holds func() bool) {
	b.t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("%s does not come; %+v", what, b.counters())
		}
	}
}

func (b *bed) client() net.Conn { return b.clientAt("127.0.0.1") }

func (b *bed) clientAt(address string) net.Conn {
	conn, err := net.DialUDP("udp4", &net.UDPAddr{IP: net.ParseIP(address)}, net.UDPAddrFromAddrPort(b.at))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { conn.Close() })
	return conn
}

func send(t testing.TB, client net.Conn, text string) {
	t.Helper()
	if _, err := client.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
}

func ask(t testing.TB, client net.Conn) string {
	t.Helper()
	send(t, client, "x")
	return receive(t, client)
}

func receive(t testing.TB, client net.Conn) string {
	t.Helper()
	answer, ok := receiveBefore(client, time.Now().Add(patience))
	if !ok {
		t.Fatal("no answer comes")
	}
	return answer
}

func receiveSoon(client net.Conn) (string, bool) {
	return receiveBefore(client, time.Now().Add(50*time.Millisecond))
}

func receiveBefore(client net.Conn, end time.Time) (string, bool) {
	buffer := make([]byte, 1000)
	if err := client.SetReadDeadline(end); err != nil {
		return "", false
	}
	n, err := client.Read(buffer)
	return string(buffer[:n]), err == nil
}
