package memo

import (
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/token"
)

// Places of the tables in Model.Tables.
const (
	tableTLS = iota
	tableHosts
	tableWildcards
	tableExact
	tablePrefix
	tableTCP
	tableValues
	tableMirrors
	tableListeners
	tableRules
	tablePrefixes
	tableConditions
	tableWeights
	tableCount
)

// work is what one Update has to do. Each step takes from it what the steps before it, or
// the touched keys, put in.
type work struct {
	global       bool
	ingresses    queue[*ingressUnit]
	ports        queue[*port]  // the claims on it changed
	claims       queue[*route] // the claims on it changed
	tls          queue[*host]  // the claims on its certificate changed
	backends     queue[*backendUnit]
	certificates queue[*certificateUnit]
	names        queue[string] // backends that may have changed, by name
	routes       queue[*route] // its backend may have another name
	hosts        queue[*host]  // its routes, its certificate or that of its wildcard changed

	frontends queue[*port] // its routes, its certificate or the global settings changed

	classes       queue[*classUnit]
	policies      queue[*policyUnit]
	gateways      queue[*gatewayUnit]
	gatewayRoutes queue[*routeUnit]
	gone          []*gatewayUnit      // Gateways that are no more
	placing       bool                // a Gateway changed
	standing      queue[*routeUnit]   // its attachments, or listeners of them, changed
	vhosts        queue[*virtualHost] // its rules, or the names of their backends, changed
	listeners     queue[*frontend]    // its listeners or certificates changed
	gatewayHosts  queue[frontendHost] // its virtual host may be another one
	udp           queue[*udpListener] // its routes, or their backends, changed
	mirrors       queue[*backendUnit] // who mirrors to it, or its name, changed
	crtLines      bool                // so did its certificates

	idleBackends     queue[*backendUnit]
	idleCertificates queue[*certificateUnit]

	edits         [tableCount][]model.Edit
	put           []*model.Backend
	remove        []string
	groups        map[string]map[string]bool // certificate -> host -> whether it is served with it
	defaultChange bool                       // of the default certificate
}

func newWork() work { return work{groups: map[string]map[string]bool{}} }

// edit puts an entry into a table or, with the empty value, takes it out. This is where
// texts become lines of a map file, so each passes its encoder. All of them were checked
// where they were read: one that is refused here is a bug.
func (w *work) edit(table int, key, value string) {
	e := model.Edit{Key: encoded(token.MapKey(key))}
	if value != "" {
		value = encoded(token.MapValue(value))
		e.Value = &value
	}
	w.edits[table] = append(w.edits[table], e)
}

func encoded(text string, err error) string {
	if err != nil {
		panic("memo: a text that was checked can't stand in a map: " + err.Error())
	}
	return text
}

// regroup says that a host joins or leaves those of a certificate.
func (w *work) regroup(certificate, host string, joins bool) {
	if w.groups[certificate] == nil {
		w.groups[certificate] = map[string]bool{}
	}
	w.groups[certificate][host] = joins
}
