package options

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Options is what the flags say.
type Options struct {
	Source                []string
	KubeConfig            string
	WatchNamespaces       []string
	Once                  bool
	ConfigDir             string
	StateDir              string
	RunDir                string
	HAProxy               string
	HAProxyMemoryLimit    string
	MasterSocket          string
	HTTPAddress           []string
	HTTPSAddress          []string
	HealthAddress         []string
	GatewayAddresses      []string
	AdminAddress          string
	ConfigMap             string
	IngressClass          string
	ControllerClass       string
	GatewayAPI            bool
	WatchWithoutClass     bool
	BackendShards         int
	Templates             string
	AllowCrossNamespace   bool
	AllowLocalEndpoints   bool
	NodeName              string
	Zone                  string
	DefaultBackendService string
	DefaultSSLCertificate string
	TCPServicesConfigMap  string
	PublishService        string
	PublishAddress        []string
	UpdateStatus          bool
	LeaderElect           bool
	LogFormat             string
	LogLevel              string
	Output                string
	Out                   string
	Status                string
	UDP                   string
	UDPIdleTimeout        time.Duration
	UDPSessions           int
	WithKeys              bool
	Bootstrap             bool
	StopTimeout           time.Duration
	OldWorkers            int
	ReloadInterval        time.Duration
	Against               string
	Running               string
}

// Command is a bit for each command that takes flags.
type Command uint8

// The commands.
const (
	Run Command = 1 << iota
	Render
	Diff
	Check

	all = Run | Render | Diff | Check
)

// row is one flag of the table.
type row struct {
	name   string
	on     Command
	value  func(*Options) any // pointer to the field
	preset any
	usage  string
}

// controllerName is what the controller of a class says that is sluice's.
const controllerName = "sluice-proxy.github.io/controller"

// presetConfigMap is the global ConfigMap where --configmap names none.
const presetConfigMap = "sluice-system/sluice"

