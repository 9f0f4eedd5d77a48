package memo

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/sluice-proxy/sluice/pkg/converters/ingress"
	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/resolve"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// Options are what the flags say. Zero keys stand for "none".
type Options struct {
	Class                    ingress.Class
	ConfigMap                snapshot.Key       // the global settings
	ConfigMapNamed           bool               // it has to exist
	DefaultCertificate       *model.Certificate // the controller's own; required
	DefaultCertificateSecret snapshot.Key       // serves hosts without a certificate in its place, where it can be used
	DefaultBackendService    snapshot.Key       // serves what nobody claims, through its first port
	TCPServices              snapshot.Key       // the ConfigMap of TCP services
	Bind                     resolve.Bind
	AdminAddress             string // no TCP service gets its port, nor those of Bind and Health
	Health                   model.Health
	GatewayAddresses         []netip.Prefix // each Gateway gets one of its own; none: all share those of Bind
	AllowCrossNamespace      bool           // objects may name Secrets of other namespaces
	Place                    resolve.Place
	AllowLocalEndpoints      bool // Services may lead to loopback and link-local addresses
}

// Memo holds the units and the Model that they last gave.
type Memo struct {
	options  Options
	snapshot *snapshot.Snapshot // of the last Update
	now      time.Time          // of the last Update

	index        index
	global       *globalUnit
	fallback     *ingressUnit // claims AnyHost for the default backend service; nil without one
	tcpServices  *ingressUnit // claims ports for the ConfigMap of TCP services; nil without one
	ingresses    map[snapshot.Key]*ingressUnit
	backends     map[string]*backendUnit
	certificates map[snapshot.Key]*certificateUnit
	expiry       time.Time // the earliest certificateUnit.fragment.Next, or before it

	units     gatewayUnits
	published []string             // as of the last call of Statuses
	served    []*model.Frontend    // of the Model
	servedTCP []*model.TCPFrontend // of the Model

	routes map[routeID]*route
	hosts  map[string]*host
	below  map[string]set[*host] // name -> the known hosts of one label more
	ports  map[int]*port
	names  map[string]*named // backends by name
	pools  pools
	// heldBroken is the share in the profile of what answers 500; nil: there is no Gateway.
	heldBroken []holding

	takenPorts []int                // of sluice's own listeners
	frontends  []*model.TCPFrontend // of ports, sorted

	groups     map[string]*group // hosts of one certificate; "" is the default one
	groupNames []string          // sorted

	work       work
	quarantine quarantine
	findings   map[any][]report.Finding // by unit, route or host; see Report
	counts     map[string]int
	converted  map[snapshot.Key]bool // see Converted
	model      *model.Model
}

// New is an empty Memo.
func New(o Options) *Memo {
	if o.DefaultCertificate == nil {
		panic("memo: Options.DefaultCertificate is required: HAProxy starts no TLS listener without one")
	}
	m := &Memo{
		options:      o,
		index:        newIndex(0),
		ingresses:    map[snapshot.Key]*ingressUnit{},
		backends:     map[string]*backendUnit{},
		certificates: map[snapshot.Key]*certificateUnit{},
		units:        newGatewayUnits(),
		routes:       map[routeID]*route{},
		hosts:        map[string]*host{},
		below:        map[string]set[*host]{},
		ports:        map[int]*port{},
		takenPorts:   portsOf(slices.Concat(o.Bind.HTTP, o.Bind.HTTPS, o.Health.Addresses, []string{o.AdminAddress})...),
		names:        map[string]*named{},
		groups:       map[string]*group{},
		pools:        newPools(),
		quarantine:   newQuarantine(),
		findings:     map[any][]report.Finding{},
		counts:       map[string]int{},
		converted:    map[snapshot.Key]bool{},
		model:        emptyModel(),
	}
	m.model.Health = o.Health
	m.work = newWork()
	m.global = &globalUnit{}
	m.work.global = true
	if o.DefaultBackendService != (snapshot.Key{}) {
		m.fallback = &ingressUnit{key: o.DefaultBackendService}
		m.work.ingresses.add(m.fallback)
	}
	if o.TCPServices != (snapshot.Key{}) {
		m.tcpServices = &ingressUnit{key: o.TCPServices}
		m.work.ingresses.add(m.tcpServices)
	}
	return m
}

func emptyModel() *model.Model {
	return &model.Model{
		Backends: &model.Backends{},
		Tables: []*model.Table{
			tableTLS:        {Name: model.TableTLS},
			tableHosts:      {Name: model.TableHosts},
			tableWildcards:  {Name: model.TableWildcards},
			tableExact:      {Name: model.TableExact},
			tablePrefix:     {Name: model.TablePrefix},
			tableTCP:        {Name: model.TableTCP},
			tableValues:     {Name: model.TableValues},
			tableMirrors:    {Name: model.TableMirrors},
			tableListeners:  {Name: model.TableListeners},
			tableRules:      {Name: model.TableRules},
			tablePrefixes:   {Name: model.TablePrefixes},
			tableConditions: {Name: model.TableConditions},
			tableWeights:    {Name: model.TableWeights},
		},
	}
}

