package resolve

import (
	"net/netip"
	"slices"

	"github.com/sluice-proxy/sluice/pkg/converters/report"
	"github.com/sluice-proxy/sluice/pkg/converters/snapshot"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/token"
)

// Options that name a Secret.
const (
	optionUsers     = "auth-secret"
	optionAuthority = "secure-verify-ca-secret"
	optionClient    = "secure-crt-secret"
)

// crossNamespace are the global options that let an object name Secrets of other namespaces.
var crossNamespace = map[string]string{
	optionUsers:     "cross-namespace-secrets-passwd",
	optionAuthority: "cross-namespace-secrets-ca",
	optionClient:    "cross-namespace-secrets-crt",
}

// Options that are address lists of a path.
const (
	optionAllow = "allowlist-source-range"
	optionDeny  = "denylist-source-range"
)

// lists keep clients out by their address. A list that can't be read is denied by
// Set.Denied.
func (b *behaviour) lists() {
	if networks := b.set.CIDRs(optionAllow); len(networks.Include)+len(networks.Exclude) > 0 {
		b.shape.AllowList = b.list(optionAllow, "allow", networks.Include)
		b.shape.AllowExcept = b.list(optionAllow, "allow-except", networks.Exclude)
	}
	if networks := b.set.CIDRs(optionDeny); len(networks.Include)+len(networks.Exclude) > 0 {
		b.shape.DenyList = b.list(optionDeny, "deny", networks.Include)
		b.shape.DenyExcept = b.list(optionDeny, "deny-except", networks.Exclude)
	}
}

// list is named after the object and the option it stands in, so that its entries can change at run
// time while the profile that names it stays the same. An empty list of exceptions is none;
// an empty list of what is allowed or denied is a list all the same: it allows nobody.
func (b *behaviour) list(option, part string, networks []netip.Prefix) *model.List {
	if len(networks) == 0 && (part == "allow-except" || part == "deny-except") {
		return nil
	}
	origin := b.set.Origin(option)
	return &model.List{
		Name:    "l_" + model.NewHasher().Str(part, origin.String()).Digest().String(),
		Entries: entriesOf(networks),
		Origin:  origin,
	}
}

func entriesOf(networks []netip.Prefix) []string {
	entries := make([]string, 0, len(networks))
	for _, network := range networks {
		text := network.Masked().String()
		if network.IsSingleIP() {
			text = network.Addr().String()
		}
		entry, err := token.MapKey(text)
		if err != nil {
			panic("resolve: an address can't stand in a list: " + err.Error())
		}
		entries = append(entries, entry)
	}
	slices.Sort(entries)
	return slices.Compact(entries)
}

// users is HTTP basic authentication.
func (b *behaviour) users() {
	key, named := b.secret(optionUsers)
	if !named {
		return
	}
	list := usersOf(b.v, key)
	b.findings = append(b.findings, list.findings...)
	if list.list == nil {
		b.deny(optionUsers, "%s", list.why)
		return
	}
	b.shape.BasicAuth = &model.Auth{Users: list.list, Realm: b.set.Text("auth-realm")}
}

// secret is the Secret that an option names. One of another namespace is refused, unless
// the administrator named it or allowed it; this comes before any look-up, so that nobody
// can learn what exists elsewhere.
func (b *behaviour) secret(option string) (key snapshot.Key, named bool) {
	namespace, name := b.set.Secret(option)
	if name == "" {
		return snapshot.Key{}, false
	}
	origin := b.set.Origin(option)
	if namespace == "" {
		namespace = origin.Namespace
	}
	administrators := origin.Kind == string(snapshot.ConfigMap)
	permission := crossNamespace[option]
	if namespace != origin.Namespace && !administrators && !b.g.AnyNamespace && b.g.Set.Text(permission) != "allow" {
		b.report(report.CrossNamespace, option, "%s names Secret %s/%s; name one of namespace %s, or let the administrator set %s to allow in the global ConfigMap",
			option, namespace, name, origin.Namespace, permission)
		b.deny(option, "a Secret of another namespace may not be named")
		return snapshot.Key{}, false
	}
	return snapshot.Key{Kind: snapshot.Secret, Namespace: namespace, Name: name}, true
}