// table holds every flag, sorted by name.
var table = []row{
	{"admin-address", Run, func(o *Options) any { return &o.AdminAddress }, "127.0.0.1:9090", "address of health, readiness, metrics, pprof and the API; empty: none"},
	{"against", Diff, func(o *Options) any { return &o.Against }, "", "configuration folder or rendered tree to compare with"},
	{"allow-cross-namespace", all, func(o *Options) any { return &o.AllowCrossNamespace }, false, "let an object name Secrets of other namespaces; the global options cross-namespace-secrets-* do so for one kind"},
	{"allow-local-endpoints", all, func(o *Options) any { return &o.AllowLocalEndpoints }, false, "let Services lead to loopback and link-local addresses: for demonstrations and tests"},
	{"backend-shards", all, func(o *Options) any { return &o.BackendShards }, 0, "number of files that backends are divided in, 1 to 1024; 0: automatic"},
	{"bootstrap", Render, func(o *Options) any { return &o.Bootstrap }, false, "write a configuration folder to start HAProxy on before sluice runs: it answers 503, and 200 to /healthz of --health-address; needs no SOURCE"},
	{"config-dir", Run, func(o *Options) any { return &o.ConfigDir }, "/etc/haproxy/sluice", "folder of the HAProxy configuration; must belong to sluice alone"},
	{"configmap", all, func(o *Options) any { return &o.ConfigMap }, "", "namespace/name of the global ConfigMap; empty: " + presetConfigMap + ", if there is one"},
	{"controller-class", all, func(o *Options) any { return &o.ControllerClass }, "", "for one of several installations in a cluster: it serves the IngressClasses and GatewayClasses whose controller is " + controllerName + "/ followed by this name, and no others; empty: those without a name"},
	{"default-backend-service", all, func(o *Options) any { return &o.DefaultBackendService }, "", "namespace/name of the Service for requests that no route matches, through its first TCP port; empty: they are answered 404"},
	{"default-ssl-certificate", all, func(o *Options) any { return &o.DefaultSSLCertificate }, "", "namespace/name of the Secret for hosts without a certificate; empty: a self-signed one"},
	{"gateway-addresses", all, func(o *Options) any { return &o.GatewayAddresses }, []string(nil), "IP addresses, or networks such as 10.0.0.0/24, that Gateways may be given: each gets one of its own, and its listeners are bound to it; empty: Gateways share the addresses of the machine, by port and host"},
	{"gateway-api", Run, func(o *Options) any { return &o.GatewayAPI }, true, "with a cluster: follow objects of the Gateway API from when its CRDs are installed on"},
	{"haproxy", Run | Check, func(o *Options) any { return &o.HAProxy }, "", "HAProxy's binary; empty: run takes $SLUICE_HAPROXY or that on the PATH, check asks no HAProxy"},
	{"haproxy-memory-limit", Run, func(o *Options) any { return &o.HAProxyMemoryLimit }, "", "memory of the container that HAProxy runs in, in bytes or as a quantity such as 512Mi; each of its processes is held to half of what $GOMEMLIMIT leaves of it; empty: no limit"},
	{"health-address", all, func(o *Options) any { return &o.HealthAddress }, []string(nil), "addresses at which HAProxy itself answers /healthz (it runs) and /readyz (it serves what the objects ask for); empty: none"},
	{"http-address", all, func(o *Options) any { return &o.HTTPAddress }, []string{"*:80", "[::]:80"}, "addresses of the HTTP listener"},
	{"https-address", all, func(o *Options) any { return &o.HTTPSAddress }, []string{"*:443", "[::]:443"}, "addresses of the HTTPS listener"},
	{"ingress-class", all, func(o *Options) any { return &o.IngressClass }, "sluice", "class that the annotation kubernetes.io/ingress.class may name without an IngressClass object; classes are served by their controller, see --controller-class"},
	{"kubeconfig", Run, func(o *Options) any { return &o.KubeConfig }, "", "kubeconfig of the cluster to serve; empty, without --source: the cluster that sluice runs in, else the default kubeconfig"},
	{"leader-elect", Run, func(o *Options) any { return &o.LeaderElect }, true, "with a cluster: only the replica that holds the Lease sluice (sluice-CLASS with --controller-class, or another --ingress-class) writes statuses and Events; without it there must be one replica only"},
	{"log-format", Run, func(o *Options) any { return &o.LogFormat }, "text", "format of sluice's own log: text or json"},
	{"log-level", Run, func(o *Options) any { return &o.LogLevel }, "info", "debug, info, warn or error"},
	{"master-socket", Run, func(o *Options) any { return &o.MasterSocket }, "", "master socket of an HAProxy that somebody else starts, on current/conf.d of the configuration folder and with the same --run-dir; empty: sluice starts and supervises HAProxy"},
	{"node-name", all, func(o *Options) any { return &o.NodeName }, "", "node that HAProxy runs on: Services with a trafficDistribution prefer endpoints with a hint for it"},
	{"old-workers", Run, func(o *Options) any { return &o.OldWorkers }, 2, "how many HAProxy workers of earlier configurations may still finish their connections when a reload begins: one that finds as many waits until one has ended, for timeout-stop at most; changes that need no reload go on meanwhile; 0: any number"},
	{"once", Run, func(o *Options) any { return &o.Once }, false, "bring HAProxy to the present state of the source and exit"},
	{"out", Render, func(o *Options) any { return &o.Out }, "", "folder to write the tree to; - prints it"},
	{"output", Check | Diff, func(o *Options) any { return &o.Output }, "text", "text or json"},
	{"publish-address", Run | Render, func(o *Options) any { return &o.PublishAddress }, []string(nil), "IP addresses or host names to write into the status of Ingresses"},
	{"publish-service", Run | Render, func(o *Options) any { return &o.PublishService }, "", "namespace/name of the Service whose addresses are written into the status of Ingresses; without it and --publish-address: those of the nodes that the controller's pods run on"},
	{"reload-interval", Run, func(o *Options) any { return &o.ReloadInterval }, time.Second, "time between two reloads in the long run, since each leaves an old HAProxy behind until its connections end; ten in a row go through at once, and changes that need no reload never wait"},
	{"run-dir", all, func(o *Options) any { return &o.RunDir }, "/var/run/sluice", "folder of sockets and the pid file; stands in the configuration"},
	{"running", Diff, func(o *Options) any { return &o.Running }, "", "admin URL of a running sluice to compare with"},
	{"source", Run, func(o *Options) any { return &o.Source }, []string(nil), "files or folders of manifests to serve, watched for changes; -: standard input"},
	{"state-dir", Run, func(o *Options) any { return &o.StateDir }, "/var/lib/sluice", "folder of the registry and of the controller's own certificate"},
	{"status", Render, func(o *Options) any { return &o.Status }, "", "file to write the statuses and findings of all objects to, as run does without a cluster; - prints them"},
	{"stop-timeout", Run, func(o *Options) any { return &o.StopTimeout }, 30 * time.Second, "how long HAProxy may finish requests and connections when sluice is stopped"},
	{"tcp-services-configmap", all, func(o *Options) any { return &o.TCPServicesConfigMap }, "", "namespace/name of the ConfigMap of TCP services: port to namespace/service:port, see docs/tcp.md"},
	{"templates", all, func(o *Options) any { return &o.Templates }, "", "folder of templates to use in place of the built-in ones"},
	{"udp", Render, func(o *Options) any { return &o.UDP }, "", "file to write the listeners for datagrams to, which sluice serves itself, beside HAProxy; - prints them"},
	{"udp-idle-timeout", Run, func(o *Options) any { return &o.UDPIdleTimeout }, time.Minute, "how long a client of a UDP listener keeps its server while neither sends anything"},
	{"udp-sessions", Run, func(o *Options) any { return &o.UDPSessions }, 4096, "clients of a UDP listener that have a server at a time; each costs a file descriptor, and the one that was silent for longest makes room"},
	{"update-status", Run, func(o *Options) any { return &o.UpdateStatus }, true, "write the status of objects: to the cluster or, without one, to status.yaml in the state folder"},
	{"watch-ingress-without-class", all, func(o *Options) any { return &o.WatchWithoutClass }, false, "serve Ingresses that name no class, too"},
	{"watch-namespace", Run, func(o *Options) any { return &o.WatchNamespaces }, []string(nil), "namespaces of the cluster to serve, so that Roles in them suffice; empty: all"},
	{"with-keys", Render, func(o *Options) any { return &o.WithKeys }, false, "write private keys and password hashes, too"},
	{"zone", all, func(o *Options) any { return &o.Zone }, "", "zone that HAProxy runs in (topology.kubernetes.io/zone of its node): Services with a trafficDistribution, or with topology-mode Auto, prefer endpoints with a hint for it"},
}

