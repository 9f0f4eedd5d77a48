//go:build bench

package bench

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sluice-proxy/sluice/tests/kube"
)

const (
	httpAddress  = "127.0.0.1:8081"
	adminAddress = "127.0.0.1:9090"
	podPort      = 8080
	writers      = 8
	// pause is between two requests of the client. One that never rests takes the cores that
	// the controller and HAProxy need.
	pause      = time.Millisecond
	namespaces = 20
)

// driver writes objects and looks at what traffic shows.
type driver struct {
	t       *testing.T
	cluster *kube.Cluster
	objects kubernetes.Interface // writes as fast as the API server takes it
	size    int
	client  *http.Client
	process *os.Process // the controller
	seen    *watcher
	turns   map[int]int // Service -> how often its endpoints changed
}

func newDriver(t *testing.T, c *kube.Cluster, size int) *driver {
	d := &driver{t: t, cluster: c, size: size, client: &http.Client{Timeout: 5 * time.Second}, turns: map[int]int{}}
	config := rest.CopyConfig(c.Admin)
	config.QPS = -1
	var err error
	d.objects, err = kubernetes.NewForConfig(config)
	d.must(err)
	d.respond()
	return d
}

// respond answers for all pods with the address that was asked.
func (d *driver) respond() {
	listener, err := net.Listen("tcp", fmt.Sprintf(":%d", podPort))
	d.must(err)
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		local := r.Context().Value(http.LocalAddrContextKey).(net.Addr).String()
		host, _, _ := net.SplitHostPort(local)
		_, _ = io.WriteString(w, host)
	})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	d.t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
}

// populate writes the first objects.
func (d *driver) populate(ctx context.Context) {
	for i := range namespaces {
		d.must(create(ctx, d.objects, namespaceOf(i)))
	}
	progress("writing %d Services, EndpointSlices and Ingresses", d.size)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i := range d.size {
		group.Go(func() error { return d.write(ctx, i) })
	}
	d.must(group.Wait())
}

// write creates Service, slice and Ingress i.
func (d *driver) write(ctx context.Context, i int) error {
	if err := create(ctx, d.objects, service(i)); err != nil {
		return err
	}
	if err := create(ctx, d.objects, slice(i, 0)); err != nil {
		return err
	}
	return create(ctx, d.objects, ingress(i))
}

// startController starts sluice with the chart's rights and waits until it is ready.
func (d *driver) startController(ctx context.Context) {
	haproxy := os.Getenv("SLUICE_HAPROXY_34")
	if haproxy == "" {
		d.t.Fatal("$SLUICE_HAPROXY_34 is not set: run this with `make bench-cluster`")
	}
	d.must(d.cluster.Apply(ctx, rights(d.t)))
	user, err := d.cluster.ServiceAccount(ctx, systemNamespace, accountName)
	d.must(err)
	config, err := d.cluster.Kubeconfig("sluice", user)
	d.must(err)
	// In memory, as the chart's volumes are: a disk's fsync would be measured otherwise.
	folder := filepath.Join(d.cluster.Folder, "sluice")
	d.must(os.Mkdir(folder, 0o755))
	log, err := os.Create(filepath.Join(d.cluster.Logs, "sluice.log"))
	d.must(err)
	command := exec.Command(kube.Program(d.t, "sluice"), "run", "--kubeconfig", config,
		"--config-dir", filepath.Join(folder, "config"), "--state-dir", filepath.Join(folder, "state"), "--run-dir", filepath.Join(folder, "run"),
		"--http-address", httpAddress, "--https-address", "127.0.0.1:8443", "--admin-address", adminAddress, "--haproxy", haproxy,
		"--publish-address", "10.200.0.1", "--watch-ingress-without-class")
	command.Stdout, command.Stderr = log, log
	command.Dir = folder
	d.must(command.Start())
	d.process = command.Process
	d.t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		_ = command.Wait()
		_ = log.Close()
	})
	kube.Eventually(d.t, "the controller is ready", func() error {
		_, err := d.get("http://"+adminAddress+"/readyz", "")
		return err
	})
}

// settle waits until each Ingress has its address, the last work of the start. The
// controller bounds the rate of its writes, so thousands take minutes.
func (d *driver) settle(ctx context.Context) {
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for deadline := time.Now().Add(5 * time.Minute); ; <-tick.C {
		list, err := d.objects.NetworkingV1().Ingresses("").List(ctx, metav1.ListOptions{})
		d.must(err)
		without := slices.DeleteFunc(list.Items, func(o networkingv1.Ingress) bool { return len(o.Status.LoadBalancer.Ingress) > 0 })
		if len(without) == 0 {
			return
		}
		if time.Now().After(deadline) {
			d.t.Fatalf("%d Ingresses have no address", len(without))
		}
	}
}