// Update runs what depends on the touched keys, and on the time, and returns the Model:
// the same pointer where nothing changed, else one that shares the unchanged parts.
func (m *Memo) Update(s *snapshot.Snapshot, touched []snapshot.Key, now time.Time) *model.Model {
	m.snapshot, m.now = s, now
	if len(m.index.units) == 0 {
		m.reserve()
	}
	for _, key := range touched {
		if m.onlyStatus(key) {
			continue
		}
		m.show(key)
		m.mark(key)
	}
	for _, key := range m.quarantine.takePending() {
		m.mark(key)
	}
	m.markExpired()

	m.runGlobal()
	for unit := range m.work.ingresses.drain {
		m.runIngress(unit)
	}
	for unit := range m.work.policies.drain {
		m.runPolicy(unit)
	}
	for unit := range m.work.classes.drain {
		m.runClass(unit)
	}
	for unit := range m.work.gateways.drain {
		m.runGateway(unit)
	}
	for unit := range m.work.gatewayRoutes.drain {
		m.runRoute(unit)
	}
	m.settleGateways()
	m.settlePorts()
	m.settleRoutes()
	m.settlePortSecrets()
	m.settleTLS()
	m.settleVirtualHosts()
	m.settleUDP()
	for _, f := range m.work.listeners.items {
		m.askSecrets(f)
	}
	for unit := range m.work.backends.drain {
		m.runBackend(unit)
	}
	for unit := range m.work.certificates.drain {
		m.runCertificate(unit)
	}
	m.dropIdle()
	m.settleMirrors()
	m.settleDefaultCertificate()
	m.settleNames()
	m.settleEntries()
	m.settlePrograms()
	m.settleUDPModels()
	m.settleGatewayHosts()
	m.settleListeners()
	m.settleFrontends()
	m.settleHosts()
	m.model = m.compose()
	m.work = newWork()
	return m.model
}

// reserve makes room for everything, once: maps that grow bit by bit cost a third more.
func (m *Memo) reserve() {
	ingresses, all := m.snapshot.Len(snapshot.Ingress), 0
	for _, kind := range []snapshot.Kind{snapshot.Ingress, snapshot.Service, snapshot.Secret, snapshot.ConfigMap} {
		all += m.snapshot.Len(kind)
	}
	m.index.units = make(map[snapshot.Key]set[node], all+m.snapshot.Len(snapshot.Service)) // a Service, and its endpoints
	m.quarantine.shown = make(map[snapshot.Key]any, all)
	m.ingresses = make(map[snapshot.Key]*ingressUnit, ingresses)
	m.backends = make(map[string]*backendUnit, ingresses)
	m.routes = make(map[routeID]*route, ingresses)
	m.hosts = make(map[string]*host, ingresses)
	m.names = make(map[string]*named, ingresses)
}

// onlyStatus tells whether nothing that is read of an Ingress changed: its status did, and
// that is written by sluice itself, for each Ingress once.
func (m *Memo) onlyStatus(key snapshot.Key) bool {
	if gatewayKind(key.Kind) || key.Kind == snapshot.BackendTLSPolicy {
		return m.onlyGatewayStatus(key)
	}
	unit := m.ingresses[key]
	after, _ := m.snapshot.Object(key).(*networkingv1.Ingress)
	if unit == nil || unit.form == nil || after == nil || !after.CreationTimestamp.Equal(&unit.form.CreationTimestamp) || !sameForm(unit.form, after) {
		return false
	}
	unit.form = after
	m.converted[key] = m.ours(unit)
	return true
}

// ours tells whether an Ingress is this controller's. One in quarantine is, whatever form of
// it is served: HAProxy refused what it asks for.
func (m *Memo) ours(unit *ingressUnit) bool {
	_, refused := m.quarantine.refused[unit.key]
	return unit.fragment.Mine || refused
}

// mark notes what depends on a key.
func (m *Memo) mark(key snapshot.Key) {
	if key.Kind == snapshot.Ingress && m.ingresses[key] == nil {
		if m.snapshot.Object(key) == nil {
			return
		}
		unit := &ingressUnit{key: key}
		m.ingresses[key] = unit
		m.work.ingresses.add(unit)
	}
	m.markGateway(key)
	m.index.units[key].each(m.markUnit)
}

func (m *Memo) markUnit(unit node) {
	switch unit := unit.(type) {
	case *globalUnit:
		m.work.global = true
	case *ingressUnit:
		m.work.ingresses.add(unit)
	case *backendUnit:
		m.work.backends.add(unit)
	case *certificateUnit:
		m.work.certificates.add(unit)
	case *classUnit:
		m.work.classes.add(unit)
	case *policyUnit:
		m.work.policies.add(unit)
	case *gatewayUnit:
		m.work.gateways.add(unit)
	case *routeUnit:
		m.work.gatewayRoutes.add(unit)
	}
}

// Conversions is the number of units run so far, by kind: global, ingress, class, gateway,
// route, backend and certificate. An object of a foreign class does not count.
func (m *Memo) Conversions() map[string]int { return maps.Clone(m.counts) }

// Wanted are the Secrets and ConfigMaps that units look up now, found or missing, and did
// not at the last call; and those of which the opposite is true. Both lists are sorted.
func (m *Memo) Wanted() (wanted, unwanted []snapshot.Key) { return m.index.turns() }

// Converted are the Ingresses that were converted since the last call, or whose status alone
// changed, and whether each is this controller's.
func (m *Memo) Converted() map[snapshot.Key]bool {
	converted := m.converted
	m.converted = map[snapshot.Key]bool{}
	return converted
}

// view is what units see: the snapshot, with the forms that quarantine gives.
func (m *Memo) view() *snapshot.View { return m.snapshot.Substituted(m.quarantine.forms) }