// Bind defines the flags of a command.
func (o *Options) Bind(flags *pflag.FlagSet, command Command) {
	for _, f := range table {
		if f.on&command == 0 {
			continue
		}
		switch value := f.value(o).(type) {
		case *string:
			short := map[string]string{"output": "o"}[f.name]
			flags.StringVarP(value, f.name, short, f.preset.(string), f.usage)
		case *bool:
			flags.BoolVar(value, f.name, f.preset.(bool), f.usage)
		case *int:
			flags.IntVar(value, f.name, f.preset.(int), f.usage)
		case *time.Duration:
			flags.DurationVar(value, f.name, f.preset.(time.Duration), f.usage)
		case *[]string:
			flags.StringSliceVar(value, f.name, f.preset.([]string), f.usage)
		default:
			panic(fmt.Sprintf("options: flag %s has a value of type %T", f.name, value))
		}
	}
}

// Validate checks what a flag's type does not say, and makes the folders absolute: HAProxy
// and sluice need not agree on what the current folder is. Its errors say what to write
// instead.
func (o *Options) Validate() error {
	for _, check := range []func() error{o.validateSource, o.validateNames, o.validateFolders, o.validateAddresses, o.validateWords, o.validateUDP} {
		if err := check(); err != nil {
			return err
		}
	}
	if _, err := o.ProcessMemory(math.MaxInt64); err != nil {
		return err
	}
	if o.BackendShards < 0 || o.BackendShards > 1024 {
		return fmt.Errorf("--backend-shards=%d: write a number from 1 to 1024, or 0 for automatic", o.BackendShards)
	}
	// An HAProxy that dies is started again by the reload in flight, which must not wait long.
	if o.ReloadInterval < 0 || o.ReloadInterval > 10*time.Second {
		return fmt.Errorf("--reload-interval=%s: write a time up to 10s, or 0 for no bound", o.ReloadInterval)
	}
	if o.OldWorkers < 0 {
		return fmt.Errorf("--old-workers=%d: write a number of processes, or 0 for no bound", o.OldWorkers)
	}
	return nil
}