// changeEndpoint gives a Service one other endpoint and returns how long it took until a
// request got there, counted from the API server's answer, less the watcher's time.
func (d *driver) changeEndpoint(ctx context.Context, i int) time.Duration {
	n := i * 7919 % d.size
	d.turns[n]++
	wanted := slice(n, d.turns[n])
	address := wanted.Endpoints[0].Addresses[0]
	d.seen.expect("EndpointSlice", wanted.Namespace, wanted.Name, address)
	_, err := d.objects.DiscoveryV1().EndpointSlices(wanted.Namespace).Update(ctx, wanted, metav1.UpdateOptions{})
	answered := time.Now()
	d.must(err)
	shown := d.until(hostOf(n), endpoints, func(body string) bool { return body == address })
	return shown.Sub(answered) - max(0, d.seen.wait().Sub(answered))
}

// addRoute adds a Service with endpoints and an Ingress, and returns how long it took
// until a request got through, counted from the answer to the last write.
func (d *driver) addRoute(ctx context.Context, i int) time.Duration {
	n := d.size + i
	d.must(create(ctx, d.objects, service(n)))
	d.must(create(ctx, d.objects, slice(n, 0)))
	object := ingress(n)
	d.seen.expect("Ingress", object.Namespace, object.Name, "")
	d.must(create(ctx, d.objects, object))
	answered := time.Now()
	shown := d.until(hostOf(n), 1, func(string) bool { return true })
	return shown.Sub(answered) - max(0, d.seen.wait().Sub(answered))
}

// until asks for a host until the answer is the wanted one. It rests after each turn of
// requests, which is one round of HAProxy's: a rest between them would be counted, too.
func (d *driver) until(host string, turn int, wanted func(string) bool) time.Time {
	deadline := time.Now().Add(30 * time.Second)
	for asked := 1; ; asked++ {
		body, err := d.get("http://"+httpAddress+"/", host)
		if err == nil && wanted(body) {
			return time.Now()
		}
		if time.Now().After(deadline) {
			d.t.Fatalf("%s does not show the change: %q, %v", host, body, err)
		}
		if asked%turn == 0 {
			<-time.After(pause)
		}
	}
}

func (d *driver) get(url, host string) (string, error) {
	request, err := http.NewRequest(http.MethodGet, url, nil)
	d.must(err)
	request.Host = host
	response, err := d.client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, body)
	}
	return string(body), err
}

// times runs changes one after the other.
func (d *driver) times(n int, change func(i int) time.Duration) []time.Duration {
	list := make([]time.Duration, 0, n)
	for i := range n {
		list = append(list, change(i))
	}
	return list
}

// idle is how much of a core the controller needs while nothing happens.
func (d *driver) idle() float64 {
	before, began := d.cpu(), time.Now()
	<-time.After(idleTime) // the measurement itself, not a wait for something
	return (d.cpu() - before).Seconds() / time.Since(began).Seconds()
}

// cpu is the CPU time of the controller, which the kernel counts in ticks of 10 ms.
func (d *driver) cpu() time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", d.process.Pid))
	d.must(err)
	_, rest, _ := strings.Cut(string(text), ") ") // behind the name: field 3 on
	fields := strings.Fields(rest)
	user, err := strconv.Atoi(fields[11])
	d.must(err)
	system, err := strconv.Atoi(fields[12])
	d.must(err)
	return time.Duration(user+system) * 10 * time.Millisecond
}

// heap is the controller's heap in use after a garbage collection, in MiB.
func (d *driver) heap() float64 {
	_, err := d.get("http://"+adminAddress+"/debug/pprof/heap?gc=1", "")
	d.must(err)
	return d.metric("go_memstats_heap_alloc_bytes") / (1 << 20)
}

// metric is the sum of a metric's series.
func (d *driver) metric(name string) float64 {
	text, err := d.get("http://"+adminAddress+"/metrics", "")
	d.must(err)
	sum := 0.0
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		rest, found := strings.CutPrefix(line, name)
		if found && strings.IndexAny(rest, "{ ") == 0 {
			v, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64) // labels may hold blanks
			d.must(err)
			sum += v
		}
	}
	return sum
}

func (d *driver) must(err error) {
	if err != nil {
		d.t.Helper()
		d.t.Fatal(err)
	}
}