func (o *Options) validateSource() error {
	switch {
	case len(o.Source) > 0 && o.KubeConfig != "":
		return errors.New("--source and --kubeconfig exclude each other: name manifests or a cluster")
	case len(o.Source) > 0 && len(o.WatchNamespaces) > 0:
		return errors.New("--watch-namespace is for a cluster; leave it out with --source")
	}
	for _, namespace := range o.WatchNamespaces {
		if namespace == "" || strings.ContainsAny(namespace, "/* ") {
			return fmt.Errorf("--watch-namespace=%s: write the name of a namespace", namespace)
		}
	}
	return nil
}

func (o *Options) validateNames() error {
	for _, ref := range []struct{ flag, value string }{
		{"configmap", o.ConfigMap}, {"default-backend-service", o.DefaultBackendService}, {"default-ssl-certificate", o.DefaultSSLCertificate},
		{"tcp-services-configmap", o.TCPServicesConfigMap},
		{"publish-service", o.PublishService},
	} {
		if _, _, ok := SplitName(ref.value); ref.value != "" && !ok {
			return fmt.Errorf("--%s=%s: write namespace/name", ref.flag, ref.value)
		}
	}
	for _, address := range o.PublishAddress {
		if _, err := netip.ParseAddr(address); err != nil && len(validation.IsDNS1123Subdomain(address)) > 0 {
			return fmt.Errorf("--publish-address=%s: write an IP address or a host name", address)
		}
	}
	if problems := validation.IsDNS1123Subdomain(o.ControllerClass); o.ControllerClass != "" && len(problems) > 0 {
		return fmt.Errorf("--controller-class=%s: write a name of lower case letters, digits and '-'", o.ControllerClass)
	}
	if o.PublishService != "" && len(o.PublishAddress) > 0 {
		return errors.New("--publish-service and --publish-address: give one of them")
	}
	return nil
}

func (o *Options) validateFolders() error {
	for _, folder := range []struct {
		flag string
		path *string
	}{{"config-dir", &o.ConfigDir}, {"state-dir", &o.StateDir}, {"run-dir", &o.RunDir}} {
		if *folder.path == "" {
			continue // the command does not have the flag
		}
		path, err := filepath.Abs(*folder.path)
		if err != nil {
			return fmt.Errorf("--%s: %w", folder.flag, err)
		}
		*folder.path = path
	}
	// HAProxy splits addresses, which paths of sockets are, at commas, and puts environment
	// variables in (configuration manual, "bind").
	if i := strings.IndexAny(o.RunDir, ",$\n"); i >= 0 {
		return fmt.Errorf("--run-dir=%s: HAProxy can't have a socket in a folder with %q in its name; name another folder", o.RunDir, o.RunDir[i])
	}
	return nil
}

func (o *Options) validateAddresses() error {
	for _, list := range []struct {
		flag      string
		addresses []string
	}{{"health-address", o.HealthAddress}, {"http-address", o.HTTPAddress}, {"https-address", o.HTTPSAddress}} {
		for _, address := range list.addresses {
			if !validAddress(address) {
				return fmt.Errorf("--%s=%s: write ADDRESS:PORT with an IP address; *:PORT stands for all IPv4 and [::]:PORT for all IPv6 addresses", list.flag, address)
			}
		}
	}
	_, err := o.GatewayPool()
	return err
}

// GlobalConfigMap is the namespace/name of the global ConfigMap. Only one that a flag names
// has to exist.
func (o *Options) GlobalConfigMap() string { return cmp.Or(o.ConfigMap, presetConfigMap) }

// ControllerName is the controller of the classes that are served.
func (o *Options) ControllerName() string {
	if o.ControllerClass == "" {
		return controllerName
	}
	return controllerName + "/" + o.ControllerClass
}

// GatewayPool are the networks of --gateway-addresses.
func (o *Options) GatewayPool() ([]netip.Prefix, error) {
	var pool []netip.Prefix
	for _, text := range o.GatewayAddresses {
		prefix, err := netip.ParsePrefix(text)
		if address, single := netip.ParseAddr(text); single == nil {
			prefix, err = netip.PrefixFrom(address, address.BitLen()), nil
		}
		if err != nil || prefix.Addr().Zone() != "" {
			return nil, fmt.Errorf("--gateway-addresses=%s: write IP addresses, or networks such as 10.0.0.0/24", text)
		}
		pool = append(pool, prefix.Masked())
	}
	return pool, nil
}

// validAddress tells whether HAProxy can listen on an address. A name is refused: HAProxy
// would look it up at each load, and not load without an answer.
func validAddress(address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "*" || err == nil && ip.Zone() == ""
}

func (o *Options) validateWords() error {
	for _, word := range []struct {
		flag, value string
		valid       []string
	}{
		{"log-format", o.LogFormat, []string{"text", "json"}},
		{"log-level", o.LogLevel, []string{"debug", "info", "warn", "error"}},
		{"output", o.Output, []string{"text", "json"}},
	} {
		if word.value != "" && !slices.Contains(word.valid, word.value) {
			return fmt.Errorf("--%s=%s: write one of: %s", word.flag, word.value, strings.Join(word.valid, ", "))
		}
	}
	return nil
}

func (o *Options) validateUDP() error {
	if o.UDPSessions == 0 && o.UDPIdleTimeout == 0 {
		return nil // the command does not have the flags
	}
	if o.UDPSessions < 1 || o.UDPSessions > 1<<20 {
		return fmt.Errorf("--udp-sessions=%d: write a number from 1 to %d", o.UDPSessions, 1<<20)
	}
	if o.UDPIdleTimeout < time.Second || o.UDPIdleTimeout > 24*time.Hour {
		return fmt.Errorf("--udp-idle-timeout=%s: write a time from 1s to 24h", o.UDPIdleTimeout)
	}
	return nil
}

// SplitName divides namespace/name.
func SplitName(text string) (namespace, name string, ok bool) {
	namespace, name, ok = strings.Cut(text, "/")
	return namespace, name, ok && namespace != "" && name != "" && !strings.Contains(name, "/")
}

// leastMemory is what an HAProxy process needs to start and to serve some hundred connections.
const leastMemory = 32 << 20

// ProcessMemory is the limit of each HAProxy process in bytes that --haproxy-memory-limit
// leads to; 0: none. The container's memory is shared: own is what the controller is held
// to (a limit that is not below the container's says nothing and takes nothing), and while
// a reload is in flight, or an old worker finishes its connections, there are two workers.
func (o *Options) ProcessMemory(own int64) (int64, error) {
	if o.HAProxyMemoryLimit == "" {
		return 0, nil
	}
	if o.MasterSocket != "" {
		return 0, errors.New("--haproxy-memory-limit is for an HAProxy that sluice starts; with --master-socket, start HAProxy with -m MEGABYTES, or below sluice-init --haproxy-memory-limit")
	}
	quantity, err := resource.ParseQuantity(o.HAProxyMemoryLimit)
	if err != nil {
		return 0, fmt.Errorf("--haproxy-memory-limit=%s: write a number of bytes, or a quantity such as 512Mi", o.HAProxyMemoryLimit)
	}
	limit := quantity.Value()
	if own < limit {
		limit -= own
	}
	if limit /= 2; limit < leastMemory {
		return 0, fmt.Errorf("--haproxy-memory-limit=%s leaves %d MiB for each HAProxy process, which needs %d at least: give the container more memory, or sluice a lower GOMEMLIMIT",
			o.HAProxyMemoryLimit, limit>>20, leastMemory>>20)
	}
	return limit, nil
}

// Binary is the path of HAProxy's binary: --haproxy, $SLUICE_HAPROXY or that on the PATH.
func (o *Options) Binary() (string, error) {
	name := o.HAProxy
	if name == "" {
		name = os.Getenv("SLUICE_HAPROXY")
	}
	if name == "" {
		name = "haproxy"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("HAProxy is not found (%w): install HAProxy 3.2 or later, or name its binary with --haproxy or $SLUICE_HAPROXY", err)
	}
	return path, nil
}
